# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import UnreadableOutput
from ktrial.machine.kernel_log import KernelRecord, read_kmsg

#: Read from /dev/kmsg of Linux 6.18 in a Firecracker guest with `dd iflag=nonblock`.
RECORDED = b"""\
4,2,0,-;[Firmware Bug]: TSC doesn't count with P0 frequency!
6,155,190417,-;pci 0000:00:01.0: [1af4:1043] type 00 class 0x078000 PCIe Endpoint
 SUBSYSTEM=pci
 DEVICE=+pci:0000:00:01.0
6,983,5790730646,-;zram1: detected capacity change from 0 to 524288
"""


def test_records_and_their_severity() -> None:
    assert read_kmsg(RECORDED) == (
        KernelRecord(2, 4, 0, "[Firmware Bug]: TSC doesn't count with P0 frequency!"),
        KernelRecord(155, 6, 190417, "pci 0000:00:01.0: [1af4:1043] type 00 class 0x078000 PCIe Endpoint"),
        KernelRecord(983, 6, 5790730646, "zram1: detected capacity change from 0 to 524288"),
    )


def test_facility_fragments_and_escapes() -> None:
    (record,) = read_kmsg(b"30,7,9,c,caller=T1;a;b \\xc3\\xa4\\x0a\n")
    assert record == KernelRecord(7, 6, 9, "a;b ä\n")


def test_an_empty_log_has_no_records() -> None:
    assert read_kmsg(b"") == ()


@pytest.mark.parametrize("data", [b"hello\n", b" SUBSYSTEM=pci\n", b"6,1;x\n", b"6,x,1,-;x\n", b"<6>[ 1.0] x\n"])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableOutput) as error:
        read_kmsg(data)
    assert (error.value.source, error.value.line) == ("/dev/kmsg", 1)


@given(st.binary(max_size=300))
def test_any_bytes_are_records_or_an_error(data: bytes) -> None:
    try:
        records = read_kmsg(data)
    except UnreadableOutput:
        return
    assert all(0 <= record.level <= 7 for record in records)


@given(st.binary(max_size=60))
def test_a_damaged_record_is_one_or_an_error(data: bytes) -> None:
    try:
        assert len(read_kmsg(b"6,1,1,-;" + data)) >= 1
    except UnreadableOutput:
        assert b"\n" in data

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.guests.boot_time import kernel_us, read_initcalls
from ktrial.machine.kernel_log import KernelRecord

TEXTS = (
    "calling  pci_init+0x0/0x30 @ 1",
    "initcall pci_init+0x0/0x30 returned 0 after 120 usecs",
    "initcall init_module+0x0/0x50 [brd] returned -19 after 4000 usecs",
    "initcall trace_init+0x0/0x10 returned 0 after 120 usecs",
    "Run /init as init process",
)


def records(texts: tuple[str, ...]) -> tuple[KernelRecord, ...]:
    return tuple(KernelRecord(number, 7, number * 1000, text) for number, text in enumerate(texts))


def test_steps_are_told_the_slowest_first() -> None:
    found = [(call.name, call.us) for call in read_initcalls(records(TEXTS))]
    assert found == [("init_module", 4000), ("pci_init", 120), ("trace_init", 120)]
    assert kernel_us(records(TEXTS)) == 4000
    assert kernel_us(records(TEXTS[:-1])) is None


@settings(max_examples=50)
@given(st.lists(st.text(max_size=60), max_size=4))
def test_any_log_is_read(texts: list[str]) -> None:
    assert len(read_initcalls(records(tuple(texts)))) <= len(texts)

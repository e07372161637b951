# SPDX-License-Identifier: Apache-2.0
r"""`/dev/kmsg`: `PRIORITY,NUMBER,MICROSECONDS,FLAGS[,…];TEXT`, then lines ` KEY=VALUE` that belong to the record.

The lower three bits of the priority are the severity. Bytes of the text that are not printable ASCII stand as `\xNN`.
"""

from __future__ import annotations

import re

from ktrial.kit.errors import UnreadableOutput
from ktrial.machine.kernel_log import KernelRecord

SOURCE = "/dev/kmsg"
_RECORD = re.compile(r"(\d{1,6}),(\d{1,20}),(\d{1,20}),[^;]*;(.*)")
_ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
_SEVERITY = 7


def read_kmsg(data: bytes) -> tuple[KernelRecord, ...]:
    """The records in order; none of an empty log. Raises UnreadableOutput for what is no record."""
    records: list[KernelRecord] = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        if not line or (line.startswith(" ") and records):
            continue
        found = _RECORD.fullmatch(line)
        if found is None:
            raise UnreadableOutput(SOURCE, number, line[:80], "a record PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT")
        priority, sequence, at_us, text = found.groups()
        records.append(KernelRecord(int(sequence), int(priority) & _SEVERITY, int(at_us), _plain(text)))
    return tuple(records)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode("utf-8", "replace"), text)

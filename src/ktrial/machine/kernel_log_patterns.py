# SPDX-License-Identifier: Apache-2.0
"""Which lines of the kernel's log matter to a measurement: `kernel_log.toml`."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.toml_files import BUILT_IN, Place, read_toml
from ktrial.machine.kernel_log import LogPattern


class _Lines(msgspec.Struct, forbid_unknown_fields=True):
    line: list[LogPattern]


@cache
def log_patterns() -> tuple[LogPattern, ...]:
    """All entries of `kernel_log.toml`, in their order."""
    path = BUILT_IN / "kernel_log.toml"
    found = tuple(read_toml(path, _Lines).line)
    for number, entry in enumerate(found):
        try:
            re.compile(entry.pattern)
        except re.error as error:
            bad = BadInput(f"{entry.pattern!r} is no pattern: {error}")
            raise Place(path, f"$.line[{number}]").mended(bad) from None
    return found

# SPDX-License-Identifier: Apache-2.0
"""fio's terse lines (`--output-format=terse`, versions 3 to 5): one line of semicolon-separated fields per job.

Sizes are in KiB, latencies in whole microseconds. Version 3 has a block for read and a block for write. Version 4 adds
a block for trim, version 5 adds six fields to each block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ktrial.bench.adapters.fio.output import DIRECTIONS, FioDirection, FioJob, FioRun
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity, decode_output, quantity, unreadable, whole

_LINE = re.compile(r"^\d;fio-", re.MULTILINE)
_OLD = re.compile(r"^2;[^;\n]*;\d+;-?\d+;\d", re.MULTILINE)
_HEAD, _BLOCK, _MORE = 5, 41, 6
_FIRST, _PERCENTILES = 12, 20
_DIRECTIONS: Mapping[str, tuple[int, int]] = MappingProxyType({"3": (2, 0), "4": (3, 0), "5": (3, _MORE)})
_KIB = 1024


def is_fio_terse(head: bytes) -> bool:
    text = head.decode("utf-8", "replace")
    return _LINE.search(text) is not None or _OLD.search(text) is not None


def read_fio_terse(data: bytes, source: str = "out.terse") -> FioRun:
    """Parse every terse line as a job of one run, skipping warnings and normal output.

    `data` must satisfy `is_fio_terse`. Raise BadRun if the only terse lines have version 2.
    """
    lines = decode_output(data, source).split("\n")
    found = [(number, line) for number, line in enumerate(lines, 1) if _LINE.match(line)]
    if not found:
        raise BadRun(
            f"{source}: terse lines of version 2 do not contain fio's version",
            hint="run fio with --terse-version=3 or --output-format=json",
        )
    jobs = [_job(line.rstrip("\r").split(";"), source, number) for number, line in found]
    versions = {line.split(";", 2)[1] for _, line in found}
    if len(versions) > 1:
        raise unreadable(
            source, found[-1][0], ", ".join(sorted(versions)), "one version of fio: the lines come from several runs"
        )
    return FioRun(version=versions.pop(), timestamp_ms=None, jobs=tuple(jobs))


def _job(fields: Sequence[str], source: str, line: int) -> FioJob:
    version = fields[0]
    if version not in _DIRECTIONS:
        raise unreadable(source, line, version, f"a known version of terse lines ({', '.join(_DIRECTIONS)})")
    count, more = _DIRECTIONS[version]
    width = _BLOCK + more
    if len(fields) < _HEAD + count * width:
        wanted = f"a line of version {version}: it has {len(fields)} fields, expected at least {_HEAD + count * width}"
        raise unreadable(source, line, ";".join(fields), wanted)
    directions: dict[str, FioDirection] = {}
    for place, name in enumerate(DIRECTIONS[:count]):
        begin = _HEAD + place * width
        found = _direction(fields[begin : begin + _BLOCK], source, line)
        if found.io_bytes:
            directions[name] = found
    error = whole(fields[4], source, line, "the error number")
    return FioJob(name=fields[2], error=error, options={}, directions=directions)


def _direction(fields: Sequence[str], source: str, line: int) -> FioDirection:
    """Parse a block: size, bandwidth, rate, time, submission and completion latencies (4 fields each), percentiles."""
    return FioDirection(
        io_bytes=whole(fields[0], source, line, "KiB") * _KIB,
        operations=None,
        runtime_ms=whole(fields[3], source, line, "milliseconds"),
        throughput=quantity(fields[1], "KiB/s", source, line, "KiB a second"),
        rate=quantity(fields[2], "1/s", source, line, "operations a second"),
        latency_mean=_latency(fields[10], source, line),
        latency_max=_latency(fields[9], source, line),
        percentiles=dict(_percentiles(fields[_FIRST : _FIRST + _PERCENTILES], source, line)),
        bins_ns={},
    )


def _latency(text: str, source: str, line: int) -> Quantity | None:
    """Return a latency; None for 0, which means no sample or less than a microsecond."""
    found = quantity(text, "us", source, line, "microseconds")
    return found if found.value else None


def _percentiles(fields: Sequence[str], source: str, line: int) -> list[tuple[str, Quantity]]:
    found = []
    for field in fields:
        name, equals, value = field.partition("%=")
        if not equals:
            raise unreadable(source, line, field, "a percentile such as 99.000000%=444")
        latency = _latency(value, source, line)
        if latency is not None:
            found.append((name, latency))
    return found

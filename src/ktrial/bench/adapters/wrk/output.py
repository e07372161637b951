# SPDX-License-Identifier: Apache-2.0
"""Output of wrk with `--latency`.

wrk exits with status 0 even if connections broke or the server answered with errors; it only counts them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.formats.tool_output import Quantity, ended_lines, quantity, unreadable, whole

_TITLE = re.compile(r"Running (\S+) test @ .*")
_HEAD = re.compile(r"  (\S+) threads and (\S+) connections")
_QUANTILE = re.compile(r"\s+(50|75|90|99)%\s+(\S+)")
_DURATION = re.compile(r"(\S*?)(us|ms|s)")
_TOTAL = re.compile(r"  (\S+) requests in \S+, \S+ read")
_ERRORS = re.compile(r"  Socket errors: connect (\S+), read (\S+), write (\S+), timeout (\S+)")
_RATE = re.compile(r"Requests/sec:\s+(\S+)")
_REFUSED = "  Non-2xx or 3xx responses:"
_KINDS = ("connect", "read", "write", "timeout")
_PERCENTS = ("50", "75", "90", "99")


class WrkRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `duration` is the requested time, None if not printed. The keys of `quantiles` are percentages.

    `errors` counts failures by kind, `refused` counts unsuccessful answers.
    """

    threads: int
    connections: int
    requests: int
    rate: Quantity
    quantiles: Mapping[str, Quantity]
    errors: Mapping[str, int]
    refused: int
    duration: str | None = None


def read_wrk(data: bytes, source: str = "stdout") -> WrkRun:
    def one(pattern: re.Pattern[str], wanted: str) -> tuple[int, re.Match[str]]:
        found = [(line, match) for line, text in ended_lines(data, source) if (match := pattern.fullmatch(text))]
        if len(found) != 1:
            raise unreadable(source, None, "", f"output of wrk with exactly one line {wanted}")
        return found[0]

    head_at, head = one(_HEAD, "'… threads and … connections'")
    total_at, total = one(_TOTAL, "'… requests in …'")
    rate_at, rate = one(_RATE, "'Requests/sec: …'")
    quantiles: dict[str, Quantity] = {}
    errors: dict[str, int] = {}
    refused = 0
    duration: str | None = None
    for line, text in ended_lines(data, source):
        if match := _QUANTILE.fullmatch(text):
            quantiles[match[1]] = _duration(match[2], source, line)
        elif match := _TITLE.fullmatch(text):
            duration = match[1]
        elif match := _ERRORS.fullmatch(text):
            errors = {kind: whole(match[1 + at], source, line, "errors") for at, kind in enumerate(_KINDS)}
        elif text.startswith(_REFUSED):
            refused = whole(text.removeprefix(_REFUSED), source, line, "responses")
    absent = [percent for percent in _PERCENTS if percent not in quantiles]
    if absent:
        raise unreadable(
            source, None, "", f"complete output of wrk: its latency distribution lacks {', '.join(absent)} %"
        )
    return WrkRun(
        threads=whole(head[1], source, head_at, "threads"),
        connections=whole(head[2], source, head_at, "connections"),
        requests=whole(total[1], source, total_at, "requests"),
        rate=quantity(rate[1], "1/s", source, rate_at, "requests per second"),
        quantiles=quantiles,
        errors=errors,
        refused=refused,
        duration=duration,
    )


def _duration(text: str, source: str, line: int) -> Quantity:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise unreadable(source, line, text, "a latency in us, ms or s")
    return quantity(match[1], match[2], source, line, "a latency")

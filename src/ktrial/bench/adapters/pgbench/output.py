# SPDX-License-Identifier: Apache-2.0
"""Output of pgbench (PostgreSQL): its report, and the log with one line per transaction.

At a fixed rate, a latency begins when the transaction is due, so it includes the wait for a free client. In the log,
`skipped` replaces the latency of a transaction that pgbench skipped because it was late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.formats.tool_output import Quantity, ended_lines, numbered, quantity, unreadable, whole

_VERSION = re.compile(r"pgbench \((\S+)")
_FIELD = re.compile(r"([a-z][a-z ]+?)(?:: | = )(.*)")
_TPS = re.compile(r"(\S+) \((?:without initial connection time|excluding connections establishing)\)")
_LATE = re.compile(r"number of transactions above the \S+ ms latency limit: (.*)")
#: Any number of these lines come from `-P`.
_PROGRESS = "progress: "
_LATE_NAME = "number of transactions above the limit"
_LAG = re.compile(r"avg (\S+) \(max (\S+)\) ms")
_COUNT = re.compile(r"(\S+?)(?:/\d+)?(?: \(\S+\))?")
#: Fields of a log line: client, number, latency, script, seconds, microseconds, and the lag at a fixed rate.
_LOG_FIELDS = 7
_LATENCY_FIELD = 2


class PgbenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one run. Lags are None without a fixed rate, `skipped` and `late` without a latency limit."""

    version: str | None
    script: str | None
    scale: int
    mode: str
    clients: int
    threads: int
    transactions: int
    rate: Quantity
    latency_mean: Quantity
    lag_mean: Quantity | None = None
    lag_max: Quantity | None = None
    failed: int | None = None
    skipped: int | None = None
    late: int | None = None
    seconds: int | None = None


class PgbenchLog(msgspec.Struct, frozen=True, kw_only=True):
    """How often each latency in microseconds occurred in a log, and the number of skipped transactions."""

    histogram_us: Mapping[int, int]
    skipped: int


def read_pgbench(data: bytes, source: str = "stdout") -> PgbenchRun:
    version: str | None = None
    fields: dict[str, tuple[int, str]] = {}
    rate: Quantity | None = None
    for line, text in numbered(data, source):
        if match := _VERSION.match(text):
            version = match[1].rstrip(")")
        elif text.startswith("tps = "):
            if match := _TPS.fullmatch(text.removeprefix("tps = ")):
                rate = quantity(match[1], "1/s", source, line, "transactions per second")
        elif text.startswith(_PROGRESS):
            continue
        elif match := _FIELD.fullmatch(text):
            if match[1] in fields:
                raise unreadable(source, line, text, f"the only line '{match[1]}'")
            fields[match[1]] = (line, match[2])
        elif match := _LATE.fullmatch(text):
            fields[_LATE_NAME] = (line, match[1])
    return _run(version, fields, rate, source)


def _run(version: str | None, fields: Mapping[str, tuple[int, str]], rate: Quantity | None, source: str) -> PgbenchRun:
    def text_of(name: str) -> tuple[int, str]:
        if name not in fields:
            raise unreadable(source, None, "", f"a report of pgbench: '{name}' is missing")
        return fields[name]

    def count(name: str) -> int:
        line, text = text_of(name)
        match = _COUNT.fullmatch(text)
        return whole(match[1] if match else text, source, line, name)

    def optional(name: str) -> int | None:
        return count(name) if name in fields else None

    def milliseconds(name: str) -> Quantity:
        line, text = text_of(name)
        return quantity(text.removesuffix(" ms"), "ms", source, line, name)

    def seconds() -> int:
        line, text = text_of("duration")
        return whole(text.removesuffix(" s"), source, line, "seconds")

    lag_mean = lag_max = None
    if "rate limit schedule lag" in fields:
        line, text = fields["rate limit schedule lag"]
        match = _LAG.fullmatch(text)
        if match is None:
            raise unreadable(source, line, text, "a lag of the form 'avg … (max …) ms'")
        lag_mean = quantity(match[1], "ms", source, line, "the mean lag")
        lag_max = quantity(match[2], "ms", source, line, "the largest lag")
    transactions = count("number of transactions actually processed")
    if rate is None or not transactions:
        raise unreadable(source, None, "", "the report of a run: it has no transaction or no 'tps = …'")
    return PgbenchRun(
        version=version,
        script=fields["transaction type"][1] if "transaction type" in fields else None,
        scale=count("scaling factor"),
        mode=text_of("query mode")[1],
        clients=count("number of clients"),
        threads=count("number of threads"),
        transactions=transactions,
        rate=rate,
        latency_mean=milliseconds("latency average"),
        lag_mean=lag_mean,
        lag_max=lag_max,
        failed=optional("number of failed transactions"),
        skipped=optional("number of transactions skipped"),
        late=optional(_LATE_NAME),
        seconds=seconds() if "duration" in fields else None,
    )


def read_log(data: bytes, source: str) -> PgbenchLog:
    """Parse a log of `--log` at a fixed rate: one line per transaction."""
    histogram: dict[int, int] = {}
    skipped = 0
    for line, text in ended_lines(data, source):
        fields = text.split()
        if len(fields) != _LOG_FIELDS:
            raise unreadable(
                source, line, text, f"a transaction as pgbench logs it with --rate, in {_LOG_FIELDS} fields"
            )
        latency = fields.pop(_LATENCY_FIELD)
        for field in fields:
            whole(field, source, line, "a field other than the latency")
        if latency == "skipped":
            skipped += 1
        else:
            microseconds = whole(latency, source, line, "a latency in microseconds")
            histogram[microseconds] = histogram.get(microseconds, 0) + 1
    return PgbenchLog(histogram_us=histogram, skipped=skipped)

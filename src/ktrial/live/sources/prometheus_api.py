# SPDX-License-Identifier: Apache-2.0
"""Queries a Prometheus server through its HTTP API, and checks the answers."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.live.model import Stretch
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld

T = TypeVar("T")
_LIMIT_S = 3.0
#: Resolution of the header `Date`, which has whole seconds.
_DATE_MS = 500
_BAD_REQUEST = (400, 422)
#: Suffixes of samples that are counters, whatever the type of their family.
_OF_FAMILY = ("_total", "_bucket", "_count", "_sum")
_COUNTERS = frozenset(("counter", "histogram", "summary"))


class QuerySeries(NamedTuple):
    """A series in an answer, with its value."""

    labels: Mapping[str, str]
    value: float

    @property
    def text(self) -> str:
        name = self.labels.get("__name__", "")
        rest = (f'{key}="{value}"' for key, value in sorted(self.labels.items()) if key != "__name__")
        return f"{name}{{{', '.join(rest)}}}"


class _ResultRow(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _QueryResult(msgspec.Struct):
    resultType: str = ""  # noqa: N815 (the name in the answer)
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class _About(msgspec.Struct):
    type: str = ""
    unit: str = ""


class PrometheusApi:
    """The API of a server. The server's clock is off by at least `skew_ms`. `is_down` means that it did not answer."""

    def __init__(self, address: str, world: LiveWorld) -> None:
        self._address = address
        self._world = world
        self.skew_ms = 0.0
        self.is_down = False

    def now_s(self) -> float:
        """Return the seconds since 1970 by this machine's clock."""
        return self._world.clock.unix_ms() / 1000

    def at(self, query: str, at_s: float | None) -> Sequence[QuerySeries]:
        """Return the series of a query at a moment, or now by the server's clock.

        Raise NotRead if the answer has no numbers, BadInput if the server refuses the query.
        """
        when = {} if at_s is None else {"time": f"{at_s:.3f}"}
        head = _decode(self._get("/api/v1/query", {"query": query, **when}), _QueryResult)
        if head.resultType == "scalar":
            return (QuerySeries({}, float(_decode(head.result, tuple[float, str])[1])),)
        if head.resultType != "vector":
            raise NotRead(
                f"the query returns a {head.resultType or 'document'}, not a number",
                hint="write a query that returns an instant vector or a scalar",
            )
        rows = _decode(head.result, list[_ResultRow])
        if any(row.value is None for row in rows):
            raise NotRead(
                "the query returns a native histogram, not a number",
                hint="apply histogram_quantile() or another function to the histogram",
            )
        return [QuerySeries(row.metric, _number(row.value[1])) for row in rows if row.value is not None]

    def over(self, query: str, stretch: Stretch, step_s: float) -> Sequence[float]:
        """Return the values of a query with one series, at the steps of a stretch and at its end.

        Raise NotRead if the server does not answer.
        """
        times = {
            "start": f"{stretch.begin_ms / 1000:.3f}",
            "end": f"{stretch.end_ms / 1000:.3f}",
            "step": f"{step_s:.3f}",
        }
        head = _decode(self._get("/api/v1/query_range", {"query": query, **times}), _QueryResult)
        rows = _decode(head.result, list[_ResultRow])
        found = [_number(text) for row in rows for _, text in row.values]
        return [*found, *(one.value for one in self.at(query, stretch.end_ms / 1000))]

    def raw_times(self, selector: str, name: str | None, back_s: int) -> Sequence[float]:
        """Return the times of the latest samples of one selected series. Raise NotRead if no series matches."""
        found = self.at(f"topk(1, timestamp({selector}))", None)
        if not found:
            raise NotRead(
                f"no series matches {selector}",
                hint="try the query on the server's web page",
            )
        labels = {key: text for key, text in found[0].labels.items() if key != "__name__"}
        words = [f"{key}={msgspec.json.encode(text).decode()}" for key, text in labels.items()]
        one = f"{name}{{{','.join(words)}}}" if name is not None else selector
        head = _decode(self._get("/api/v1/query", {"query": f"{one}[{back_s}s]"}), _QueryResult)
        rows = _decode(head.result, list[_ResultRow])
        return [at_s for at_s, _ in rows[0].values] if rows else []

    def is_counter(self, name: str) -> bool:
        """Return whether the server knows that this metric is a counter."""
        about = self._about(name)
        if about is not None:
            return about.type == "counter"
        family = next((name.removesuffix(end) for end in _OF_FAMILY if name.endswith(end)), None)
        about = None if family is None else self._about(family)
        return about is not None and about.type in _COUNTERS

    def unit(self, name: str) -> str | None:
        about = self._about(name)
        return None if about is None else about.unit or None

    def _about(self, name: str) -> _About | None:
        try:
            data = self._get("/api/v1/metadata", {"metric": name})
            found = _decode(data, dict[str, list[_About]]).get(name, [])
        except (NotRead, BadInput):
            if self.is_down:
                raise
            return None  # servers that support only the query language do not have this path
        return found[0] if found else None

    def _get(self, path: str, fields: Mapping[str, str]) -> msgspec.Raw:
        """Return the data of an answer. Raise NotRead if there is none, BadInput if the server refuses the query."""
        address = f"{self._address}{path}?{urllib.parse.urlencode(fields)}"
        begin_ms = self._world.clock.unix_ms()
        self.is_down = True
        answer = self._world.fetch(address, _LIMIT_S, "application/json")
        end_ms = self._world.clock.unix_ms()
        if answer.status >= 500:  # it is starting, ending or overloaded
            raise NotRead(f"{self._address} answers with status {answer.status}", hint="check the server and its load")
        self.is_down = False
        if answer.date_ms is not None:
            off_ms = answer.date_ms + _DATE_MS - (begin_ms + end_ms) / 2
            self.skew_ms = max(0.0, abs(off_ms) - (end_ms - begin_ms) / 2)
        try:
            found = msgspec.json.decode(answer.data, type=_Answer)
        except msgspec.MsgspecError:
            raise NotRead(
                f"{self._address} does not answer like a Prometheus server (status {answer.status})",
                hint="give the address before /api/v1, such as http://localhost:9090",
            ) from None
        if answer.status in _BAD_REQUEST:
            raise BadInput(
                f"{self._address} refuses the query {fields.get('query', '')!r} ({found.error[:200]})",
                hint="try the query on the server's web page",
            )
        if answer.status != 200 or found.status != "success":
            raise NotRead(
                f"{self._address} answers with status {answer.status} ({found.error[:200]})",
                hint="try the query on the server's web page",
            )
        return found.data


def _decode(data: msgspec.Raw, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.MsgspecError as error:
        raise NotRead(
            f"cannot read the server's answer ({error})", hint="check that a Prometheus server has this address"
        ) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise NotRead(
            f"the server answers with {text[:40]!r}, which is not a number",
            hint="try the query on the server's web page",
        ) from None

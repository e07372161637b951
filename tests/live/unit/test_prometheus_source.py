# SPDX-License-Identifier: Apache-2.0
"""What a Prometheus server answers, made by hand: stale samples, steps of clocks, strange answers."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.live.model import LiveMetric, Stretch, StretchReading
from ktrial.live.sources.prometheus import PrometheusSource
from ktrial.live.sources.prometheus_api import PrometheusApi
from ktrial.live.sources.web import NotRead, WebAnswer
from tests.support.live import START_MS, FakeWeb, StillClock, world

EVERY_S = 10


class FakePrometheus:
    """A server with one gauge of one target, scraped every ten seconds while it runs."""

    def __init__(self, clock: StillClock) -> None:
        self.clock = clock
        self.times_s = [START_MS / 1000 - EVERY_S * back for back in range(20, -1, -1)]
        self.value = 2.0
        self.unit = ""
        self.ahead_s = 0.0
        self.is_up = True
        self.target_ended_s: float | None = None
        self.asked: list[str] = []

    def scrape(self) -> None:
        self.times_s.append(self.clock.ms / 1000)

    def __call__(self, address: str, limit_s: float, accept: str) -> WebAnswer:
        if not self.is_up:
            raise NotRead("h: Connection refused")
        parts = urllib.parse.urlsplit(address)
        fields = dict(urllib.parse.parse_qsl(parts.query))
        if parts.path == "/api/v1/metadata":
            data: dict[str, Any] = {"load": [{"type": "gauge", "help": "", "unit": self.unit}]}
        elif parts.path == "/api/v1/query":
            data = self.at(fields["query"], float(fields.get("time", self.clock.ms / 1000)))
        else:
            data = self.over(float(fields["start"]), float(fields["end"]), float(fields["step"]))
        sent_ms = int(self.clock.ms / 1000 + self.ahead_s) * 1000
        answer = json.dumps({"status": "success", "data": data}).encode()
        return WebAnswer(200, answer, "application/json", sent_ms)

    def newest_s(self, at_s: float) -> float | None:
        return max((one for one in self.times_s if at_s - 300 < one <= at_s), default=None)

    def at(self, query: str, at_s: float) -> dict[str, Any]:
        self.asked.append(query)
        newest_s = self.newest_s(at_s)
        if query.endswith("[900s]"):
            values = [[one, "2"] for one in self.times_s if at_s - 900 < one <= at_s]
            return {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}
        value = {
            "max(timestamp": newest_s,
            "topk(1, timestamp": newest_s,
            "min(max by (job, instance)": self.target_ended_s or newest_s,
            "max(process_start": 100.0,
        }.get(
            next(
                (
                    part
                    for part in (
                        "max(timestamp",
                        "topk(1, timestamp",
                        "min(max by (job, instance)",
                        "max(process_start",
                    )
                    if query.startswith(part)
                ),
                "",
            ),
            self.value,
        )
        rows = [] if newest_s is None or value is None else [{"metric": {"job": "a"}, "value": [at_s, repr(value)]}]
        return {"resultType": "vector", "result": rows}

    def over(self, start_s: float, end_s: float, step_s: float) -> dict[str, Any]:
        steps = [start_s + step_s * number for number in range(int((end_s - start_s) / step_s) + 1)]
        values = [[step, repr(newest)] for step in steps if (newest := self.newest_s(step)) is not None]
        return {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}


class Queried:
    def __init__(self, options: str = "query=load", *, ahead_s: float = 0) -> None:
        self.clock = StillClock()
        self.server = FakePrometheus(self.clock)
        self.server.ahead_s = ahead_s
        metric = LiveMetric("load_ms", "lower", f"prometheus:http://h:9090?{options}")
        self.source = PrometheusSource(metric, world(self.clock, web=self.server))
        self.source.begin()

    def passes(self, scrapes: int, *, scraped: bool = True) -> list[float]:
        found = []
        for _ in range(scrapes):
            for half in (False, True):
                self.clock.pass_s(EVERY_S / 2)
                if half and scraped:
                    self.server.scrape()
                found += [sample.value for sample in self.source.poll()]
        return found

    def over(self, begin_s: float, end_s: float) -> StretchReading:
        return self.source.over(Stretch(START_MS + round(begin_s * 1000), START_MS + round(end_s * 1000)))


def test_each_scrape_is_one_sample_at_its_own_time() -> None:
    one = Queried()
    assert one.source.every_s == EVERY_S
    assert one.source.poll_s == EVERY_S / 2
    assert one.passes(4) == [0.002] * 5
    found = one.over(5, 41)
    assert (found.value, found.samples) == (0.002, 4)
    assert "avg_over_time(load[30001ms])" in one.server.asked


def test_stale_samples_are_missing_not_repeated() -> None:
    one = Queried()
    one.passes(4)
    assert one.passes(5, scraped=False) == []
    assert one.over(0, 40).value == 0.002
    assert (one.over(30, 90).why or "").startswith("load: nothing was read for 50.0 s of 60.0 s")
    assert one.over(45, 85).why == "load: nothing was read"
    one.passes(3)
    assert (one.over(0, 120).why or "").startswith("load: nothing was read for 60.0 s")


def test_a_target_that_ends_before_the_others_is_missing() -> None:
    one = Queried()
    one.passes(5)
    one.server.target_ended_s = START_MS / 1000 + 10
    assert one.over(0, 51).why == "a target of load was not scraped for the last 40.0 s"


def test_a_server_that_comes_back_at_once_is_asked_again() -> None:
    one = Queried()
    one.passes(4)
    one.server.is_up = False
    assert one.over(0, 40).why == "h: Connection refused"
    assert one.passes(1) == []


def test_clocks_must_agree() -> None:
    with pytest.raises(BadInput, match="clocks of the server and of this machine are"):
        Queried(ahead_s=60)
    one = Queried()
    one.passes(4)
    one.server.ahead_s = -60
    assert "apart" in (one.over(0, 40).why or "")
    one.server.ahead_s = 0
    one.clock.ms += 60_000
    assert "set forward by 60.0 s" in (one.over(20, 100).why or "")


def test_a_unit_that_the_server_names_another_is_missing() -> None:
    one = Queried()
    one.server.unit = "seconds"
    one.passes(4)
    assert one.over(0, 40).value == 0.002
    one.server.unit = "milliseconds"
    assert one.over(0, 40).why == "its unit changed from seconds to milliseconds"


def test_a_period_holds_two_scrapes() -> None:
    clock = StillClock()
    metric = LiveMetric("m", "lower", "prometheus:http://h?query=load")
    source = PrometheusSource(metric, world(clock, web=FakePrometheus(clock), period_s=15))
    with pytest.raises(BadInput, match="scrapes this metric every 10 s, less than twice in a period of 15 s") as error:
        source.begin()
    assert "--period 20s" in (error.value.hint or "")


ANSWERS: Sequence[Mapping[str, Any]] = (
    {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "histogram": [1, {}]}]}},
    {"status": "success", "data": {"resultType": "string", "result": [1, "a"]}},
    {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}},
    {"status": "success", "data": {"resultType": "vector", "result": 7}},
    {"status": "success"},
    {"status": "error", "error": "out of memory"},
    {},
)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_strange_answer_is_no_value(answer: Mapping[str, Any]) -> None:
    with pytest.raises(NotRead):
        PrometheusApi("http://h", world(StillClock(), web=FakeWeb(json.dumps(answer)))).at("a", None)


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda one: (
            st.lists(one)
            | st.dictionaries(st.sampled_from(["status", "data", "resultType", "result", "metric", "value"]), one)
        ),
    ).map(json.dumps)
)
def test_any_answer_is_read_or_refused(text: str) -> None:
    api = PrometheusApi("http://h", world(StillClock(), web=FakeWeb(text)))
    for ask in (
        lambda: api.at("a", None),
        lambda: api.over("a", Stretch(0, 1000), 1.0),
        lambda: api.raw_times("a", "a", 9),
    ):
        with pytest.raises(NotRead):
            ask()
    assert not api.is_counter("a")

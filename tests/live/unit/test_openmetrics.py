# SPDX-License-Identifier: Apache-2.0
"""Numbers of an endpoint's text: read in linear time, over stretches, and missing where they are missing."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, UnreadableOutput
from ktrial.live.model import LiveMetric, Stretch, StretchReading
from ktrial.live.sources.exposition import read_exposition
from ktrial.live.sources.histogram import bucket_quantile
from ktrial.live.sources.openmetrics import OpenMetricsSource
from ktrial.live.sources.web import IdleSource, NotRead
from tests.support.live import START_MS, FakeWeb, StillClock, world

PAGE = r"""# HELP a_total What \ "counts".
# TYPE a counter
# UNIT a seconds
a_total{path="/x\"y\\z\n",code="200"} 12.5e1 1700000000.5 # {trace="1 } 2"} 0.5 1.5
a_created{path="/x\"y\\z\n",code="200"} 1.7e9
# TYPE load gauge
load -1.5
weird{} NaN
bare{a="",} +Inf
{"dotted.name", a="1"} 3
# EOF
"""


def test_a_page_is_read() -> None:
    found = read_exposition(PAGE.encode(), "page", is_openmetrics=True)
    first = found.samples[0]
    assert (first.name, first.value, first.at_ms) == ("a_total", 125.0, 1_700_000_000_500)
    assert first.labels == {"path": '/x"y\\z\n', "code": "200"}
    assert [one.name for one in found.samples[1:]] == ["a_created", "load", "weird", "bare", "dotted.name"]
    assert math.isnan(found.samples[3].value)
    assert found.samples[5].labels == {"a": "1"}
    assert (found.types["a"], found.units["a"]) == ("counter", "seconds")


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a 1 2 3\n",
        "a{b} 1\n",
        'a{b="1"c="2"} 1\n',
        'a{b="1",b="2"} 1\n',
        "a{ 1\n",
        "1 2\n",
        "a 0x1\n",
        "a 1_0\n",
        "a 1",
    ],
)
def test_a_strange_or_cut_line_is_an_error(text: str) -> None:
    with pytest.raises(UnreadableOutput):
        read_exposition(text.encode(), "page", is_openmetrics=False)


def test_a_page_without_its_end_was_cut_off() -> None:
    with pytest.raises(UnreadableOutput, match="cut off"):
        read_exposition(b"a 1\n", "page", is_openmetrics=True)


@given(st.one_of(st.binary(), st.text(alphabet='a_1{}",=\\#\n .eE+-TYPE').map(str.encode)))
def test_any_page_is_read_or_refused(data: bytes) -> None:
    for is_openmetrics in (False, True):
        try:
            found = read_exposition(data + b"\n", "page", is_openmetrics=is_openmetrics)
        except UnreadableOutput as error:
            assert error.message
        else:
            assert all(one.name for one in found.samples)


@pytest.mark.parametrize("part", ["a{", '"', "\\", 'a{b="', "a,", " ", '{a="b",', "# TYPE ", "1e"])
def test_reading_takes_no_longer_than_the_text_is_long(part: str) -> None:
    begin = time.process_time()
    with pytest.raises(UnreadableOutput):
        read_exposition(b"x " + part.encode() * 300_000 + b"\n", "page", is_openmetrics=False)
    with pytest.raises(UnreadableOutput):
        read_exposition(b"x{a=" + part.encode() * 300_000 + b"\n", "page", is_openmetrics=False)
    assert time.process_time() - begin < 4


def test_a_quantile_has_its_bucket() -> None:
    buckets = {0.1: 10.0, 0.2: 20.0, 0.4: 20.0, math.inf: 21.0}
    assert bucket_quantile(buckets, 0.5) == pytest.approx((0.105, 0.1, 0.2))
    assert bucket_quantile(buckets, 0.01) == pytest.approx((0.0021, 0.0, 0.1))
    assert bucket_quantile(buckets, 0.999) == (0.4, 0.4, None)
    with pytest.raises(IdleSource):
        bucket_quantile({0.1: 0.0, math.inf: 0.0}, 0.5)
    with pytest.raises(NotRead, match="Inf"):
        bucket_quantile({0.1: 1.0, 0.2: 2.0}, 0.5)


class Endpoint:
    """A source of a page that is polled every five seconds while the page changes."""

    def __init__(self, source: str, first: str, *, name: str = "m", content_type: str = "text/plain") -> None:
        self.clock = StillClock()
        self.web = FakeWeb(first, content_type)
        self.source = OpenMetricsSource(
            LiveMetric(name, "lower", f"openmetrics:http://h/metrics?name={source}"), world(self.clock, web=self.web)
        )
        self.source.begin()

    def polls(self, *pages: str | None) -> list[float]:
        found = []
        for page in pages:
            self.clock.pass_s(5)
            self.web.text = page
            found += [sample.value for sample in self.source.poll()]
        return found

    def over(self, begin_s: float, end_s: float) -> StretchReading:
        return self.source.over(Stretch(START_MS + round(begin_s * 1000), START_MS + round(end_s * 1000)))


def test_a_gauge_is_averaged_inside_the_stretch() -> None:
    one = Endpoint("load", "load 100\n", name="load_ms")
    assert one.polls(*(f"load {value}\n" for value in (1, 2, 3, 50))) == pytest.approx([0.001, 0.002, 0.003, 0.05])
    found = one.over(5, 20)
    assert found.value == pytest.approx(0.002)
    assert found.samples == 3


def test_a_counter_grows_over_resets() -> None:
    def page(value: float, created: float = 1) -> str:
        return f"# TYPE a counter\na_total {value}\na_created {created}\n"

    one = Endpoint("a_total", page(1000))
    assert one.polls(*map(page, (1010, 1020))) == [2.0, 2.0]
    # It restarted and fell, then restarted and is higher than before: only _created says so.
    assert one.polls(page(5, 2), page(50, 3)) == [1.0, 10.0]
    found = one.over(0, 25)
    assert found.value == pytest.approx((10 + 10 + 5 + 50) / 20)
    assert found.samples == 5


def test_a_quantile_is_that_of_the_stretch() -> None:
    def page(*counts: int) -> str:
        bounds = ("0.1", "0.2", "+Inf")
        rows = (f'h_bucket{{le="{bound}"}} {count}\n' for bound, count in zip(bounds, counts, strict=True))
        return "# TYPE h histogram\n" + "".join(rows) + f"h_sum 1\nh_count {counts[-1]}\n"

    one = Endpoint("h&quantile=0.5", page(1000, 1000, 1000))
    assert one.polls(page(1000, 1000, 1000)) == []
    assert one.polls(page(1000, 1010, 1010)) == [pytest.approx(0.15)]
    found = one.over(0, 15)
    assert (found.value, found.low, found.high) == pytest.approx((0.15, 0.1, 0.2))
    assert one.over(0, 8).why == "no event was counted"


@pytest.mark.parametrize(
    "source, page, says",
    [
        ("a", 'a{x="1"} 1\na{x="2"} 2\n', 'a{x="1"} and a{x="2"}'),
        (
            "a&quantile=0.9",
            '# TYPE a summary\na{quantile="0.9"} 1\na_count 1\n',
            "over its own time window",
        ),
        ("a", '# TYPE a histogram\na_bucket{le="+Inf"} 1\n', "not one number"),
        ("a&quantile=0.9", "# TYPE a gauge\na 1\n", "has no quantiles"),
        ("a", "b 1\n", "has no series a"),
        ("a&version=v", "a 1\n", "has no label v"),
        ("a", "a NaN\n", "a is nan"),
        ("a", "a 1", "cut off"),
        ("a", "a 1 1000\n", "s old"),
    ],
)
def test_what_can_never_be_read_is_refused_at_begin(source: str, page: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        Endpoint(source, page)
    assert says in error.value.message
    assert error.value.hint


def test_what_is_missing_is_not_zero() -> None:
    one = Endpoint("a", "a 1\n")
    assert one.polls("a 1\n", None, None, None, "a 1\n", "b 1\n", "rubbish\n") == [1.0, 1.0]
    assert one.over(0, 9).value == 1.0
    found = one.over(5, 27)
    assert found.value is None
    assert found.why == "nothing was read for 20.0 s of 22.0 s: localhost: Connection refused"
    one.clock.pass_s(100)
    assert one.over(50, 80).why == "nothing was read"


def test_a_step_of_the_clock_voids_the_stretch() -> None:
    one = Endpoint("a", "a 1\n")
    one.polls("a 1\n")
    one.clock.ms -= 30_000
    one.polls("a 1\n", "a 1\n")
    assert "set back by 30.0 s" in (one.over(0, 5).why or "")
    one.polls(*["a 1\n"] * 20)
    assert one.over(40, 60).value == 1.0


@pytest.mark.parametrize("factor", [1000, 1e6, 1e-3])
def test_a_unit_that_changes_at_a_restart_is_missing(factor: float) -> None:
    def page(value: float, started: int) -> str:
        return f"process_start_time_seconds {started}\na {value}\n"

    one = Endpoint("a", page(2, 100))
    assert one.polls(page(2.1, 100), page(2, 100)) == [2.1, 2.0]
    assert one.over(0, 12).value == pytest.approx(2, rel=0.1)
    assert one.polls(page(2.05 * factor, 100)) == [2.05 * factor]  # without a restart it is what it is
    assert one.polls(page(2.1 * factor, 200), page(2.0 * factor, 200)) == []
    found = one.over(20, 30)
    assert found.value is None
    assert "since the process restarted" in (found.why or "")
    assert one.polls(page(7, 200)) == [7]
    assert one.polls(page(2 * factor, 200)) == [2 * factor]  # it is long since it restarted


def test_a_unit_that_is_named_another_is_missing() -> None:
    one = Endpoint("a", "# UNIT a seconds\na 2\n")
    one.polls("# UNIT a seconds\na 2\n", "# UNIT a milliseconds\na 3\n")
    assert one.over(0, 11).why == "its unit changed from seconds to milliseconds"


def test_the_version_is_that_of_the_series_or_of_the_program() -> None:
    one = Endpoint("a&version=v", 'a 1\nbuild_info{v="1.0"} 1\n')
    one.polls('a 1\nbuild_info{v="1.0"} 1\n', 'a 1\nbuild_info{v="1.1"} 1\n')
    assert one.over(0, 8).version == "1.0"
    assert one.over(0, 11).why == "several versions ran: 1.0, 1.1"
    two = Endpoint("a&version=v", 'a{v="1"} 1\n')
    two.polls('a{v="2"} 1\n')
    assert two.over(4, 8).version == "2"


def test_a_period_must_hold_two_readings() -> None:
    clock = StillClock()
    metric = LiveMetric("m", "lower", "openmetrics:http://h/metrics?name=a&poll=30s")
    source = OpenMetricsSource(metric, world(clock, web=FakeWeb("a 1\n"), period_s=45))
    with pytest.raises(BadInput, match="reads the source every 30 s, less than twice in a period of 45 s") as error:
        source.begin()
    assert "--period 60s" in (error.value.hint or "")

# SPDX-License-Identifier: Apache-2.0
"""Counters of the kernel and numbers that commands print."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import AgentError, BadInput
from ktrial.live.model import LiveMetric, MetricSource, Stretch, StretchReading
from ktrial.live.parse import open_source, parse_metric
from ktrial.live.sources.polled import CounterValues
from ktrial.live.sources.process import group_io_counts, io_counts, pressure_counts, stat_counts
from ktrial.live.sources.web import NotRead
from ktrial.machine.reading import Reading
from tests.support.live import START_MS, StillClock, world
from tests.support.machine import FakeMachine


def stat(ticks: int, began: int = 5000) -> str:
    return f"7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 {ticks} {ticks} 0 0 20 0 1 0 {began} 0 0\n"


def psi(total_us: int) -> str:
    return f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


class Counted:
    """A source of counters that is polled once a second while files change."""

    def __init__(self, text: str, files: dict[str, str | Reading]) -> None:
        self.clock = StillClock()
        self.machine = FakeMachine(files, is_root=False)
        self.source: MetricSource = open_source(parse_metric(text), world(self.clock, machine=self.machine))
        self.source.begin()

    def poll(self, **files: str) -> list[float]:
        self.clock.pass_s(1)
        self.machine.files |= dict(zip(self.machine.files, files.values(), strict=False))
        return [round(sample.value, 9) for sample in self.source.poll()]

    def over(self, begin_s: float, end_s: float) -> StretchReading:
        return self.source.over(Stretch(START_MS + round(begin_s * 1000), START_MS + round(end_s * 1000)))


@pytest.mark.parametrize(
    "text, path, before, after, rate",
    [
        ("pid:7?cpu", "/proc/7/stat", stat(100), stat(125), 0.5),
        ("pressure:memory", "/proc/pressure/memory", psi(1_000_000), psi(1_250_000), 0.25),
        ("pressure:io?full", "/proc/pressure/io", psi(1), psi(1_250_000), 0.0),
        ("cgroup:/a.slice?psi=io", "/sys/fs/cgroup/a.slice/io.pressure", psi(0), psi(500_000), 0.5),
        ("cgroup:/a.slice?cpu", "/sys/fs/cgroup/a.slice/cpu.stat", "usage_usec 5\n", "usage_usec 1500005\n", 1.5),
        ("cgroup:/a?io", "/sys/fs/cgroup/a/io.stat", "", "8:0 rbytes=4096 wbytes=8 rios=1\n9:0 rbytes=1\n", 4105.0),
    ],
)
def test_a_counter_is_a_rate(text: str, path: str, before: str, after: str, rate: float) -> None:
    one = Counted(text, {path: before})
    assert one.poll(now=after) == [rate]
    assert one.poll() == [0.0]
    found = one.over(0, 2.5)
    assert found.value == pytest.approx(rate / 2)
    assert found.samples == 3


def test_a_process_waits_and_reads_as_its_threads_do() -> None:
    one = Counted("pid:7?delay", {"/proc/7/stat": stat(1), "/proc/7/task/7/schedstat": "5 1000000000 3\n"})
    one.machine.files |= {"/proc/7/task/7/schedstat": "9 1250000000 4", "/proc/7/task/8/schedstat": "1 250000000 1\n"}
    assert one.poll() == [0.5]
    del one.machine.files["/proc/7/task/7/schedstat"]
    assert one.poll() == [0.0]
    two = Counted("pid:7?io", {"/proc/7/io": "rchar: 9\nread_bytes: 10\nwrite_bytes: 0\n", "/proc/7/stat": stat(1)})
    assert two.poll(io="rchar: 9\nread_bytes: 30\nwrite_bytes: 5\n") == [25.0]
    three = Counted(
        "pid:7?psi=memory",
        {
            "/sys/fs/cgroup/u.slice/memory.pressure": psi(0),
            "/proc/7/stat": stat(1),
            "/proc/7/cgroup": "1:name=systemd:/x\n0::/u.slice\n",
        },
    )
    assert three.poll(now=psi(1000)) == [0.001]


def test_another_process_with_the_number_is_not_measured() -> None:
    one = Counted("pid:7?cpu", {"/proc/7/stat": stat(100)})
    assert one.poll(now=stat(101)) == [0.02]
    for _ in range(4):
        assert one.poll(now=stat(3, began=9000)) == []
    assert "another process now has its number" in (one.over(0, 5).why or "")
    one.machine.files.clear()
    one.poll()
    one.clock.pass_s(10)
    assert one.over(5.5, 9).value is None


def test_counters_that_fell_began_anew() -> None:
    one = Counted("cgroup:/a?cpu", {"/sys/fs/cgroup/a/cpu.stat": "usage_usec 9000000\n"})
    assert one.poll(now="usage_usec 500000\n") == [0.5]


@pytest.mark.parametrize(
    "text, files, says",
    [
        ("pid:7?cpu", {}, "/proc/7/stat does not exist"),
        (
            "pid:7?io",
            {"/proc/7/stat": stat(1), "/proc/7/io": Reading(unreadable="Permission denied")},
            "Permission denied",
        ),
        ("pid:7?delay", {"/proc/7/stat": stat(1)}, "has no"),
        ("pressure:memory", {"/proc/pressure/memory": "rubbish"}, "has no line some"),
        ("pressure:io", {}, "/proc/pressure/io does not exist"),
        ("cgroup:/a?cpu", {"/sys/fs/cgroup/a/cpu.stat": "rubbish"}, "has no usage_usec"),
    ],
)
def test_what_is_not_there_is_refused_at_begin(text: str, files: dict[str, str | Reading], says: str) -> None:
    with pytest.raises(BadInput) as error:
        Counted(text, files)
    assert says in error.value.message
    assert error.value.hint
    assert ("CONFIG_PSI=y" in error.value.hint) == text.startswith("pressure:")


def test_a_lost_agent_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Counted("pid:7?cpu", {"/proc/7/stat": stat(100)})

    def lost(_: Sequence[str]) -> dict[str, Reading | None]:
        raise AgentError("lost", "lost the agent")

    monkeypatch.setattr(one.machine, "read", lost)
    for _ in range(5):
        assert one.poll() == []
    assert (one.over(1, 5).why or "").endswith("lost the agent")


@given(st.text(alphabet="some full total=123 avg().\n:rwbytes_ad"))
def test_any_text_of_the_kernel_is_a_counter_or_missing(text: str) -> None:
    readers: list[Callable[[], CounterValues]] = [
        lambda: pressure_counts(text, "/p", "some"),
        lambda: stat_counts(text, "/s"),
        lambda: io_counts(text, "/i"),
        lambda: group_io_counts(text),
    ]
    for read in readers:
        try:
            counts = read()
        except NotRead as error:
            assert error.message
        else:
            assert all(value >= 0 for value in counts.values.values())


def printing(outputs: list[RawOutput]) -> tuple[MetricSource, StillClock, list[tuple[str, ...]]]:
    clock, asked = StillClock(), []

    def run(words: Sequence[str], limit_s: float) -> RawOutput:
        asked.append(tuple(words))
        clock.pass_s(1)
        return outputs.pop(0)

    metric = LiveMetric("queue_ms", "lower", "command:/bin/queue --of 'my app'")
    source = open_source(metric, world(clock, run=run))
    source.begin()
    return source, clock, asked


def test_a_command_prints_a_number_or_it_is_missing() -> None:
    good, bad = (
        RawOutput(stdout=b" 12.5\n", stderr=b"warning: 7", exit_status=0),
        RawOutput(stdout=b"1 2", exit_status=0),
    )
    failed = RawOutput(stdout=b"3", exit_status=1)
    source, clock, asked = printing([good, good, bad, failed, RawOutput(timed_out=True), RawOutput(failed="lost")])
    found = []
    for _ in range(5):
        clock.pass_s(4)
        found += [sample.value for sample in source.poll()]
    assert found == [0.0125]
    assert asked[0] == ("/bin/queue", "--of", "my app")
    assert source.over(Stretch(START_MS, START_MS + 8000)).value == 0.0125
    assert (source.over(Stretch(START_MS + 6000, START_MS + 26_000)).why or "").startswith("nothing was read")


@pytest.mark.parametrize(
    "raw", [RawOutput(exit_status=0), RawOutput(stdout=b"12,5", exit_status=0), RawOutput(failed="no")]
)
def test_a_command_without_a_number_is_refused_at_begin(raw: RawOutput) -> None:
    with pytest.raises(BadInput, match="/bin/queue"):
        printing([raw])

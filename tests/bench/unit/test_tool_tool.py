# SPDX-License-Identifier: Apache-2.0
"""How adapters of tools make their command lines, and which parameters they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import BadInput, BadRun, UnknownName
from ktrial.machine.facts import FactBook

ALL = all_benchmarks()
NO_FACTS = FactBook({})


def argv(name: str, **parameters: Any) -> tuple[str, ...]:
    return ALL[name].invocation(parameters, NO_FACTS).argv


@pytest.mark.parametrize(
    "name,parameters,wanted",
    [
        ("hackbench-pipe-thread", {}, "hackbench -pTl 4000"),
        ("hackbench-pipe-process", {}, "hackbench -pl 4000"),
        ("hackbench-socket-thread", {"groups": 2}, "hackbench -Tl 4000 -g 2"),
        ("hackbench-socket-process", {"loops": 100}, "hackbench -l 100"),
        ("perf-pipe-same-cpu", {}, "perf bench sched pipe -l 1000000"),
        ("perf-messaging", {"tasks": "thread", "transport": "pipe"}, "perf bench sched messaging -g 10 -l 1000 -t -p"),
        ("perf-memcpy", {}, "perf bench mem memcpy -s 256MB -l 20 -f default"),
        ("perf-futex-hash", {}, "perf bench futex hash -r 10"),
        ("perf-futex-wake", {}, "perf bench futex wake -t 64"),
        ("stress-ng-af-alg", {}, "stress-ng --af-alg 0 --timeout 10 --no-rand-seed --metrics --yaml out.yaml"),
        ("schbench", {"message_threads": 6, "workers": 6}, "schbench -m 6 -t 6 -r 30"),
        ("schbench", {"json": True}, "schbench -m 1 -r 30 -j out.json"),
        ("synthmark-voicemark", {}, "synthmark -tv -s30 -p50"),
        ("synthmark-latencymark", {"seconds": 5}, "synthmark -tl -s5 -n10 -N40"),
    ],
)
def test_command_lines(name: str, parameters: dict[str, Any], wanted: str) -> None:
    assert argv(name, **parameters) == tuple(wanted.split())


def test_synthmark_tells_how_long_it_takes_at_least() -> None:
    """LatencyMark runs the size that it finds a second time."""
    wanted = {"synthmark-voicemark": 7, "synthmark-latencymark": 14, "synthmark-jittermark": 7}
    for name, expected_s in wanted.items():
        assert ALL[name].invocation({"seconds": 7}, NO_FACTS).expected_s == expected_s


def test_fio_bypasses_the_page_cache_unless_told_otherwise() -> None:
    for name in ALL:
        if name.startswith("fio-"):
            assert "--direct=1" in argv(name)
            assert "--output-format=json+" in argv(name)
    assert "--direct=0" in argv("fio-seq-read", direct=False)
    assert "--rwmixread=30" in argv("fio-rand-mixed", read_percent=30)


def test_fio_overwrites_at_random_what_was_written_in_order() -> None:
    assert [name for name in ALL if name.startswith("fio-") and "--overwrite=1" in argv(name)] == ["fio-rand-write"]


def test_fio_is_told_the_folder_before_the_file() -> None:
    """The other way round it takes no notice of the folder; what else lies there keeps its content."""
    words = argv("fio-seq-read", folder="/mnt/disk")
    assert words.index("--directory=/mnt/disk") < words.index("--filename=ktrial-fio-data")


def test_cyclictest_leaves_idle_states_alone_unless_told_otherwise() -> None:
    assert "--default-system" in argv("cyclictest-other")
    assert "--default-system" not in argv("cyclictest-other", hold_dma_latency=True)
    assert "-p" not in argv("cyclictest-other")
    assert argv("cyclictest-fifo", priority=50)[argv("cyclictest-fifo").index("-p") + 1] == "50"


def test_pipe_ends_are_pinned() -> None:
    assert ALL["perf-pipe-same-cpu"].invocation({"cpu": 3}, NO_FACTS).cpus == (3,)
    assert argv("perf-pipe-cross-cpu", cpu=2, other_cpu=3)[-3:] == ("2", "3", "100000")
    with pytest.raises(BadInput, match="different CPUs"):
        argv("perf-pipe-cross-cpu", cpu=1)


@pytest.mark.parametrize(
    "name,parameters",
    [
        ("hackbench-pipe-thread", {"groups": 0}),
        ("hackbench-pipe-thread", {"groups": True}),
        ("hackbench-pipe-thread", {"loops": "4000"}),
        ("fio-seq-read", {"direct": 1}),
        ("fio-seq-read", {"folder": "relative"}),
        ("fio-seq-read", {"folder": "/a:b"}),
        ("fio-seq-read", {"block": "4k --exec=reboot"}),
        ("fio-seq-read", {"engine": "libaio,exec"}),
        ("perf-memcpy", {"size": "256"}),
        ("perf-memcpy", {"function": "--help"}),
        ("perf-messaging", {"transport": "tcp"}),
        ("perf-pipe-cross-cpu", {"cpu": -1}),
        ("sysbench-memory", {"block": ""}),
        ("stress-ng-fork", {"seconds": 0}),
        ("cyclictest-fifo", {"priority": 100}),
        ("schbench", {"json": "yes"}),
    ],
)
def test_parameters_that_cannot_be_are_refused(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="parameter"):
        ALL[name].invocation(parameters, NO_FACTS)


def test_an_unknown_parameter_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="hackbench-pipe-thread") as caught:
        ALL["hackbench-pipe-thread"].invocation({"group": 3}, NO_FACTS)
    assert "groups" in caught.value.nearest
    with pytest.raises(UnknownName):
        ALL["cyclictest-other"].invocation({"priority": 80}, NO_FACTS)


def test_a_run_that_did_something_else_is_refused() -> None:
    text = (
        b"Running in threaded mode with 2 groups using 40 file descriptors each (== 80 tasks)\n"
        b"Each sender will pass 100 messages of 100 bytes\nTime: 0.062\n"
    )
    benchmark = ALL["hackbench-pipe-thread"]
    good = {"groups": 2, "loops": 100}
    assert benchmark.parse(RawOutput(stdout=text, exit_status=0), good).measurements[0].value == 0.062
    for other in ({"loops": 100}, {"groups": 2}, {**good, "bytes": 10}, {**good, "descriptors": 10}):
        with pytest.raises(BadRun, match="asked for"):
            benchmark.parse(RawOutput(stdout=text, exit_status=0), other)


def test_versions_are_found_on_either_stream() -> None:
    told = RawOutput(stderr=b"stress-ng, version 0.15.06 (gcc 12.2.0, x86_64 Linux 6.1)\n", exit_status=0)
    assert ALL["stress-ng-pipe"].parse_version(told) == "0.15.06"
    assert ALL["stress-ng-pipe"].parse_version(RawOutput(exit_status=0)) is None
    assert ALL["schbench"].version_invocation() is None
    assert ALL["schbench"].parse_version(told) is None

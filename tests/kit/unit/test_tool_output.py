# SPDX-License-Identifier: Apache-2.0
"""What holds for every reader of a benchmark tool's output, whatever bytes it is given."""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ktrial.bench.adapters
from ktrial.bench.adapters.boot_time import output as systemd_analyze
from ktrial.bench.adapters.cyclictest import output as cyclictest
from ktrial.bench.adapters.fio import output as fio
from ktrial.bench.adapters.fio.terse import read_fio_terse
from ktrial.bench.adapters.glmark2 import output as glmark2
from ktrial.bench.adapters.hackbench import output as hackbench
from ktrial.bench.adapters.iperf3 import output as iperf3
from ktrial.bench.adapters.perf_bench import output as perf_bench
from ktrial.bench.adapters.pgbench import output as pgbench
from ktrial.bench.adapters.redis_benchmark import output as redis_benchmark
from ktrial.bench.adapters.schbench import output as schbench
from ktrial.bench.adapters.stress_ng import output as stress_ng
from ktrial.bench.adapters.synthmark import output as synthmark
from ktrial.bench.adapters.sysbench import output as sysbench
from ktrial.bench.adapters.wrk import output as wrk
from ktrial.kit.errors import BadRun, UnreadableOutput
from ktrial.kit.formats import tool_output
from ktrial.kit.formats.tool_output import ended_lines, unreadable_value

Reader = Callable[[bytes, str], Any]
CASES = Path(ktrial.bench.adapters.__file__).parent
#: reader -> a recorded output that it reads
GOOD: dict[str, tuple[Reader, str]] = {
    "hackbench": (hackbench.read_hackbench, "hackbench/cases/2.4-thread-pipe/stdout"),
    "perf pipe": (perf_bench.read_pipe, "perf_bench/cases/6.1-pipe-same-cpu/stdout"),
    "perf messaging": (perf_bench.read_messaging, "perf_bench/cases/6.1-messaging-thread-pipe/stdout"),
    "perf memory": (perf_bench.read_memory, "perf_bench/cases/6.1-memcpy-all/stdout"),
    "perf futex hash": (perf_bench.read_futex_hash, "perf_bench/cases/6.1-futex-hash/stdout"),
    "perf futex wake": (perf_bench.read_futex_wake, "perf_bench/cases/6.1-futex-wake/stdout"),
    "sysbench": (sysbench.read_sysbench, "sysbench/cases/1.0.20-cpu/stdout"),
    "cyclictest": (cyclictest.read_cyclictest, "cyclictest/cases/2.4-other/files/out.json"),
    "fio": (fio.read_fio, "fio/cases/3.33-rand-mixed/files/out.json"),
    "glmark2": (glmark2.read_glmark2, "glmark2/cases/2023.01-software/stdout"),
    "iperf3": (iperf3.read_iperf3, "iperf3/cases/3.18-stream/stdout"),
    "stress-ng": (stress_ng.read_stress_ng, "stress_ng/cases/0.15.06-pipe/files/out.yaml"),
    "stress-ng instances": (stress_ng.read_stress_ng, "stress_ng/cases/0.22.01-fault/files/out.yaml"),
    "schbench": (schbench.read_schbench, "schbench/cases/2025-12/stderr"),
    "schbench json": (schbench.read_schbench, "schbench/cases/2025-12-json/files/out.json"),
    "systemd-analyze": (systemd_analyze.read_boot_times, "boot_time/cases/252-guest-initrd/stdout"),
    "pgbench": (pgbench.read_pgbench, "pgbench/cases/15.18-limit/stdout"),
    "pgbench log": (pgbench.read_log, "pgbench/cases/15.18-few-skipped/files/transactions.31354"),
    "redis-benchmark": (redis_benchmark.read_redis_benchmark, "redis_benchmark/cases/7.0.15-get/stdout"),
    "wrk": (wrk.read_wrk, "wrk/cases/4.1.0-server-killed/stdout"),
    "synthmark": (synthmark.read_synthmark, "synthmark/cases/1.27-jittermark/stdout"),
}
JSON = ("cyclictest", "fio", "iperf3", "schbench json")
EVERY = pytest.mark.parametrize("name", sorted(GOOD))
ENTRY = settings(max_examples=60, deadline=None)


def good(name: str) -> bytes:
    return (CASES / GOOD[name][1]).read_bytes()


def numbers(value: object) -> Iterator[float]:
    """Every number in a record."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(key)
            yield from numbers(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value


def survives(name: str, data: bytes) -> None:
    """A record with sane numbers, or the declared error with a short message; nothing else ever."""
    try:
        record = GOOD[name][0](data, "here")
    except UnreadableOutput as error:
        assert error.source == "here"
        assert error.wanted
        assert error.line is None or 1 <= error.line <= data.count(b"\n") + 1
        assert len(error.message) < 1000
        return
    except BadRun as error:
        assert name in ("synthmark", "iperf3"), error
        return
    assert all(math.isfinite(number) and number >= 0 for number in numbers(record))


@EVERY
def test_reads_its_own(name: str) -> None:
    assert list(numbers(GOOD[name][0](good(name), "here")))


def is_read(name: str, data: bytes) -> bool:
    try:
        GOOD[name][0](data, "here")
    except UnreadableOutput:
        return False
    return True


@EVERY
def test_nothing_recognised_is_an_error(name: str) -> None:
    nothing = [b"", b"\n\n \n", b"\0\1\2\xff" * 9, b"\xff\xfe\xfa", b"ok\n", b"{}", b"[]", b"{", b"---\n...\n"]
    assert [data for data in nothing if is_read(name, data)] == []


#: Readers of what is printed line by line or block by block: what was cut between two is read.
BLOCKS = ("perf memory", "pgbench log", "systemd-analyze")


@EVERY
def test_what_was_cut_off_is_refused_or_read_as_the_whole(name: str) -> None:
    data = good(name)
    whole = GOOD[name][0](data, "here")
    sizes = {*range(0, len(data), max(1, len(data) // 200)), *range(max(0, len(data) - 300), len(data))}
    if name in BLOCKS:
        sizes = {size for size in sizes if not data[:size].endswith(b"\n")}
    other = [
        size for size in sorted(sizes) if is_read(name, data[:size]) and GOOD[name][0](data[:size], "here") != whole
    ]
    assert other == []


@EVERY
def test_another_tools_output_is_refused(name: str) -> None:
    for other in GOOD:
        if other.split()[0] != name.split(maxsplit=1)[0]:
            with pytest.raises(UnreadableOutput):
                GOOD[name][0](good(other), "here")


@EVERY
def test_decimals_of_another_locale_are_refused(name: str) -> None:
    if name in ("schbench", "pgbench log", *JSON):
        data = re.sub(rb"(\d)(?=[,\s])", rb"\1,5", good(name), count=40)
    else:
        data = re.sub(rb"(\d)\.(\d)", rb"\1,\2", good(name))
    if name == "perf futex hash":
        data = re.sub(rb"Averaged (\d+)", rb"Averaged \1,5", data)
    with pytest.raises(UnreadableOutput):
        GOOD[name][0](data, "here")


def test_the_message_names_the_locale() -> None:
    with pytest.raises(UnreadableOutput, match=r"here:3: .*0,246.*decimal point"):
        hackbench.read_hackbench(good("hackbench").replace(b"0.246", b"0,246"), "here")


@pytest.mark.parametrize(
    "read",
    [
        lambda: tool_output.number("1e31", "here", 1, "a time"),
        lambda: tool_output.whole("1" * 31, "here", 1, "a count"),
        lambda: tool_output.json_quantity(10**31, "s", "here", "a time"),
        lambda: tool_output.json_whole(10**31, "here", "a count"),
    ],
)
def test_numbers_too_large_are_refused_as_such(read: Callable[[], object]) -> None:
    with pytest.raises(UnreadableOutput, match="is not a number below 1e30"):
        read()


@EVERY
def test_numbers_that_are_none_are_refused(name: str) -> None:
    """Put in the place of any value that was kept, a non-number is an error; nothing comes out of it as a number."""
    data = good(name)
    places = [match.span() for match in re.finditer(rb"(?<=[\s:])\d+(?:\.\d+)?(?=[\s,}]|$)", data)]
    for begin, end in places[:: max(1, len(places) // 25)]:
        for bad in (b"nan", b"inf", b"-1", b"1e999", b"0x10", b"9" * 400):
            survives(name, data[:begin] + bad + data[end:])


@pytest.mark.parametrize("name", JSON)
def test_truncated_json_is_refused(name: str) -> None:
    data = good(name).rstrip()
    for end in range(1, len(data), max(1, len(data) // 60)):
        with pytest.raises(UnreadableOutput):
            GOOD[name][0](data[:end], "here")


@pytest.mark.parametrize("name", JSON)
def test_json_that_holds_no_numbers_is_refused(name: str) -> None:
    key = {
        "cyclictest": rb'"cycles": ',
        "fio": rb'"bw_bytes" : ',
        "iperf3": rb'"num_streams":\t',
        "schbench json": rb'"wakeup_latency_pct99.0": ',
    }[name]
    for constant in (b"NaN", b"Infinity", b"-Infinity", b"-5", b"true", b'"5"', b"null", b"1e400"):
        data = re.sub(key + rb"\d+", key + constant, good(name), count=1)
        assert data != good(name)
        assert not is_read(name, data), constant


@pytest.mark.parametrize("name", JSON)
def test_duplicate_keys_are_refused(name: str) -> None:
    data = good(name)
    brace = data.index(b"{") + 1
    with pytest.raises(UnreadableOutput, match="the only key of this name"):
        GOOD[name][0](data[:brace] + b'"twice": 1, "twice": 2, ' + data[brace:], "here")


def test_iperf3_repeats_what_belongs_to_a_stream_and_nothing_else() -> None:
    run = iperf3.read_iperf3((CASES / "iperf3/cases/3.12-streams-reno/stdout").read_bytes(), "here")
    assert (run.streams, run.sender_congestion, run.receiver_congestion) == (3, "reno", "reno")
    data = good("iperf3")
    with pytest.raises(UnreadableOutput, match="the only key of this name"):
        iperf3.read_iperf3(data.replace(b'"num_streams":', b'"num_streams":\t1, "num_streams":'), "here")


def test_iperf3_may_tell_nothing_of_what_was_sent_again() -> None:
    data = re.sub(rb'"(retransmits|sender_tcp_congestion)":[^,}]*,', b"", good("iperf3"))
    run = iperf3.read_iperf3(data, "here")
    assert (run.retransmits, run.sender_congestion) == (None, None)
    with pytest.raises(UnreadableOutput, match="the protocol TCP"):
        iperf3.read_iperf3(data.replace(b'"TCP"', b'"UDP"'), "here")


def test_deep_and_huge_json_is_refused() -> None:
    for data in (b'{"a":' * 100_000, b'{"a":' + b"[" * 100_000, b'{"a": ' + b"1" * 10_000 + b"}"):
        with pytest.raises(UnreadableOutput):
            fio.read_fio(data, "here")


@EVERY
def test_values_twice_are_refused_or_the_last_counts(name: str) -> None:
    """Two outputs one after the other are no run, but for tools whose last block counts."""
    data = good(name) + b"\n" + good(name)
    if name in ("schbench", "perf pipe", "perf messaging", "perf futex hash", "perf futex wake", "synthmark"):
        survives(name, data)
    else:
        with pytest.raises(UnreadableOutput):
            GOOD[name][0](data, "here")


@EVERY
@ENTRY
@given(data=st.binary(max_size=300))
def test_any_bytes(name: str, data: bytes) -> None:
    survives(name, data)


@EVERY
@ENTRY
@given(seed=st.integers(0, 2**32))
def test_damaged_outputs(name: str, seed: int) -> None:
    """Cut, doubled, exchanged and overwritten pieces of a real output."""
    chance = random.Random(seed)
    data = bytearray(good(name))
    for _ in range(chance.randrange(1, 6)):
        begin = chance.randrange(len(data) + 1)
        end = min(len(data), begin + chance.randrange(40))
        kind = chance.randrange(4)
        if kind == 0:
            del data[begin:end]
        elif kind == 1:
            data[begin:begin] = data[begin:end]
        elif kind == 2:
            data[begin:end] = bytes(chance.choices(b"0123456789.,-+eE:=()[]{}\"' \n\0\xffnaif", k=end - begin))
        else:
            lines = bytes(data).split(b"\n")
            chance.shuffle(lines)
            data[:] = b"\n".join(lines)
    survives(name, bytes(data))


@pytest.mark.parametrize("name", sorted(set(GOOD) - set(JSON)))
def test_long_lines_and_many_lines_take_no_long(name: str) -> None:
    """No reader is slower than its input is long: neither by a pattern that goes back and forth nor by copies."""
    begin = time.process_time()
    for junk in (b" " * 300_000, b"1" * 300_000, b"a:" * 150_000, b" 1," * 100_000, b"x\n" * 150_000):
        survives(name, good(name) + junk)
    assert time.process_time() - begin < 5


def test_quantities_are_rounded_once() -> None:
    assert tool_output.quantity("750.16", "ms", "x", 1, "y").value == 0.75016
    assert tool_output.quantity("58344", "us", "x", 1, "y").value == 0.058344
    assert tool_output.quantity("2", "GiB/s", "x", 1, "y") == tool_output.Quantity(2147483648.0, "2 GiB/s")


def test_nearest_rank() -> None:
    histogram = {10: 50, 20: 49, 30: 1}
    assert tool_output.nearest_rank(histogram, 0.5) == 10
    assert tool_output.nearest_rank(histogram, 0.51) == 20
    assert tool_output.nearest_rank(histogram, 0.99) == 20
    assert tool_output.nearest_rank(histogram, 1.0) == 30
    assert tool_output.nearest_rank(histogram, 0.99, beyond=100) is None
    assert tool_output.nearest_rank({}, 0.5) is None
    assert tool_output.nearest_rank({}, 0.5, beyond=3) is None


def test_schbench_json_of_may_2025() -> None:
    block = {"percentiles": {"50.0": 4, "99.0": 38}, "min": 1, "max": 61}
    document = {"schbench": {"version": "6.15.0", "wakeup_latency": block}}
    run = schbench.read_schbench(json.dumps(document).encode(), "out.json")
    assert run.layout == "2025-05-json"
    assert run.kernel == "6.15.0"
    assert run.blocks["wakeup"].percentiles["99"].value == 38e-6
    assert run.blocks["wakeup"].maximum == tool_output.Quantity(61e-6, "61 us")


def test_sysbench_1_1() -> None:
    """The layout of 1.1: other labels for rate and time, in a block of their own."""
    text = """sysbench 1.1.0-2ca9e3f (using bundled LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1

Throughput:
    events/s (eps):                      446.4000
    time elapsed:                        10.0091s
    total number of events:              4468

Latency (ms):
         min:                                    2.05
         avg:                                    2.24
         max:                                    9.30
         95th percentile:                        2.61
         sum:                                10002.98
"""
    run = sysbench.read_sysbench(text.encode())
    assert run.version == "1.1.0-2ca9e3f"
    assert run.events_per_second == tool_output.Quantity(446.4, "446.4000 1/s")
    assert run.total_time.value == 10.0091
    assert run.percentile_latency == tool_output.Quantity(0.00261, "2.61 ms")


def test_fio_with_warnings_before_its_json() -> None:
    run = fio.read_fio(b"fio: this platform warns\nnote: of {something}\n" + good("fio"), "stdout")
    assert run.preamble == ("fio: this platform warns", "note: of {something}")
    assert run.jobs[0].directions["write"].throughput.value == 29821826


def test_fio_with_both_of_its_outputs() -> None:
    """`--output-format=normal,json` prints the same for people after the JSON."""
    run = fio.read_fio(good("fio").rstrip() + b"\n\njob: (groupid=0, jobs=1): err= 0\n  write: IOPS=1\n", "stdout")
    assert run.left_out == 2
    assert run.jobs[0].directions["write"].throughput.value == 29821826
    with pytest.raises(UnreadableOutput, match="extra data"):
        fio.read_fio(good("fio").rstrip() + b"\n" + good("fio"), "stdout")


def test_fio_terse_of_version_2_is_refused() -> None:
    with pytest.raises(BadRun, match="terse lines of version 2"):
        read_fio_terse(b"2;job;0;0;100;\n", "stdout")


def test_cyclictest_histogram_and_plain_agree_with_what_is_printed() -> None:
    plain = (
        b"# /dev/cpu_dma_latency set to 0us\n"
        b"T: 0 (30633) P: 0 I:1000 C:    500 Min:     38 Act:   86 Avg:  113 Max:    6988\n"
        b"T: 1 (30634) P: 0 I:1500 C:    352 Min:     27 Act:   84 Avg:   84 Max:    3958\n"
    )
    run = cyclictest.read_cyclictest(plain, "stdout")
    assert run.dma_latency_us == 0
    assert [thread.cycles for thread in run.threads] == [500, 352]
    assert [thread.maximum.value for thread in run.threads] == [0.006988, 0.003958]
    table = (
        b"# Histogram\n000012 000003\t000001\n000013 000000\t000002\n\n# Total: 000000003 000000003\n"
        b"# Min Latencies: 00012 00012\n# Avg Latencies: 00012 00012\n# Max Latencies: 00012 00900\n"
        b"# Histogram Overflows: 00000 00004\n# Histogram Overflow at cycle number:\n# Thread 0:\n# Thread 1: 00005\n"
    )
    run = cyclictest.read_cyclictest(table, "stdout")
    assert run.histogram_us == {12: 4, 13: 2}
    assert run.beyond == 4
    assert run.threads[1].cycles == 7
    with pytest.raises(UnreadableOutput, match="the sum of its column"):
        cyclictest.read_cyclictest(table.replace(b"000003\t", b"000004\t"), "stdout")


def test_stress_ng_counts_an_entry_and_not_its_instances() -> None:
    text = good("stress-ng instances")
    (entry,) = stress_ng.read_stress_ng(text, "here").stressors
    assert (entry.bogo_ops, entry.rate.value, len(entry.instances)) == (714, 712.836838, 2)
    assert set(entry.extra) == {"minor-page-faults-per-sec", "major-page-faults-per-sec", "nanosecs-per-page-fault"}
    with pytest.raises(UnreadableOutput, match="part of a list entry"):
        stress_ng.read_stress_ng(text.replace(b"\n      bogo-ops: 714", b"\n   bogo-ops: 714"), "here")


@pytest.mark.parametrize(
    "data, wanted",
    [
        (b"", "it is empty"),
        (b"12\0", "is not text: it is binary"),
        (b"12\xff", "'ff' is not UTF-8 text"),
        (b"1\n12", "the output is cut off"),
    ],
)
def test_what_is_no_text_is_told_before_what_is_cut_off(data: bytes, wanted: str) -> None:
    with pytest.raises(UnreadableOutput, match=wanted):
        list(ended_lines(data, "stdout"))


def test_a_value_of_json_is_quoted_once_and_controls_no_terminal() -> None:
    assert unreadable_value("a.json", "x", "a number").message == 'a.json: "x" is not a number'
    assert unreadable_value("a.json", None, "a number").message == "a.json: null is not a number"
    hostile = unreadable_value("a.json", "\x1b[2J\x9b2J\u202e", "a number").message
    assert hostile.isprintable()
    assert "u202e" in hostile

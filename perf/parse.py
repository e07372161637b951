# SPDX-License-Identifier: Apache-2.0
"""Throughput and memory of each reader of tool output on 50 MB, against a plain pass over the same bytes.

Run in a checkout that is set up:  .venv/bin/python -m perf.parse [MB]
The input is a recorded output made long by repeating what a long run repeats: lines for readers of text, histogram bins
and jobs for readers of JSON. The peer is `json.loads` for JSON and decoding and splitting into lines for text.
"""

from __future__ import annotations

import json
import re
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ktrial.benchmarks
from ktrial.formats import (
    cyclictest,
    fio,
    hackbench,
    perf_bench,
    pgbench,
    redis_benchmark,
    schbench,
    stress_ng,
    synthmark,
    sysbench,
    wrk,
)

CASES = Path(ktrial.benchmarks.__file__).parent
ROUNDS = 3


def recorded(name: str) -> bytes:
    return (CASES / name).read_bytes()


def before(name: str, junk: bytes, size: int) -> bytes:
    """A recorded text output with many lines, that its reader passes over, before it."""
    return recorded(name) + junk * (size // len(junk))


def repeated(name: str, size: int) -> bytes:
    """A whole output, again and again."""
    data = recorded(name)
    return data * (size // len(data))


def sysbench_intervals(size: int) -> bytes:
    line = b"[ 1s ] thds: 2 eps: 394.99 lat (ms,99%): 11.45\n"
    return recorded("sysbench/cases/1.0.20-cpu/stdout").replace(
        b"Threads started!\n", b"Threads started!\n" + line * (size // len(line))
    )


def stress_ng_entries(size: int) -> bytes:
    data = recorded("stress_ng/cases/0.15.06-pipe/files/out.yaml")
    begin, end = data.index(b"    - stressor"), data.index(b"\n...")
    return data[:begin] + data[begin:end] * (size // (end - begin)) + data[end:]


def pgbench_log(size: int) -> bytes:
    line = b"0 199 2241 0 1175850568 995598 1020\n"
    return line * (size // len(line))


def redis_rows(size: int) -> bytes:
    names, row = recorded("redis_benchmark/cases/7.0.15-get/stdout").splitlines(keepends=True)
    return names + row * (size // len(row))


def fio_jobs(size: int) -> bytes:
    document = json.loads(recorded("fio/cases/3.33-rand-mixed/files/out.json"))
    job = json.dumps(document["jobs"][0])
    document["jobs"] = []
    jobs = ", ".join([job] * (size // len(job)))
    return json.dumps(document).replace('"jobs": []', f'"jobs": [{jobs}]').encode()


def cyclictest_bins(size: int) -> bytes:
    document = json.loads(recorded("cyclictest/cases/2.4-other/files/out.json"))
    count = size // 16
    document["thread"]["0"] |= {"histogram": {str(key): 1 for key in range(count)}, "cycles": count}
    return json.dumps(document).encode()


def cyclictest_rows(size: int) -> bytes:
    count = size // 22
    rows = "".join(f"{key:06d} 000001\t000002\n" for key in range(count))
    summary = (
        f"# Total: {count} {2 * count}\n# Min Latencies: 1 1\n# Avg Latencies: 1 1\n# Max Latencies: 9 9\n"
        "# Histogram Overflows: 0 0\n"
    )
    return f"# Histogram\n{rows}{summary}".encode()


def schbench_json(size: int) -> bytes:
    data = recorded("schbench/cases/2025-12-json/files/out.json")
    more = b"".join(b'"other_%d": %d, ' % (key, key) for key in range(size // 30))
    return re.sub(rb'"int": \{', b'"int": {' + more, data)


INPUTS: dict[str, tuple[Callable[[bytes, str], Any], Callable[[int], bytes], bool]] = {
    "hackbench": (
        hackbench.read_hackbench,
        lambda size: before("hackbench/cases/2.4-thread-pipe/stdout", b"a line of something else\n", size),
        False,
    ),
    "perf pipe": (
        perf_bench.read_pipe,
        lambda size: repeated("perf_bench/cases/6.1-pipe-same-cpu/stdout", size),
        False,
    ),
    "perf futex hash": (
        perf_bench.read_futex_hash,
        lambda size: repeated("perf_bench/cases/6.1-futex-hash/stdout", size),
        False,
    ),
    "sysbench": (sysbench.read_sysbench, sysbench_intervals, False),
    "stress-ng": (stress_ng.read_stress_ng, stress_ng_entries, False),
    "cyclictest histogram": (cyclictest.read_histogram, cyclictest_rows, False),
    "schbench": (schbench.read_schbench_text, lambda size: repeated("schbench/cases/2025-12/stderr", size), False),
    "synthmark": (
        synthmark.read_synthmark,
        lambda size: before("synthmark/cases/1.27-voicemark/stdout", b" 249,  1:   8 voices used 0.011\n", size),
        False,
    ),
    "pgbench": (
        pgbench.read_pgbench,
        lambda size: before(
            "pgbench/cases/15.18-limit/stdout", b"- a line of the report that its reader passes over\n", size
        ),
        False,
    ),
    "pgbench log": (pgbench.read_log, pgbench_log, False),
    "redis-benchmark": (redis_benchmark.read_redis_benchmark, redis_rows, False),
    "wrk": (
        wrk.read_wrk,
        lambda size: before("wrk/cases/4.1.0-page/stdout", b"  passed over by wrk's reader\n", size),
        False,
    ),
    "cyclictest json": (cyclictest.read_json, cyclictest_bins, True),
    "fio": (fio.read_fio, fio_jobs, True),
    "schbench json": (schbench.read_schbench_json, schbench_json, True),
}


def lines(data: bytes) -> int:
    return sum(1 for line in data.decode().split("\n") if line)


def seconds(call: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def peak(call: Callable[[], Any]) -> int:
    """Bytes that the call had at most, in a run of its own: tracing slows it down."""
    tracemalloc.start()
    call()
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return largest


def row(name: str, size: int) -> str:
    reader, make, is_json = INPUTS[name]
    data, part = make(size), make(size // 10)
    peer: Callable[[bytes], Any] = json.loads if is_json else lines
    own, other = seconds(lambda: reader(data, "input")), seconds(lambda: peer(data))
    memory = peak(lambda: reader(part, "input")) / len(part)
    megabytes = len(data) / 1e6
    rates = f"{megabytes / own:9.1f}{megabytes / other:11.1f}{own / other:12.1f}"
    return f"{name:22}{megabytes:6.1f}{rates}{memory:14.1f}"


def main(arguments: list[str]) -> int:
    size = int(arguments[0]) * 1_000_000 if arguments else 50_000_000
    print(f"{'reader':22}{'MB':>6}{'MB/s':>9}{'peer MB/s':>11}{'times peer':>12}{'memory/input':>14}")
    for name in INPUTS:
        print(row(name, size))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Throughput and memory of each reader of tool output on 50 MB, against a plain pass over the same bytes.

Run in a checkout that is set up:  .venv/bin/python -m perf.parse [MB]

The input is a recorded output, made longer by repeating what a long run repeats: lines for readers of text, histogram
bins and jobs for readers of JSON. The peer is `json.loads` for JSON, and decoding and splitting into lines for text.
The goal limits only the memory: the peak of a reader, in bytes per byte of its input.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ktrial.bench.adapters
from ktrial.bench.adapters import _agent_load_reply as agent_load
from ktrial.bench.adapters.boot_time import output as systemd_analyze
from ktrial.bench.adapters.cpython_loop import output as cpython_loop
from ktrial.bench.adapters.cyclictest import output as cyclictest
from ktrial.bench.adapters.fio import output as fio
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
from ktrial.bench.adapters.xplane import output as xplane
from ktrial.kit import json_strict
from ktrial.kit.formats import kernel_config
from ktrial.recordings import ktrial as ktrial_recording
from ktrial.recordings.blocks import block
from ktrial.recordings.frames import android, mangohud
from perf.arguments import argument, how_many

Reader = Callable[..., Any]
CASES = Path(ktrial.bench.adapters.__file__).parent
ROUNDS = 3
#: Bytes of memory per byte of input. A number of three digits in a Python table takes about 100 bytes.
MOST_MEMORY = 32.0
#: The same limit for a recording, whose blocks are deflated.
MOST_MEMORY_PACKED = 64.0
PACKED = ("ktrial watch",)


def recorded(name: str) -> bytes:
    return (CASES / name).read_bytes()


def before(name: str, junk: bytes, size: int) -> bytes:
    """Return a recorded text output after many lines that its reader skips."""
    return recorded(name) + junk * (size // len(junk))


def recorded_events(size: int) -> bytes:
    """Return a recording with blocks of events, each at a time that deflating cannot predict."""
    data = bytearray(recorded("watch/cases/made-10-s/files/recording.ktr"))
    moment = 7
    while len(data) < size:
        events = []
        for _ in range(1000):
            moment = moment * 6364136223846793005 % 2**62
            events.append(f'{{"kind":"kswapd","begin_ns":{5 * 10**9 + moment % 10**10},"length_ns":{moment % 10**6}}}')
        data += block(b"E", "\n".join(events).encode())
    return bytes(data)


def repeated(name: str, size: int) -> bytes:
    """Return a whole output, repeated."""
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


def mangohud_rows(size: int) -> bytes:
    data = (Path(__file__).parents[1] / "tests/golden/frames/0.8.4-capped/input").read_bytes()
    head, row = data[: data.index(b"\n59.9")], b"59.9543,16.6794,100,0,0,0,0,0,0,0,0,2.52071,0,0,0,%d\n"
    return head + b"\n" + b"".join(row % (16_679_400 * number) for number in range(1, size // 60))


def framestats_rows(size: int) -> bytes:
    data = recorded("gfxinfo/cases/14-made/stdout").removesuffix(b"=ktrial end\n")
    return data * (1 + size // len(data))


def iperf3_intervals(size: int) -> bytes:
    document = json.loads(recorded("iperf3/cases/3.18-stream/stdout"))
    interval = json.dumps(document["intervals"][0])
    document["intervals"] = []
    intervals = ", ".join([interval] * (size // len(interval)))
    return json.dumps(document).replace('"intervals": []', f'"intervals": [{intervals}]').encode()


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


def load_bins(size: int) -> bytes:
    """Return a reply of the agent's own load with a histogram with more than its largest number of bins."""
    bins = ",".join(f'"{key}":1' for key in range(10**9, 10**9 + size // 15))
    head = '{"load":"memcpy","parameters":{},"started_ns":5,"wall_ns":3,"ended":"done","results":{"passes":3},'
    return f'{head}"histogram":{{{bins}}}}}'.encode()


def functions(size: int) -> bytes:
    """Return a memcpy output with very many implementations."""
    head, _, block = recorded("perf_bench/cases/6.1-memcpy-default/stdout").partition(b"\n")
    text = block.replace(b"'default'", b"'f%d'")
    return b"\n".join([head, *(text % number for number in range(size // len(text)))])


def python_loops(size: int) -> bytes:
    data = recorded("cpython_loop/cases/3.11.2/stdout")
    return data.replace(b'"times_ns": [', b'"times_ns": [' + b"26647759, " * (size // 10))


def kernel_configuration(size: int) -> bytes:
    data = recorded("kernel_compile/cases/6.12-tinyconfig/files/build/.config")
    return data + b"".join(b"CONFIG_OF_A_LARGE_KERNEL_%d=y\n" % number for number in range(size // 33))


def own_document(size: int) -> bytes:
    """Return the output of a user's command, for a metric at a fixed place."""
    entry = '{"name": "a", "values": [1.5, 2, 3e-3]}'
    return f"[{', '.join([entry] * (size // len(entry)))}]".encode()


def read_own(data: bytes, source: str) -> Any:
    return json_strict.decode(data.decode())


#: Every reader that an adapter imports; a test checks that the list is complete.
INPUTS: dict[str, tuple[Reader, Callable[[int], bytes], bool]] = {
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
    "perf messaging": (
        perf_bench.read_messaging,
        lambda size: repeated("perf_bench/cases/6.1-messaging-thread-pipe/stdout", size),
        False,
    ),
    "perf memcpy": (perf_bench.read_memory, functions, False),
    "perf futex wake": (
        perf_bench.read_futex_wake,
        lambda size: (
            recorded("perf_bench/cases/6.1-futex-hash/stdout").replace(b"futex/hash", b"futex/wake")
            + b"[Run 1]: Wokeup 4 of 4 threads in 0.1430 ms\n" * (size // 44)
            + recorded("perf_bench/cases/6.1-futex-wake/stdout")
        ),
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
    "systemd-analyze": (
        systemd_analyze.read_boot_times,
        lambda size: before("boot_time/cases/252-guest/stdout", b"a line of something else\n", size),
        False,
    ),
    "x-plane": (
        xplane.read_xplane,
        lambda size: before("xplane/cases/12-made-replay/files/Log.txt", b"0:00:11.204 I/SCN: DSF load time\n", size),
        False,
    ),
    "kernel's .config": (kernel_config.read_kernel_config, kernel_configuration, False),
    "mangohud": (mangohud.read_mangohud, mangohud_rows, False),
    "gfxinfo": (android.read_framestats, framestats_rows, False),
    "glmark2": (
        glmark2.read_glmark2,
        lambda size: before("glmark2/cases/2023.01-software/stdout", b"** a warning of a library\n", size),
        False,
    ),
    "pgbench": (
        pgbench.read_pgbench,
        lambda size: before(
            "pgbench/cases/15.18-limit/stdout", b"- a line of the report that its reader passes over\n", size
        ),
        False,
    ),
    "ktrial watch": (ktrial_recording.read_recording, recorded_events, False),
    "pgbench log": (pgbench.read_log, pgbench_log, False),
    "redis-benchmark": (redis_benchmark.read_redis_benchmark, redis_rows, False),
    "wrk": (
        wrk.read_wrk,
        lambda size: before("wrk/cases/4.1.0-page/stdout", b"  passed over by wrk's reader\n", size),
        False,
    ),
    "cyclictest json": (cyclictest.read_json, cyclictest_bins, True),
    "fio": (fio.read_fio, fio_jobs, True),
    "iperf3": (iperf3.read_iperf3, iperf3_intervals, True),
    "schbench json": (schbench.read_schbench_json, schbench_json, True),
    "agent's load": (agent_load.read_load, load_bins, True),
    "python loop": (cpython_loop.read_loop_run, python_loops, True),
    "place in own JSON": (read_own, own_document, True),
}


def lines(data: bytes) -> int:
    return sum(1 for line in data.decode(errors="replace").split("\n") if line)


def seconds(call: Callable[[], Any]) -> float:
    """Return the processor time of the best round, which load on the machine changes little."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


def peak(call: Callable[[], Any]) -> int:
    """Return the peak memory of the call, from a separate run because tracing slows it down."""
    tracemalloc.start()
    call()
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return largest


def row(name: str, size: int) -> tuple[str, bool]:
    """Return the reader's line, and whether the goal is met."""
    function, make, is_json = INPUTS[name]
    takes_source = len(inspect.signature(function).parameters) > 1

    def reader(data: bytes) -> Any:
        return function(data, "input") if takes_source else function(data)

    data, part = make(size), make(size // 10)
    peer: Callable[[bytes], Any] = json.loads if is_json else lines
    own, other = seconds(lambda: reader(data)), seconds(lambda: peer(data))
    memory = peak(lambda: reader(part)) / len(part)
    megabytes = len(data) / 1e6
    rates = f"{megabytes / own:9.1f}{megabytes / other:11.1f}{own / other:12.1f}"
    allowed = MOST_MEMORY_PACKED if name in PACKED else MOST_MEMORY
    verdict = "" if memory <= allowed else f"  MISSED: at most {allowed:g}"
    return f"{name:22}{megabytes:6.1f}{rates}{memory:14.1f}{verdict}", memory <= allowed


def main(arguments: list[str]) -> int:
    size = argument("MB", 50, how_many, arguments) * 1_000_000
    print(f"{'reader':22}{'MB':>6}{'MB/s':>9}{'peer MB/s':>11}{'times peer':>12}{'memory/input':>14}")
    missed = 0
    for name in INPUTS:
        line, good = row(name, size)
        print(line, flush=True)
        missed += not good
    print(f"memory is bounded: {len(INPUTS) - missed} of {len(INPUTS)} readers")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

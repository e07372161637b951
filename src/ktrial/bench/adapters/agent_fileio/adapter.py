# SPDX-License-Identifier: Apache-2.0
"""The agent's `fileio`: sequential and random reads and writes of one file, with a cold or a warm page cache."""

from __future__ import annotations

from itertools import product

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.outcomes import latency, rate
from ktrial.kit.outcome import Measurement, Outcome

_BLIND = (
    "One thread, one block at a time, through the file system; no deep queue. Includes a virtual disk, the device's "
    "own cache and read-ahead; with `direct`, which bypasses the page cache, the kernel reads nothing ahead."
)
#: Bytes per second that no device reaches: a cold run above it came from the page cache.
_FASTEST_DEVICE = 5e10
_FASTEST_MEMORY = 1e12


def _outcomes(cache: str) -> tuple[Outcome, ...]:
    return (
        rate(
            "bandwidth",
            "B/s",
            "[More|Fewer] bytes are moved per second.",
            _BLIND,
            (100.0, _FASTEST_DEVICE if cache == "cold" else _FASTEST_MEMORY),
            headline=True,
        ),
        latency("block-p50", "A typical block takes [less|more] time.", _BLIND),
        latency("block-p99", "The slowest 1 % of blocks take [less|more] time.", _BLIND),
    )


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return (
        per_second(reply, "bandwidth", "moved_bytes", "busy_ns"),
        time_of(reply, "block-p50", "p50_ns"),
        time_of(reply, "block-p99", "p99_ns"),
    )


def _benchmark(operation: str, order: str, cache: str) -> LoadBenchmark:
    where = "in order" if order == "sequential" else "at random"
    state = "none of it in the page cache" if cache == "cold" else "all of it in the page cache"
    flushed = ", each flushed" if (operation, cache) == ("write", "cold") else ""
    directly = {"direct": False} if cache == "cold" else {}
    block_bytes = 131072 if order == "sequential" else 4096
    return LoadBenchmark(
        name=f"agent-fileio-{operation}-{order}-{cache}",
        what=f"Bandwidth and latency of {operation}s of blocks of a file {where}{flushed}, {state}.",
        load="fileio",
        outcomes=_outcomes(cache),
        reader=_read,
        beyond_exact="the disk of such a guest is memory, and its clock does not count waits",
        fixed={"operation": operation, "order": order, "cache": cache},
        parameters={
            "bytes": 256 << 20,
            "block_bytes": block_bytes,
            "duration_s": 5.0,
            "directory": "/var/tmp",
            "io_priority": None,
            **directly,
        },
    )


BENCHMARKS = tuple(
    _benchmark(operation, order, cache)
    for operation, order, cache in product(("read", "write"), ("sequential", "random"), ("cold", "warm"))
)

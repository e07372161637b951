# SPDX-License-Identifier: Apache-2.0
"""The agent's `pressure`: a frame loop beside threads that stream a file and allocate memory in bursts."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.benchmark import Parameters
from ktrial.bench.outcomes import latency, outcome, rate
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement
from ktrial.machine.facts import FactBook

_BLIND = (
    "An artificial program: no graphics card, no disk (the file is sparse). On few CPUs the streaming threads and the "
    "kernel's reclaim take CPU time from the frames, so not all late frames are due to memory. There is no pressure "
    "until the page cache is full: the first runs of a trial fill it, more of them on a machine with much memory."
)
#: Bytes per second that one thread writes to fresh memory beside the others: 1.4e9 on two busy CPUs, less with reclaim.
_WRITTEN_BYTES_PER_S = 1e9
#: Without a given size, a burst is this part of the available memory beyond the reserve, but not more than the limit.
_DEFAULT_SHARE = 4
_MOST_BURST_BYTES = 256 << 20
_FRAMES = {
    "frame-p50": ("p50_ns", "A typical frame ends"),
    "frame-p99": ("p99_ns", "The latest 1 % of frames end"),
    "frame-max": ("max_ns", "The latest frame ends"),
}
_OUTCOMES = (
    outcome(
        "late-frames",
        "ratio",
        "score",
        "[Fewer|More] frames are unfinished when the next one is due.",
        f"Does not say how late they were. {_BLIND}",
        (0.0, 1.0),
        headline=True,
    ),
    *(
        latency(name, f"{which} [sooner|later] after the due start time.", _BLIND)
        for name, (_, which) in _FRAMES.items()
    ),
    outcome(
        "allocation-stalls",
        "count",
        "count",
        "[Fewer|More] threads of the whole machine have to free memory themselves before they get any.",
        f"Counts them, without how long they took. {_BLIND}",
        (0.0, 1e9),
    ),
    latency("burst-p50", "A typical burst of memory takes [less|more] time to allocate.", _BLIND),
    rate("read-rate", "B/s", "[More|Less] of the file is streamed per second.", _BLIND, (1000.0, 1e13)),
)


def _stalls(reply: LoadReply) -> tuple[Measurement, ...]:
    """Return the number of stalls; nothing if the agent (before 0.1.0) or the kernel does not count them."""
    stalls = reply.number("allocation_stalls") if "allocation_stalls" in reply.results else None
    if stalls is None:
        return ()
    return (Measurement(outcome="allocation-stalls", value=float(stalls), original=str(stalls)),)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    frames, late = reply.positive("count"), reply.number("late_frames") or 0
    if left_out := reply.number("bursts_left_out"):
        raise BadRun(
            f"the load skipped {left_out} of its bursts, which would have left less free memory than reserve_bytes",
            hint="set a smaller burst_bytes or reserve_bytes",
        )
    return (
        Measurement(outcome="late-frames", value=late / frames, original=f"{late} of {frames}"),
        *(time_of(reply, outcome, name) for outcome, (name, _) in _FRAMES.items()),
        *_stalls(reply),
        time_of(reply, "burst-p50", "burst_p50_ns"),
        per_second(reply, "read-rate", "read_bytes"),
    )


def _expected_s(parameters: Parameters, facts: FactBook) -> float | None:
    """Return the seconds that all bursts take if each is slow and the next one follows at once; None if unknown."""
    available_bytes, burst_bytes = facts.value("memory.available"), parameters["burst_bytes"]
    known = [parameters[name] for name in ("duration_s", "bursts_per_s", "reserve_bytes")]
    if burst_bytes is None and isinstance(available_bytes, int) and isinstance(known[2], int):
        burst_bytes = min(_MOST_BURST_BYTES, max(0, available_bytes - known[2]) // _DEFAULT_SHARE)
    if not all(isinstance(one, int | float) for one in (*known, burst_bytes)):
        return None
    return float(known[0] * known[1] * burst_bytes / _WRITTEN_BYTES_PER_S)


BENCHMARK = LoadBenchmark(
    name="agent-pressure",
    what="Late frames of a loop at a fixed rate beside threads that stream a file and allocate memory in bursts.",
    load="pressure",
    # Every burst is carried out, however late it is.
    spare_s=1800.0,
    expected=_expected_s,
    outcomes=_OUTCOMES,
    reader=_read,
    parameters={
        "file_bytes": None,
        "readers": 2,
        "burst_bytes": None,
        "bursts_per_s": 2,
        "reserve_bytes": 1 << 30,
        "frames_per_s": 120,
        "duration_s": 10.0,
        "directory": "/var/tmp",
        "seed": None,
    },
)

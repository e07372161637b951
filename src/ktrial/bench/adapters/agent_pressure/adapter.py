# SPDX-License-Identifier: Apache-2.0
"""The agent's `pressure`: a frame loop beside threads that stream a file and take memory in bursts."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, latency, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.benchmark import Parameters
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.machine.facts import FactBook

_BLIND = (
    "A made-up program: no graphics card, no disk (the file is sparse). On few CPUs the streaming threads, and the "
    "kernel's own reclaim, take CPU time from the frames; late frames then are not all due to memory. Until the page "
    "cache is full there is no pressure: the duration must be long enough for this machine's memory."
)
#: Bytes a second that one thread writes to fresh memory beside the others: 1.4e9 on two busy CPUs, less with reclaim.
_WRITTEN_BYTES_PER_S = 1e9
#: A burst is this part of what the reserve leaves of the available memory, unless its size is given.
_DEFAULT_SHARE = 4
_FRAMES = {
    "frame-p50": ("p50_ns", "A typical frame"),
    "frame-p99": ("p99_ns", "The latest frame in a hundred"),
    "frame-max": ("max_ns", "The latest frame of all"),
}
_OUTCOMES = (
    Outcome(
        name="late-frames",
        unit="ratio",
        direction="lower",
        kind="score",
        low=0.0,
        high=1.0,
        better="Fewer frames were not done when the next one was due.",
        worse="More frames were not done when the next one was due.",
        blind_spots=f"Says nothing of how late they were. {_BLIND}",
        headline=True,
    ),
    *(
        latency(
            name,
            f"{which} was done sooner after the moment at which it had to begin.",
            f"{which} was done later after the moment at which it had to begin.",
            _BLIND,
        )
        for name, (_, which) in _FRAMES.items()
    ),
    Outcome(
        name="allocation-stalls",
        unit="count",
        direction="lower",
        kind="count",
        low=0.0,
        high=1e9,
        better="Fewer threads, of the whole machine, had to free memory themselves before they got some.",
        worse="More threads, of the whole machine, had to free memory themselves before they got some.",
        blind_spots=f"A count, and not how long they took. {_BLIND}",
    ),
    latency(
        "burst-p50",
        "A typical burst of memory was there sooner.",
        "A typical burst of memory was there later.",
        _BLIND,
    ),
    Outcome(
        name="read-rate",
        unit="B/s",
        direction="higher",
        kind="rate",
        low=1000.0,
        high=1e13,
        better="More of the scenery was streamed in a second.",
        worse="Less of the scenery was streamed in a second.",
        blind_spots=_BLIND,
    ),
)


def _stalls(reply: LoadReply) -> tuple[Measurement, ...]:
    """Agents before 0.1.0 did not count them, and kernels may not."""
    stalls = reply.number("allocation_stalls") if "allocation_stalls" in reply.results else None
    if stalls is None:
        return ()
    return (Measurement(outcome="allocation-stalls", value=float(stalls), original=str(stalls)),)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    frames, late = reply.positive("count"), reply.number("late_frames") or 0
    if left_out := reply.number("bursts_left_out"):
        raise BadRun(f"{left_out} bursts were left out, since they would have reached into the reserve")
    return (
        Measurement(outcome="late-frames", value=late / frames, original=f"{late} of {frames}"),
        *(time_of(reply, outcome, name) for outcome, (name, _) in _FRAMES.items()),
        *_stalls(reply),
        time_of(reply, "burst-p50", "burst_p50_ns"),
        per_second(reply, "read-rate", "read_bytes"),
    )


def _expected_s(parameters: Parameters, facts: FactBook) -> float | None:
    """Bursts that take longer than their rhythm follow each other without a pause, to the last one."""
    available_bytes, burst_bytes = facts.value("memory.available"), parameters["burst_bytes"]
    known = [parameters[name] for name in ("duration_s", "bursts_per_s", "reserve_bytes")]
    if burst_bytes is None and isinstance(available_bytes, int) and isinstance(known[2], int):
        burst_bytes = max(0, available_bytes - known[2]) // _DEFAULT_SHARE
    if not all(isinstance(one, int | float) for one in (*known, burst_bytes)):
        return None
    return float(known[0] * known[1] * burst_bytes / _WRITTEN_BYTES_PER_S)


BENCHMARK = LoadBenchmark(
    name="agent-pressure",
    what="Late frames of a loop at a fixed rate beside threads that stream a file and take memory in bursts.",
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
        "bursts_per_s": 1,
        "reserve_bytes": 1 << 30,
        "frames_per_s": 60,
        "duration_s": 60.0,
        "directory": "/var/tmp",
        "seed": None,
    },
)

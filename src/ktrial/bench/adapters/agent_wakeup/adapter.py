# SPDX-License-Identifier: Apache-2.0
"""The agent's `wakeup`: how late threads run after their wake-up is due, for several ways of waking them."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.outcomes import latency
from ktrial.kit.outcome import Measurement, Outcome

_BLIND = (
    "Counted from the moment at which the wake-up was due, so it includes the lateness of the waking thread's own "
    "timer. The threads only wake and sleep, at a fixed rhythm (unless work_s and seed say otherwise)."
)
_BLIND_TIMER = (
    "Wake-ups by timers only, at a fixed rhythm and without work (unless seed and work_s say otherwise); includes the "
    "slack that the kernel adds to timers of ordinary threads."
)
_BLIND_RING = (
    "From the call that wakes until the woken thread runs, without the lateness of that call. The waker itself was "
    "woken by a timer, so caches and an idle CPU are cold. schbench shows less, in a guest about half: there the woken "
    "thread has just woken its waker, and it counts whole microseconds and drops zeros."
)
_QUANTILES = {
    "p50": ("p50_ns", "A typical wake-up comes"),
    "p99": ("p99_ns", "The latest 1 % of wake-ups come"),
    "p999": ("p99_9_ns", "The latest 0.1 % of wake-ups come"),
}


def _outcomes(kind: str) -> tuple[Outcome, ...]:
    blind = _BLIND_TIMER if kind == "timer" else _BLIND
    found = [
        latency(
            f"lateness-{quantile}", f"{which} [sooner|later] after the due time.", blind, headline=quantile == "p99"
        )
        for quantile, (_, which) in _QUANTILES.items()
    ]
    latest = "The latest wake-up comes [sooner|later] after the due time."
    found.append(latency("lateness-max", latest, f"Grows with the number of wake-ups. {blind}"))
    if kind != "timer":
        found += [
            latency(f"wakeup-{quantile}", f"{which} [sooner|later] after the waking call.", _BLIND_RING)
            for quantile, (_, which) in _QUANTILES.items()
        ]
    return tuple(found)


def _benchmark(kind: str, by: str) -> LoadBenchmark:
    def reader(reply: LoadReply) -> tuple[Measurement | None, ...]:
        names = {f"lateness-{quantile}": name for quantile, (name, _) in _QUANTILES.items()} | {
            "lateness-max": "max_ns"
        }
        if kind != "timer":
            names |= {f"wakeup-{quantile}": f"ring_{name}" for quantile, (name, _) in _QUANTILES.items()}
        return tuple(time_of(reply, outcome, name) for outcome, name in names.items())

    return LoadBenchmark(
        name=f"agent-wakeup-{kind}",
        what=f"How late threads run after {by} should have woken them, at a fixed rate.",
        load="wakeup",
        outcomes=_outcomes(kind),
        reader=reader,
        fixed={"kind": kind},
        parameters={"pairs": 1, "rate_per_s": 1000, "duration_s": 10.0, "seed": None, "work_s": None},
    )


BENCHMARKS = tuple(
    _benchmark(kind, by)
    for kind, by in {
        "futex": "another thread's futex call",
        "pipe": "another thread's byte in a pipe",
        "eventfd": "another thread's eventfd, watched with epoll,",
        "timer": "their own timer",
    }.items()
)

# SPDX-License-Identifier: Apache-2.0
"""The agent's `wakeup`: how late threads run after they should have been woken, by what wakes them."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, latency, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.kit.outcome import Measurement, Outcome

_BLIND = (
    "Counted from the moment at which the wake-up was due, so that it holds the lateness of the waking thread's own "
    "timer too. Threads that do nothing but wake and sleep, at a fixed rhythm (unless work_s and seed say otherwise)."
)
_BLIND_TIMER = (
    "A timer's expiry only, at a fixed rhythm and without work (unless seed and work_s say otherwise); holds the slack "
    "that the kernel gives to timers of ordinary threads."
)
_BLIND_RING = (
    "From the call that wakes to the woken thread's running; does not hold the lateness of that call. The waker comes "
    "from its own timer, so that caches and an idle CPU are cold: schbench, where the woken thread has just woken its "
    "waker, counts whole microseconds and drops zeros, tells less, in a guest about half."
)
_QUANTILES = {
    "p50": ("p50_ns", "the typical wake-up"),
    "p99": ("p99_ns", "the latest wake-up in a hundred"),
    "p999": ("p99_9_ns", "the latest wake-up in a thousand"),
}


def _outcomes(kind: str) -> tuple[Outcome, ...]:
    blind = _BLIND_TIMER if kind == "timer" else _BLIND
    found = [
        latency(
            f"lateness-{quantile}",
            f"The thread of {which} ran sooner after the moment at which it was due.",
            f"The thread of {which} ran later after the moment at which it was due.",
            blind,
            headline=quantile == "p99",
        )
        for quantile, (_, which) in _QUANTILES.items()
    ]
    maximum = "the latest wake-up of all"
    better = f"The thread of {maximum} ran sooner after the moment at which it was due."
    worse = f"The thread of {maximum} ran later after the moment at which it was due."
    found.append(latency("lateness-max", better, worse, f"Grows with the number of wake-ups. {blind}"))
    if kind != "timer":
        found += [
            latency(
                f"wakeup-{quantile}",
                f"The thread of {which} ran sooner after the call that woke it.",
                f"The thread of {which} ran later after the call that woke it.",
                _BLIND_RING,
            )
            for quantile, (_, which) in _QUANTILES.items()
        ]
    return tuple(found)


def _benchmark(kind: str, by: str) -> LoadBenchmark:
    def reader(reply: LoadReply) -> tuple[Measurement | None, ...]:
        found = [time_of(reply, f"lateness-{quantile}", name) for quantile, (name, _) in _QUANTILES.items()]
        found.append(time_of(reply, "lateness-max", "max_ns"))
        if kind != "timer":
            found += [
                time_of(reply, f"wakeup-{quantile}", f"ring_{name}") for quantile, (name, _) in _QUANTILES.items()
            ]
        return tuple(found)

    return LoadBenchmark(
        name=f"agent-wakeup-{kind}",
        what=f"How late threads run after the moments at which {by} should have woken them, at a fixed rate.",
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
        "eventfd": "another thread's eventfd, waited for by epoll,",
        "timer": "their own timer",
    }.items()
)

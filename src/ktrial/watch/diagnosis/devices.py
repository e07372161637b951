# SPDX-License-Identifier: Apache-2.0
"""Request latencies of each block device, their clusters, and the power states that explain them."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.judge.stats.latency_modes import Mode, modes
from ktrial.kit.tables import clean
from ktrial.kit.units import show_seconds
from ktrial.recordings.latency import Latencies, PowerState
from ktrial.recordings.model import Recording
from ktrial.watch.diagnosis.model import DeviceFound, ModeFound

HEADERS = ("device", "requests", "median", "99 %", "longest", "above 5 ms", "modes at")


def device_rows(devices: Sequence[DeviceFound]) -> list[list[str]]:
    return [
        [
            clean(one.name),
            str(one.requests),
            *(_time(value) for value in (one.median_s, one.p99_s, one.longest_s)),
            f"{one.above_share:.2%}",
            ", ".join(_heap(mode) for mode in one.modes) or "-",
        ]
        for one in devices
    ]


def device_sentences(devices: Sequence[DeviceFound]) -> list[str]:
    """Return a sentence for each cluster that matches the exit latency of a power state."""
    return [
        f"{clean(one.name)}: {mode.share:.2%} of its requests took about {show_seconds(mode.at_s)}, mostly after idle "
        f"periods: according to the drive, leaving power state {mode.state} takes {show_seconds(mode.exit_s)}."
        for one in devices
        for mode in one.modes
        if mode.state is not None and mode.exit_s is not None
    ]


def _heap(mode: ModeFound) -> str:
    return f"{_time(mode.at_s)} ({mode.share:.2g})"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else show_seconds(seconds)


#: Requests above this latency count as slow.
SLOW_S = 0.005
#: A waking drive explains a cluster whose share of the requests after idle periods is this many times its share of all.
_MORE = 3.0


def devices(recording: Recording) -> tuple[DeviceFound, ...]:
    found = [_device(name, one) for name, one in recording.latencies.items() if one.requests]
    return tuple(sorted(found, key=lambda one: -(one.p99_s or 0.0)))


def _device(name: str, one: Latencies) -> DeviceFound:
    return DeviceFound(
        name=name,
        requests=one.requests,
        bytes=one.bytes,
        median_s=one.quantile(0.5),
        p99_s=one.quantile(0.99),
        longest_s=one.histogram[-1][0] if one.histogram else None,
        limit_s=SLOW_S,
        above_share=one.above(SLOW_S),
        modes=tuple(_mode(mode, one) for mode in modes(one.histogram)),
        histogram=one.histogram,
        exits=tuple((state.id, state.exit_s) for state in one.states if not state.operational and state.exit_s > 0),
    )


def _mode(mode: Mode, one: Latencies) -> ModeFound:
    left = _state(mode, one)
    return ModeFound(
        at_s=mode.at_s,
        share=mode.share,
        state=None if left is None else left.id,
        exit_s=None if left is None else left.exit_s,
    )


def _state(mode: Mode, one: Latencies) -> PowerState | None:
    """Return the power state whose exit latency explains the cluster; None unless idle periods precede its requests."""
    fitting = [state for state in one.states if state.fits(mode.at_s)]
    if not fitting or _near(mode.at_s, one.after_idle) < _MORE * _near(mode.at_s, one.histogram):
        return None
    return min(fitting, key=lambda state: abs(mode.at_s - state.exit_s))


def _near(at_s: float, histogram: tuple[tuple[float, int], ...]) -> float:
    """Return the share of requests whose latency is within about a quarter of `at_s`."""
    total = sum(count for _, count in histogram)
    near = sum(count for end_s, count in histogram if 0.75 * at_s <= end_s <= 1.34 * at_s)
    return near / total if total else 0.0

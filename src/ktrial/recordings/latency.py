# SPDX-License-Identifier: Apache-2.0
"""Request latencies of a block device, and the requests that woke an NVMe drive from a power state."""

from __future__ import annotations

import msgspec

#: A drive needs at least this long without requests to change its state on its own.
IDLE_S = 0.05
#: Range of an exit, relative to the latencies that the drive states (the upper end includes entry and a request).
_LEAST, _MOST, _BESIDE_S = 0.5, 1.25, 0.001


class PowerState(msgspec.Struct, frozen=True, kw_only=True):
    """A power state of a drive. Values that the drive does not report are None."""

    id: int
    operational: bool
    entry_latency_us: int | None = None
    exit_latency_us: int | None = None
    maximum_power_uw: int | None = None

    @property
    def exit_s(self) -> float:
        return (self.exit_latency_us or 0) * 1e-6

    def fits(self, length_s: float) -> bool:
        """Return whether a request of this duration may have waited until the drive left this state."""
        most_s = _MOST * (self.exit_s + (self.entry_latency_us or 0) * 1e-6) + _BESIDE_S
        return not self.operational and self.exit_s > 0 and _LEAST * self.exit_s <= length_s <= most_s


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram of request latencies: `(upper end in seconds, requests)`, four bars per doubling.

    `after_idle` counts requests after an idle period. `states` are the power states that the drive may
    enter on its own.
    """

    requests: int
    bytes: int
    flushes: int
    histogram: tuple[tuple[float, int], ...]
    after_idle: tuple[tuple[float, int], ...] = ()
    states: tuple[PowerState, ...] = ()

    def above(self, limit_s: float) -> float:
        counted = sum(count for _, count in self.histogram)
        return sum(count for end_s, count in self.histogram if end_s > limit_s) / counted if counted else 0.0

    def quantile(self, share: float) -> float | None:
        """Return the upper end of the bar that contains this quantile; None without requests."""
        wanted = share * sum(count for _, count in self.histogram)
        seen = 0
        for end_s, count in self.histogram:
            seen += count
            if count and seen >= wanted:
                return end_s
        return None


def state_left(length_s: float, idle_s: float | None, states: tuple[PowerState, ...]) -> PowerState | None:
    """Return the power state that best explains a request's duration after this idle time; None if no state does."""
    if idle_s is None or idle_s < IDLE_S:
        return None
    fitting = [state for state in states if state.fits(length_s)]
    return min(fitting, key=lambda state: abs(length_s - state.exit_s), default=None)

# SPDX-License-Identifier: Apache-2.0
"""How long the requests of a block device took, and which of them woke an NVMe drive out of a power state."""

from __future__ import annotations

import msgspec

#: A drive changes its state by itself after so long without a request, at the earliest.
IDLE_S = 0.05
#: An exit takes from this share of what the drive states, up to this multiple with its entry, and a request beside it.
_LEAST, _MOST, _BESIDE_S = 0.5, 1.25, 0.001


class PowerState(msgspec.Struct, frozen=True, kw_only=True):
    """A state that a drive may be in; what it does not report is None."""

    id: int
    operational: bool
    entry_latency_us: int | None = None
    exit_latency_us: int | None = None
    maximum_power_uw: int | None = None

    @property
    def exit_s(self) -> float:
        """How long it says that leaving takes."""
        return (self.exit_latency_us or 0) * 1e-6

    def fits(self, length_s: float) -> bool:
        """Return whether a request that took so long may have waited for the drive to leave this state."""
        most_s = _MOST * (self.exit_s + (self.entry_latency_us or 0) * 1e-6) + _BESIDE_S
        return not self.operational and self.exit_s > 0 and _LEAST * self.exit_s <= length_s <= most_s


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a device by how long they took: `(end of a bar in seconds, requests)`, four bars to each doubling.

    `after_idle` are those that came when it had had none for a while. `states` are those that it may enter by itself.
    """

    requests: int
    bytes: int
    flushes: int
    histogram: tuple[tuple[float, int], ...]
    after_idle: tuple[tuple[float, int], ...] = ()
    states: tuple[PowerState, ...] = ()

    def above(self, limit_s: float) -> float:
        """Return the share of requests whose bar lies above a limit."""
        counted = sum(count for _, count in self.histogram)
        return sum(count for end_s, count in self.histogram if end_s > limit_s) / counted if counted else 0.0

    def quantile(self, share: float) -> float | None:
        """Return the end of the bar up to which that share of requests lies; None without requests."""
        wanted = share * sum(count for _, count in self.histogram)
        seen = 0
        for end_s, count in self.histogram:
            seen += count
            if count and seen >= wanted:
                return end_s
        return None


def state_left(length_s: float, idle_s: float | None, states: tuple[PowerState, ...]) -> PowerState | None:
    """The state that a drive left for a request, as its length and the drive's idleness before say; None for none."""
    if idle_s is None or idle_s < IDLE_S:
        return None
    fitting = [state for state in states if state.fits(length_s)]
    return min(fitting, key=lambda state: abs(length_s - state.exit_s), default=None)

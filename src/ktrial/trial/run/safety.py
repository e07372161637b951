# SPDX-License-Identifier: Apache-2.0
"""Watches the limits of a trial while it goes on, during its runs too."""

from __future__ import annotations

from ktrial.kit.errors import LimitPassed, Refused
from ktrial.machine.ports import Sampling
from ktrial.machine.run_conditions import TEMPERATURES
from ktrial.machine.sensors import Samples
from ktrial.trial.protocol.limits import SafetyLimits

#: Sources of samples that the limits need.
SOURCES = ("temperature", "pressure")
#: The time in which all tasks waited for memory, since the boot.
_STALLED = "pressure.memory.full"
#: Shorter than this, a share of time says nothing.
_SHORTEST_S = 0.5


class SafetyWatch:
    """Looks once at each `check`; `sampling` is for nothing else."""

    def __init__(self, limits: SafetyLimits, sampling: Sampling) -> None:
        self._limits = limits
        self._sampling = sampling
        self._before: tuple[int, float] | None = None

    def begin(self) -> None:
        """The first look. Raises Refused for a limit on what cannot be read here."""
        samples = self._sampling.once()
        if self._limits.temperature_c is not None and _temperature(samples) is None:
            raise Refused(f"the limit on temperature cannot be watched here: {_why(samples, 'temperature')}")
        if self._limits.memory_pressure_share is not None and _stalled(samples) is None:
            raise Refused(f"the limit on memory_pressure cannot be watched here: {_why(samples, 'pressure')}")
        self._judge(samples)

    def check(self) -> None:
        """Raise LimitPassed where a limit is passed now."""
        self._judge(self._sampling.once())

    def _judge(self, samples: Samples) -> None:
        said = self._limits.passed(_temperature(samples), self._pressure(samples))
        if said is not None:
            raise LimitPassed(said, hint="the trial has ended there, and the machine is as before")

    def _pressure(self, samples: Samples) -> float | None:
        stalled = _stalled(samples)
        if stalled is None:
            return None
        now_ns = samples.times_ns[-1]
        if self._before is None:
            self._before = now_ns, stalled
            return None
        (before_ns, before_s) = self._before
        passed_s = (now_ns - before_ns) / 1e9
        if passed_s < _SHORTEST_S:
            return None
        self._before = now_ns, stalled
        return (stalled - before_s) / passed_s


def _temperature(samples: Samples) -> float | None:
    """The hottest sensor."""
    names = [name for name in samples.columns if name.startswith(TEMPERATURES)]
    return max((value for name in names if (value := samples.values(name)[-1]) is not None), default=None)


def _stalled(samples: Samples) -> float | None:
    return samples.values(_STALLED)[-1] if _STALLED in samples.columns else None


def _why(samples: Samples, source: str) -> str:
    return samples.absent.get(source) or "no sensor tells it"

# SPDX-License-Identifier: Apache-2.0
"""Memory and I/O of processes and groups over time, from the samples of ktrial's own recordings."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from math import isnan, nan

import msgspec

from ktrial.recordings.model import Usage

_S = 1e-9
Pair = tuple[int, int]
_Point = tuple[float, "UsageChange", int]


class UsageChange(msgspec.Struct, frozen=True, kw_only=True):
    """A process or a control group, with its use at the previous sample and at the current sample."""

    pid: int | None = None
    name: str | None = None
    group: str | None = None
    memory: Pair | None = None
    cache: Pair | None = None
    read: Pair | None = None
    written: Pair | None = None

    @property
    def key(self) -> tuple[int | None, str]:
        """The identity of the process or group. It includes the name, because the kernel reuses process IDs."""
        return self.pid, self.name or self.group or ""


class UsageLook(msgspec.Struct, frozen=True, kw_only=True):
    """One sample, with the processes and groups that have changed since the previous sample."""

    at_ns: int
    before_ns: int
    changed: tuple[UsageChange, ...]


LOOK = msgspec.json.Decoder(UsageLook)


def usages(looks: Iterable[UsageLook], start_ns: int) -> tuple[Usage, ...]:
    """Return the use of each process and group over time; a sample that lacks one leaves its use unchanged."""
    points: dict[tuple[int | None, str], list[_Point]] = {}
    for look in looks:
        for one in look.changed:
            own = points.setdefault(one.key, [])
            before_s, at_s = (look.before_ns - start_ns) * _S, (look.at_ns - start_ns) * _S
            if not own or own[-1][0] < before_s:
                own.append((before_s, one, 0))
            own.append((at_s, one, 1))
    return tuple(_usage(own) for own in points.values())


def _usage(points: list[_Point]) -> Usage:
    first = points[0][1]

    def values(of: Callable[[UsageChange], tuple[Pair | None, ...]]) -> array[float] | None:
        """Return the sum of the known values at each time; None if no value is ever known."""
        found = array("d")
        for _, one, which in points:
            known = [pair[which] for pair in of(one) if pair is not None]
            found.append(float(sum(known)) if known else nan)
        return None if all(map(isnan, found)) else found

    return Usage(
        name=first.key[1],
        pid=first.pid,
        cgroup=first.group,
        times_s=array("d", (at_s for at_s, _, _ in points)),
        memory_bytes=values(lambda one: (one.memory,)),
        cache_bytes=values(lambda one: (one.cache,)),
        io_bytes=values(lambda one: (one.read, one.written)),
    )

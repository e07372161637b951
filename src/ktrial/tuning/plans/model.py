# SPDX-License-Identifier: Apache-2.0
"""The parts of a plan, and the inputs that it is made from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from ktrial.machine.facts import FactBook, FactKind
from ktrial.machine.reading import KnobState
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.profile import Setting


class Why(Enum):
    """The kind of reason for skipping a setting."""

    ABSENT = "absent"
    CONDITION = "condition"
    UNTOLD = "could-not-tell"
    AT_BOOT = "at-boot"
    AT_BUILD = "at-build"
    NOT_OFFERED = "not-offered"
    NO_INSTANCE = "no-instance"
    DANGEROUS = "dangerous"
    UNREADABLE = "unreadable"
    READ_ONLY = "read-only"
    NOT_ADDED = "not-added"


class Change(msgspec.Struct, frozen=True):
    """One value to write. The old value is None if it is unreadable; `inert` says why the change has no effect here."""

    knob: str
    address: str
    path: str
    rule: str
    new_text: str
    old_text: str | None
    old: bytes | None
    couples: tuple[str, ...]
    effective: str | None
    why: str | None
    origin: str
    risk: str
    controlled: bool = False
    inert: str | None = None

    @classmethod
    def later(cls, knob: str, address: str, path: str, text: str, *, origin: str, risk: str = "safe") -> Change:
        """Return a change to write later; the file's present value does not matter."""
        return cls(
            knob=knob,
            address=address,
            path=path,
            rule="exact",
            new_text=text,
            old_text=None,
            old=None,
            couples=(),
            effective=None,
            why=None,
            origin=origin,
            risk=risk,
        )

    @property
    def already(self) -> bool:
        return self.old_text is not None and self.old_text == self.new_text


class Refusal(msgspec.Struct, frozen=True):
    """One skipped setting, with the reason and what to do instead."""

    knob: str
    address: str
    kind: Why
    reason: str
    value: str
    origin: str
    hint: str | None = None


class ZramStep(msgspec.Struct, frozen=True):
    """A zram swap device to set up in one step; `usual_size` means that ktrial chose its size."""

    device: str | None
    size_bytes: int
    algorithm: str | None
    priority: int
    origin: str
    usual_size: bool = False


class ServiceStep(msgspec.Struct, frozen=True):
    """A systemd unit to start or stop, which is currently in the other state."""

    name: str
    start: bool


class Plan(msgspec.Struct, frozen=True):
    """What `apply` would do on this machine. `same` holds the values that are set already."""

    title: str
    changes: tuple[Change, ...]
    same: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    zram: ZramStep | None = None
    service: ServiceStep | None = None

    @property
    def empty(self) -> bool:
        return not self.changes and self.zram is None and self.service is None


class Request(msgspec.Struct, frozen=True):
    """Settings with one origin: a profile, or one KNOB=VALUE of the command line."""

    origin: str
    settings: tuple[Setting, ...]


class Context(msgspec.Struct, frozen=True):
    """The knobs, facts and states with which ktrial resolves settings."""

    knobs: Mapping[str, Knob]
    kinds: Mapping[str, FactKind]
    facts: FactBook
    states: Mapping[str, KnobState]

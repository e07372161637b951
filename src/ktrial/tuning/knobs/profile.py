# SPDX-License-Identifier: Apache-2.0
"""Profiles: named settings with their reasons; a ladder stacks profiles in tiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.kit.errors import BadInput, UnknownName


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A knob (with an instance selector where it has instances) and the value wanted."""

    knob: str
    value: Any
    why: str | None = None
    when: Any = None
    controlled: bool = False


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of a ladder: a profile, something that must be built, or words for the kernel's command line.

    `fragments` are those of the configuration with which its kernel can be built.
    """

    name: str
    why: str
    profile: str | None = None
    build: str | None = None
    boot: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a tier that is none of the three, or several."""
        if (self.profile is not None) + (self.build is not None) + bool(self.boot) != 1:
            raise ValueError(f"tier {self.name}: it needs one of profile, build and boot")

    @property
    def lacking(self) -> str | None:
        """What a running kernel cannot give it."""
        if self.build is not None:
            return f"needs a build: {self.build}"
        return f"needs a boot with {' '.join(self.boot)}" if self.boot else None


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state that must hold before the profile may be applied; the profile itself does not bring it about."""

    that: Any
    why: str


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Named settings. `generated` marks one whose settings are computed on the machine."""

    name: str
    summary: str
    source: str | None = None
    extends: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    setting: tuple[Setting, ...] = ()
    tier: tuple[Tier, ...] = ()
    require: tuple[Requirement, ...] = ()
    generated: Literal["stock", "distro"] | None = None


def flatten(name: str, profiles: Mapping[str, Profile]) -> tuple[Setting, ...]:
    """All settings of a profile: those it extends (and its tiers' profiles) first, its own last; a later one wins."""
    return tuple(_walk(name, profiles, ()))


def requirements(name: str, profiles: Mapping[str, Profile]) -> tuple[Requirement, ...]:
    """Return what must hold for a profile and all that it extends."""
    profile = profiles[name]
    inherited = [item for parent in profile.extends for item in requirements(parent, profiles)]
    return (*inherited, *profile.require)


def _walk(name: str, profiles: Mapping[str, Profile], path: tuple[str, ...]) -> list[Setting]:
    if name in path:
        chain = " -> ".join((*path[path.index(name) :], name))
        raise BadInput(f"profiles extend each other in a circle: {chain}", hint="take one of these `extends` out")
    profile = profiles.get(name)
    if profile is None:
        raise UnknownName("profile", name, profiles, hint="`ktrial profiles` lists them")
    settings: list[Setting] = []
    for parent in (*profile.extends, *(tier.profile for tier in profile.tier if tier.profile)):
        settings += _walk(parent, profiles, (*path, name))
    return [*settings, *profile.setting]

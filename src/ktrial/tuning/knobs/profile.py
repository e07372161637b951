# SPDX-License-Identifier: Apache-2.0
"""Profiles: named settings with reasons. A ladder stacks profiles in tiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.kit.errors import BadInput, UnknownName


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A knob or some of its instances, and the value to set if the condition `when` holds.

    A `controlled` setting prepares a machine for measurements and is not itself under test.
    """

    knob: str
    value: Any
    why: str | None = None
    when: Any = None
    controlled: bool = False


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of a ladder: a profile, a kernel to build (with `fragments` of configuration), or boot parameters."""

    name: str
    why: str
    profile: str | None = None
    build: str | None = None
    boot: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError unless the tier has exactly one of profile, build and boot."""
        if (self.profile is not None) + (self.build is not None) + bool(self.boot) != 1:
            raise ValueError(f"tier {self.name}: expected exactly one of profile, build and boot")

    @property
    def lacking(self) -> str | None:
        """Return the boot or build that the tier needs; None if the running kernel suffices."""
        if self.build is not None:
            return f"needs a build: {self.build}"
        return f"needs a boot with {' '.join(self.boot)}" if self.boot else None


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition for applying the profile, which the profile itself does not establish."""

    that: Any
    why: str


class ProfileOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The origin of a copied profile: the original's name, the version of ktrial, and the original's digest."""

    profile: str
    version: str
    sha256: str


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Named settings. ktrial computes the settings of a `generated` profile on the machine."""

    name: str
    summary: str
    source: str | None = None
    origin: ProfileOrigin | None = None
    extends: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    setting: tuple[Setting, ...] = ()
    tier: tuple[Tier, ...] = ()
    require: tuple[Requirement, ...] = ()
    generated: Literal["stock", "distro"] | None = None


def flatten(name: str, profiles: Mapping[str, Profile]) -> tuple[Setting, ...]:
    """Return all settings of a profile: of the profiles that it extends, of its tiers, then its own.

    If a knob occurs twice, the later setting counts.
    """
    return tuple(_walk(name, profiles, ()))


def requirements(name: str, profiles: Mapping[str, Profile]) -> tuple[Requirement, ...]:
    """Return the requirements of a profile and of all profiles that it extends."""
    profile = profiles[name]
    inherited = [item for parent in profile.extends for item in requirements(parent, profiles)]
    return (*inherited, *profile.require)


def _walk(name: str, profiles: Mapping[str, Profile], path: tuple[str, ...]) -> list[Setting]:
    if name in path:
        chain = " -> ".join((*path[path.index(name) :], name))
        raise BadInput(
            f"profiles extend each other in a circle: {chain}",
            hint="remove one of these profiles from `extends` or from its tier",
        )
    profile = profiles.get(name)
    if profile is None:
        raise UnknownName("profile", name, profiles, hint="run `ktrial profiles` to list all profiles")
    settings: list[Setting] = []
    for parent in (*profile.extends, *(tier.profile for tier in profile.tier if tier.profile)):
        settings += _walk(parent, profiles, (*path, name))
    return [*settings, *profile.setting]

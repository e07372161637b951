# SPDX-License-Identifier: Apache-2.0
"""Copy a profile under another name, with a record of the original."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from ktrial.kit.errors import BadInput
from ktrial.tuning.knobs.profile import Profile, ProfileOrigin, Setting, flatten, requirements
from ktrial.tuning.knobs.profile_toml import profile_toml


def copy_profile(name: str, own: str, profiles: Mapping[str, Profile], version: str) -> Profile:
    """Return a copy of the profile `name` under the name `own`, with the settings of the profiles that it extends.

    Raise BadInput for a profile whose settings are computed on the machine.
    """
    profile = profiles[name]
    if profile.generated is not None:
        raise BadInput(
            f"cannot copy {name}: its settings are computed on each machine",
            hint=f"run `ktrial plan {name}` to see the settings here",
        )
    origin = ProfileOrigin(profile=name, version=version, sha256=digest(name, profiles))
    return replace(_whole(name, profiles), name=own, origin=origin)


def digest(name: str, profiles: Mapping[str, Profile]) -> str:
    """Return the SHA-256 of the profile as TOML, with the settings of the profiles that it extends."""
    return hashlib.sha256(profile_toml(_whole(name, profiles)).encode()).hexdigest()


def _whole(name: str, profiles: Mapping[str, Profile]) -> Profile:
    """Return the profile with the settings, requirements and notes of those that it extends; tiers keep their own."""
    profile = profiles[name]
    settings = [one for parent in profile.extends for one in flatten(parent, profiles)]
    latest: dict[tuple[str, str], Setting] = {}
    for one in (*settings, *profile.setting):  # a later setting replaces an earlier one and moves to the end
        key = one.knob, str(one.when)
        latest.pop(key, None)
        latest[key] = one
    return replace(
        profile,
        extends=(),
        setting=tuple(latest.values()),
        require=requirements(name, profiles),
        notes=_notes(name, profiles),
    )


def _notes(name: str, profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    profile = profiles[name]
    return (*profile.notes, *(note for parent in profile.extends for note in _notes(parent, profiles)))


def origin_text(profile: Profile, profiles: Mapping[str, Profile]) -> str | None:
    """Return what the profile is a copy of, and whether the original has changed since; None if it is not a copy."""
    origin = profile.origin
    if origin is None:
        return None
    since = ""
    if origin.profile not in profiles:
        since = ", which the catalog no longer has"
    elif digest(origin.profile, profiles) != origin.sha256:
        since = ", which has changed since"
    return f"copy of {origin.profile} (ktrial {origin.version}){since}"

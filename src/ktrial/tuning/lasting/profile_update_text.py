# SPDX-License-Identifier: Apache-2.0
"""Text of kept profiles that an update of ktrial changed."""

from __future__ import annotations

from collections.abc import Iterable

from ktrial.kit.tables import paragraph
from ktrial.tuning.lasting.profile_update import ProfileUpdate, SettingUpdate


def updates_text(updates: Iterable[ProfileUpdate], *, width: int) -> str:
    """Return one paragraph per profile, each after an empty line."""
    return "".join(f"\n{_one(update, width)}\n" for update in updates)


def _one(update: ProfileUpdate, width: int) -> str:
    if update.problem is not None:
        return paragraph(f"profile {update.profile} {update.problem}", width=width)
    settings = ", ".join(_setting(one) for one in update.settings)
    text = f"profile {update.profile} has changed since: {settings}; `ktrial keep --accept` takes it"
    return paragraph(text, width=width)


def _setting(one: SettingUpdate) -> str:
    if one.kept is None:
        return f"{one.address} {one.now} is new"
    return f"{one.address} {one.kept} is dropped" if one.now is None else f"{one.address} {one.kept} -> {one.now}"

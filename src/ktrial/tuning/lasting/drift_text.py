# SPDX-License-Identifier: Apache-2.0
"""Text and JSON of the drift of kept settings."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from ktrial.kit.tables import paragraph, table
from ktrial.tuning.lasting.drift import DriftReport, KeptSetting
from ktrial.tuning.lasting.keep_text import edited_text
from ktrial.tuning.lasting.model import PLACES
from ktrial.tuning.lasting.profile_update import ProfileUpdate, SettingUpdate

_STATES = {"no-device": "device absent"}


def drift_text(drift: DriftReport, *, width: int) -> str:
    """Return a text with the settings that are not live, the edited files, and the verdicts of other kernels."""
    if not drift.settings and not drift.edited:
        return "Nothing is kept.\n"
    parts = []
    unlike = [one for one in drift.settings if one.state != "live"]
    if unlike:
        parts.append(table(("knob", "kept", "now", "state", "since"), [_row(one) for one in unlike], width=width))
    parts += [edited_text(file) for file in drift.edited]
    others = sorted(set(drift.other_kernels.values()))
    if others:
        count = len(drift.other_kernels)
        subject = "1 verdict was" if count == 1 else f"{count} verdicts were"
        text = f"{subject} reached on another kernel ({', '.join(others)}; now {drift.kernel})."
        parts.append(paragraph(f"{text} `ktrial retest` repeats the trials.", width=width))
    live, total = len(drift.settings) - len(unlike), len(drift.settings)
    parts.append(f"{live} of {total} kept settings are live.")
    return "\n\n".join(parts) + "\n"


def _row(one: KeptSetting) -> tuple[str, ...]:
    day = "-" if one.kept_unix_ms is None else time.strftime("%Y-%m-%d", time.gmtime(one.kept_unix_ms / 1000))
    details = [text for text in (one.detail, one.written_by and f"set by {one.written_by}") if text]
    state = _STATES.get(one.state, one.state)
    return one.address, one.value, one.now or "-", state + (f": {'; '.join(details)}" if details else ""), day


def drift_json(drift: DriftReport) -> dict[str, Any]:
    """Return the drift as a `ktrial.drift/1` document."""
    return {
        "schema": "ktrial.drift/1",
        "differs": drift.has_drifted,
        "kernel": drift.kernel,
        "settings": [msgspec.to_builtins(one) for one in drift.settings],
        "edited": [{"path": PLACES[one.form], "kept": one.text, "now": one.now} for one in drift.edited],
        "other_kernels": drift.other_kernels,
    }


def updates_text(updates: Iterable[ProfileUpdate], *, width: int) -> str:
    """Return one paragraph per profile, each after an empty line."""
    return "".join(f"\n{_update(update, width)}\n" for update in updates)


def _update(update: ProfileUpdate, width: int) -> str:
    if update.problem is not None:
        return paragraph(f"profile {update.profile} {update.problem}", width=width)
    settings = ", ".join(_setting(one) for one in update.settings)
    text = f"profile {update.profile} has changed since: {settings}; `ktrial keep --accept` accepts it"
    return paragraph(text, width=width)


def _setting(one: SettingUpdate) -> str:
    if one.kept is None:
        return f"{one.address} {one.now} is new"
    return f"{one.address} {one.kept} is dropped" if one.now is None else f"{one.address} {one.kept} -> {one.now}"

# SPDX-License-Identifier: Apache-2.0
"""Write profiles as TOML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ktrial.kit.toml import quoted
from ktrial.tuning.knobs.profile import Profile


def profile_toml(profile: Profile) -> str:
    """Return the profile as TOML; the loader reads this text back as the same profile."""
    fields = {name: getattr(profile, name) for name in ("name", "summary", "source", "generated", "extends")}
    lines = list(_table(fields))
    if profile.origin is not None:
        lines.append(f"origin = {toml_value(msgspec.to_builtins(profile.origin))}")
    if profile.notes:
        lines += ["notes = [", *(f"  {toml_value(note)}," for note in profile.notes), "]"]
    for header, rows in (("require", profile.require), ("tier", profile.tier), ("setting", profile.setting)):
        for row in rows:
            lines += ["", f"[[{header}]]", *_table(msgspec.structs.asdict(row))]
    return "\n".join(lines) + "\n"


def _table(fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if value not in (None, (), False) or name == "value":
            yield f"{name} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
    return quoted(str(value))

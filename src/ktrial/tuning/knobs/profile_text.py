# SPDX-License-Identifier: Apache-2.0
"""Text output for profiles: the list, and one profile with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktrial.kit.tables import paragraph, table
from ktrial.tuning.catalog.model import CatalogSource
from ktrial.tuning.knobs.profile import Profile, Setting, flatten
from ktrial.tuning.knobs.profile_copy import origin_text
from ktrial.tuning.knobs.value import show_value


def profiles_text(profiles: Mapping[str, Profile], *, width: int) -> str:
    rows = [(profile.name, _count(profile, profiles), profile.summary) for profile in profiles.values()]
    listing = table(("profile", "settings", "what it is"), rows, width=width)
    more = "`ktrial profiles NAME` shows one with its reasons; `ktrial plan NAME` resolves it here."
    return f"{listing}\n\n{paragraph(more, width=width)}\n"


def profile_text(
    name: str, profiles: Mapping[str, Profile], sources: Mapping[str, CatalogSource], *, width: int
) -> str:
    """Return a text on one profile: summary, source, notes, tiers and every setting with its reason."""
    profile = profiles[name]
    parts = [paragraph(f"{profile.name}: {profile.summary}", width=width)]
    if profile.source and profile.source in sources:
        parts.append(paragraph(f"source: {sources[profile.source].title}", width=width))
    copied = origin_text(profile, profiles)
    if copied is not None:
        parts.append(paragraph(copied, width=width))
    parts += [paragraph(f"note: {note}", width=width) for note in profile.notes]
    if profile.tier:
        rows = [(tier.name, tier.profile or "-", tier.lacking or tier.why) for tier in profile.tier]
        parts.append(table(("tier", "profile", "what"), rows, width=width))
    rows3 = [(setting.knob, show_value(setting.value), _why(setting)) for setting in flatten(name, profiles)]
    if rows3:
        parts.append(table(("knob", "value", "why"), rows3, width=width))
    return "\n\n".join(parts) + "\n"


def _why(setting: Setting) -> str:
    condition = f" [when {_condition(setting.when)}]" if setting.when is not None else ""
    controlled = " [controlled]" if setting.controlled else ""
    return f"{setting.why or ''}{condition}{controlled}".strip()


def _condition(condition: Any) -> str:
    if isinstance(condition, Mapping):
        word, parts = next(iter(condition.items()))
        joiner = " and " if word == "all" else " or "
        return joiner.join(_condition(part) for part in parts)
    return str(condition)


def _count(profile: Profile, profiles: Mapping[str, Profile]) -> str:
    if profile.generated is not None:
        return "computed"
    return str(len(flatten(profile.name, profiles)))

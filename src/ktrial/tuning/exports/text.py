# SPDX-License-Identifier: Apache-2.0
"""Helpers for exporters: comments, quoting, reasons for refusing a text, and the list of targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ktrial.kit.tables import clean, table
from ktrial.tuning.exports.model import FORMS, LastingProfile, LastingSetting, boot_word

if TYPE_CHECKING:
    from ktrial.tuning.exporters import ExportTarget

#: Words of these characters mean the same to every boot loader, shell and unit.
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.,:/@+=%^~-]+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.,:@+=%~/*?\[\]!^-]+")


def heading(profile: LastingProfile, *lines: str, mark: str = "#") -> list[str]:
    """Return the comment at the head of a file."""
    return [f"{mark} {one_line(line)}" for line in (f"Written by ktrial export: {profile.title}.", *lines)] + [""]


def comment(setting: LastingSetting, *, mark: str = "#", indent: str = "") -> list[str]:
    """Return the setting and its reasons as comment lines."""
    first = f"{setting.address} = {setting.text}"
    return [f"{indent}{mark} {one_line(line)}" for line in (first, *(f"  {reason}" for reason in setting.reasons))]


def one_line(text: str) -> str:
    """Return `text` on one line: without control characters, and without a backslash at its end."""
    plain = "".join(" " if not character.isprintable() else character for character in clean(text))
    return plain.rstrip().rstrip("\\").encode("utf-8", "replace").decode()


def file_text(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def unwritable(text: str) -> str | None:
    """Return why this value cannot be written in a line of text; None if it can."""
    if not text.strip():
        return "the value is empty"
    if text != text.strip():
        return "white space at the ends of a value would be lost"
    if not all(character.isprintable() for character in text):
        return "the value contains control characters"
    return None


def path_refusal(setting: LastingSetting) -> str | None:
    """Return why the path of a setting cannot be a plain word in a script or a file; None if it can."""
    path = setting.path
    if any(part in {"", ".", ".."} for part in path.split("/")[1:]):
        return f"{path!r} is not a plain path"
    if not _PLAIN_PATH.fullmatch(path):
        return f"the name in {path!r} contains characters that a shell or a file format interprets"
    return None


def without_rotational(setting: LastingSetting) -> str | None:
    """Return why a target that selects devices by name alone cannot express the setting; None if it can."""
    if setting.rotational is None:
        return None
    return "this target selects devices by name only, not by whether they rotate"


def at_once(setting: LastingSetting) -> str | None:
    """Return why writing to the parameter of a loaded module comes too late; None if it does not."""
    if setting.form == "module" and setting.knob.takes_effect != "now":
        return "the parameter counts when the module is loaded or a device appears, not when it is written later"
    return None


def file_refusal(setting: LastingSetting) -> str | None:
    """Return why a line that names a file and a value cannot hold the setting; None if it can."""
    return unwritable(setting.text) or path_refusal(setting) or without_rotational(setting) or at_once(setting)


def word_refusal(setting: LastingSetting) -> str | None:
    """Return why the setting cannot be a kernel argument; None if it can."""
    word = boot_word(setting)
    if word is None:
        return f"{setting.knob.short_name} has no value: leave it out to switch it off"
    if not _PLAIN_WORD.fullmatch(word):
        return "boot loaders interpret some characters of this argument"
    return None


def boot_words(settings: Iterable[LastingSetting]) -> tuple[str, ...]:
    return tuple(word for setting in settings if (word := boot_word(setting)) is not None)


def shell_quoted(text: str) -> str:
    """Return the text quoted as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def loader_script(
    target: str, profile: LastingProfile, add: Sequence[str], remove: Sequence[str], *lines: str
) -> dict[str, str]:
    """Return a script that adds or removes kernel arguments with a boot loader's commands, keyed by its file name.

    `add` and `remove` are lines of shell, `lines` the lines of the comment at the head.
    """
    name = f"ktrial-{profile.name}-{target}.sh"
    reasons = [line for setting in profile.settings for line in comment(setting)]
    body = [
        *("set -eu", 'case "${1-}" in', "add)", *(f"    {line}" for line in add), "    ;;"),
        *("remove)", *(f"    {line}" for line in remove), "    ;;"),
        *("*)", f"    echo 'usage: sh {name} add|remove' >&2", "    exit 2", "    ;;", "esac"),
    ]
    return {name: file_text(["#!/bin/sh", *heading(profile, *lines), *reasons, "", *body])}


def targets_text(targets: Iterable[ExportTarget], *, width: int) -> str:
    rows = [(target.name, ", ".join(form for form in FORMS if form in target.forms)) for target in targets]
    return table(("target", "can express"), rows, width=width, whole=1) + "\n"


def targets_json(targets: Iterable[ExportTarget]) -> dict[str, Any]:
    found = [
        {
            "target": target.name,
            "what": target.what,
            "next": target.next,
            "forms": {form: form in target.forms for form in FORMS},
        }
        for target in targets
    ]
    return {"schema": "ktrial.targets/1", "targets": found}

# SPDX-License-Identifier: Apache-2.0
"""`ktrial profile edit`: open one of the user's profiles, or a copy of another profile, in an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ktrial import __version__
from ktrial.agent.user_folders import config_folder
from ktrial.kit.errors import BadInput, KtrialError, UnknownName, in_lower_case
from ktrial.tuning.catalog.loader import check_profile_name, with_profile_file
from ktrial.tuning.knobs.profile_copy import copy_profile
from ktrial.tuning.knobs.profile_toml import profile_toml

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.tuning.catalog.model import Catalog


class ProfileEdit(NamedTuple):
    """An edit of a profile: the text is in `draft` until it is valid, then in `file`.

    Every command reads the folder of `file`, so an invalid file there would make all commands fail.
    """

    name: str
    file: Path
    draft: Path
    catalog: Catalog
    text: str


def begin_edit(app: App, name: str, own: str | None) -> ProfileEdit:
    """Return the edit of the user's profile `name`, or of a copy of `name` that is called `own`."""
    catalog, (name,) = app.catalog_for([name])
    if name not in catalog.profiles:
        raise UnknownName("profile", name, catalog.profiles, hint="run `ktrial profiles` to list all profiles")
    if own is None:
        return _of_own(catalog, name)
    check_profile_name(own)
    file = _file(own)
    if own in catalog.profiles or file.exists():
        is_own = own in catalog.profiles and file.exists()
        hint = (
            f"choose another name, or edit {own} with `ktrial profile edit {own}`" if is_own else "choose another name"
        )
        raise BadInput(f"cannot copy {name} as {own}: the name {own} is taken", hint=hint)
    head = f"# A copy of {name}: edit it with `ktrial profile edit {own}`.\n"
    text = head + profile_toml(copy_profile(name, own, catalog.profiles, __version__))
    return ProfileEdit(own, file, _draft(own), catalog, text)


def _of_own(catalog: Catalog, name: str) -> ProfileEdit:
    file = _file(name)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        raise BadInput(
            f"cannot edit {name}: only your own profiles can be edited, and {file} does not exist",
            hint=f"edit a copy of {name} with `ktrial profile edit {name} --as NAME`",
        ) from None
    others = {other: profile for other, profile in catalog.profiles.items() if other != name}
    return ProfileEdit(name, file, _draft(name), replace(catalog, profiles=others), text)


def _file(name: str) -> Path:
    return config_folder() / "profiles" / f"{name}.toml"


def _draft(name: str) -> Path:
    return config_folder() / "drafts" / f"{name}.toml"


def write_draft(edit: ProfileEdit) -> bool:
    """Write the draft unless an earlier edit left one; return whether it was written."""
    try:
        edit.draft.parent.mkdir(parents=True, exist_ok=True)
        with edit.draft.open("x", encoding="utf-8") as file:
            file.write(edit.text)
    except FileExistsError:
        return False
    except OSError as error:
        raise KtrialError(
            f"cannot write {edit.draft}: {error.strerror}",
            hint=f"free some space, or make {edit.draft.parent} writable",
        ) from None
    return True


def open_editor(edit: ProfileEdit) -> bool:
    """Open the draft in the user's editor, and wait until the editor ends; return False if no editor is set."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    hint = f"run the same command again to continue with your text in {edit.draft}"
    try:
        words = shlex.split(command)
        if not words:
            return False
        ended = subprocess.run([*words, str(edit.draft)], check=False)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else in_lower_case(str(error))
        raise KtrialError(
            f"cannot start the editor {command!r}: {why}", hint=f"set VISUAL or EDITOR; your text is in {edit.draft}"
        ) from None
    if ended.returncode:
        why = f"status {ended.returncode}" if ended.returncode > 0 else f"signal {-ended.returncode}"
        raise KtrialError(f"cannot edit {edit.name}: {words[0]} ended with {why}", hint=hint)
    return True


def finish_edit(edit: ProfileEdit) -> None:
    """Check the draft and move it to its file. If it has a mistake, raise BadInput and keep the draft."""
    try:
        _, name = with_profile_file(edit.catalog, edit.draft)
        if name != edit.name:
            raise BadInput(
                f"the profile is named {name}, but its file is {edit.name}.toml",
                file=str(edit.draft),
                hint=f'write  name = "{edit.name}"',
            )
    except BadInput as error:
        again = "the same command opens the draft again"
        raise BadInput(error.message, hint=f"{error.hint or 'correct the draft'}; {again}") from None
    try:
        edit.file.parent.mkdir(parents=True, exist_ok=True)
        edit.draft.replace(edit.file)
    except OSError as error:
        raise KtrialError(
            f"cannot write {edit.file}: {error.strerror}",
            hint=f"free some space, or make {edit.file.parent} writable; your text is in {edit.draft}",
        ) from None

# SPDX-License-Identifier: Apache-2.0
"""`ktrial profile`: make profiles from existing settings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import profile_names
from ktrial.cli.options import is_terminal, json_option, output_option, write_json
from ktrial.cli.shared.foreign_settings import check_free, read_content, write_profile

if TYPE_CHECKING:
    from ktrial.tuning.origin.formats.lines import Unread

#: All input formats, listed here so that `--help` loads no reader.
FORMATS = ("sysctl.d", "udev", "tuned", "shell", "command-line", "modprobe.d", "tmpfiles.d", "zram-generator", "list")


@click.group(short_help="Write your own profile: edit a copy or import a file.")
def command() -> None:
    """Make profiles from existing settings, or from other profiles."""


@command.command(short_help="Copy a profile and edit the copy.")
@click.argument("name", shell_complete=profile_names, metavar="PROFILE|FILE")
@click.option(
    "--as", "own", metavar="NAME", help="Name of the copy. Without --as, you edit PROFILE itself; it must be your own."
)
@json_option
@click.pass_obj
def edit(app: App, name: str, own: str | None, as_json: bool) -> None:
    """Copy a profile, or take one of your own, and open it in your editor (VISUAL or EDITOR).

    \b
    ktrial profile edit ktweak --as mine
    ktrial profile edit mine

    Your own profiles are in ~/.config/ktrial/profiles. The copy names the original, and the version of ktrial that
    made the copy. The copy includes the settings of the profiles that the original extends; no update of ktrial changes
    the copy. ktrial checks your text before using it. A text with a mistake stays a draft, and the same command opens
    the draft again. Without a terminal or an editor, ktrial only copies.
    """
    from ktrial.cli.shared.profile_edit import begin_edit, finish_edit, open_editor, write_draft

    edit = begin_edit(app, name, own)
    if not write_draft(edit):
        app.say(f"continuing with the draft {edit.draft}")
    has_editor = is_terminal() and sys.stdout.isatty() and open_editor(edit)
    finish_edit(edit)
    if as_json:
        write_json({"schema": "ktrial.profile-edit/1", "profile": edit.name, "file": str(edit.file)})
    else:
        sys.stdout.write(f"{edit.file}\n")
    if not has_editor:
        app.say(f"edit the file, then see its plan with `ktrial plan {edit.name}`")


@command.command(name="import", short_help="Turn a settings file into a profile.")
@click.argument("file", metavar="INPUT|-")
@output_option("Write to FILE instead of stdout.")
@click.option("--name", metavar="NAME", help="Name of the profile.  [the file's name]")
@click.option(
    "--format",
    "as_format",
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    help=f"Input format: {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.  [detected]",
)
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
@click.pass_obj
def import_file(
    app: App, file: str, output: Path | None, name: str | None, as_format: Any, force: bool, as_json: bool
) -> None:
    """Turn a sysctl.d file, script, udev rule, TuneD profile, kernel command line or pasted list into a profile.

    \b
    ktrial profile import /etc/sysctl.d/99-tweaks.conf -o tweaks.toml
    ktrial profile import - < tweaks.sh

    ktrial reads scripts without running them, and writes the profile to stdout or to the FILE of --output. On stderr,
    ktrial lists what it did not understand.
    """
    import msgspec

    from ktrial.tuning.origin.import_profile import import_profile

    check_free(output, force=force)
    imported = import_profile(read_content(file), file, app.catalog, name=name, as_format=as_format)
    count = len(imported.profile.setting)
    app.say(f"read as {imported.sniffed.format} ({imported.sniffed.reason}): {count} setting{'s'[: count != 1]}")
    _name_lines("not understood", imported.unread)
    _name_lines("not in the catalog", imported.unknown)
    for note in imported.notes:
        app.say(note)
    if imported.profile.name in app.catalog.profiles:
        app.say(f"a profile named {imported.profile.name} exists already; use --name to choose another name")
    if output is not None:
        write_profile(output, imported.toml)
    if as_json:
        write_json({"schema": "ktrial.import/1", **msgspec.to_builtins(imported)})
    elif output is None:
        sys.stdout.write(imported.toml)


def _name_lines(what: str, lines: Iterable[Unread]) -> None:
    for line in lines:
        place = "standard input" if line.file == "-" else line.file
        print(f"  {place}:{line.line_number}: {what}: {line.reason}", file=sys.stderr)
        if line.text:
            print(f"    {line.text}", file=sys.stderr)

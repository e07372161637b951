# SPDX-License-Identifier: Apache-2.0
"""`ktrial export`: write settings in the formats of other tools."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.completion import lasting_words
from ktrial.cli.options import json_option, settings_words, write_json
from ktrial.kit.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from ktrial.cli.shared.exports import Lasting
    from ktrial.tuning.exporters import ExportTarget


def _targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ktrial.tuning.exporters import targets

    return [name for name in targets() if name.startswith(incomplete)]


@click.command(short_help="Write settings as configuration files (sysctl.d, …).")
@settings_words("PROFILE|FILE|TRIAL|TRANSACTION|KNOB=VALUE…", lasting_words)
@click.option(
    "--to",
    "chosen",
    multiple=True,
    shell_complete=_targets,
    metavar="TARGET",
    help="Target to write for (see --list). With several targets, each setting goes to the first target that can"
    " express it. Required without --list. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER|ZIP",
    help="Write the files below FOLDER, not to stdout; a module for phones goes to FOLDER or ZIP.",
)
@click.option("--name", metavar="NAME", help="Name to use in file names.  [derived from the settings]")
@click.option("--force", is_flag=True, help="Overwrite files that have other content.")
@click.option("--list", "list_", is_flag=True, help="List the targets and what each can express.")
@json_option
@click.pass_obj
def command(
    app: App,
    words: tuple[str, ...],
    chosen: tuple[str, ...],
    output: Path | None,
    name: str | None,
    force: bool,
    list_: bool,
    as_json: bool,
) -> int:
    """Write settings as files that make them last: sysctl.d, udev rules, kernel arguments, TuneD, Ansible and others.

    ktrial only writes the files; it changes no setting of this machine. Each file says why each setting is there, with
    the verdict of a trial or "not tested on this machine". If no chosen target can express a setting, ktrial names
    the targets that can, and writes nothing. From a trial with several configurations (arms),
    ktrial takes the arm that was better; if none was, or several were, write TRIAL/ARM.

    \b
    ktrial export --list
    ktrial export vm.swappiness=10 --to sysctl.d
    ktrial export micro-stutter-nvme-queue --to udev -o .
    ktrial export swappiness-3fa9c1 --to sysctl.d --to udev --to tmpfiles.d -o /tmp/image
    ktrial export ktweak --to magisk -o module.zip
    """
    from ktrial.cli.shared.exports import is_for_phone, lasting_profile, write_archive, write_folder
    from ktrial.tuning.exporters import export, targets

    known = targets(app.say)
    if list_:
        return _list(known, as_json=as_json)
    unknown = next((one for one in chosen if one not in known), None)
    if unknown is not None:
        raise UnknownName("target", unknown, known, hint="run `ktrial export --list` to list all targets")
    if not chosen:
        raise BadInput("no target given", hint="add --to TARGET, with a target that `ktrial export --list` shows")
    if name is not None and _unfit(name):
        raise BadInput(
            f"--name {name}: not a name for files",
            hint="use at most 60 lower-case letters, digits and single - between them",
        )
    wanted = [known[one] for one in dict.fromkeys(chosen)]
    on_phone = is_for_phone(wanted, output)
    lasting = lasting_profile(app, words, name, on_phone=on_phone)
    made = export(lasting.profile, wanted, known.values())
    files = {path: text for one in made.values() for path, text in one.items()}
    for left in lasting.left_out:
        app.say(f"left out {left.address}: {left.reason}")
    if output is not None:
        write = write_archive if on_phone and output.suffix == ".zip" else write_folder
        write(output, files, force=force)
        app.say(f"{output}: {len(files)} file{'s'[: len(files) != 1]}")
    if as_json:
        _write_document(lasting, made)
    elif output is None:
        _print(files)
    for target in made if output is not None else ():
        app.say(f"{target.name}: {target.next}")
    return 0


def _unfit(name: str) -> bool:
    import re

    return re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name) is None or len(name) > 60


def _list(known: Mapping[str, ExportTarget], *, as_json: bool) -> int:
    from ktrial.kit.tables import columns
    from ktrial.tuning.exports.text import targets_json, targets_text

    if as_json:
        write_json(targets_json(known.values()))
    else:
        sys.stdout.write(targets_text(known.values(), width=columns()))
    return 0


def _print(files: Mapping[str, str]) -> None:
    """Print a single file unchanged, and several files under their names."""
    if len(files) == 1:
        sys.stdout.write(*files.values())
    else:
        sys.stdout.write("\n".join(f"==> {path} <==\n{text}" for path, text in files.items()))


def _write_document(lasting: Lasting, made: Mapping[ExportTarget, Mapping[str, str]]) -> None:
    import msgspec

    settings = [
        {"address": one.address, "value": one.text, "form": one.form, "reasons": one.reasons}
        for one in lasting.profile.settings
    ]
    files = [
        {"target": target.name, "path": path, "text": text}
        for target, one in made.items()
        for path, text in one.items()
    ]
    left = [msgspec.to_builtins(one) for one in lasting.left_out]
    write_json({"schema": "ktrial.export/1", "settings": settings, "files": files, "left_out": left})

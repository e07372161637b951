# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch patch`: make a patch that adds the targets to a kernel tree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, output_option, write_answer, write_json
from ktrial.compare.files import write_file
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.kernels.build.tree import SourceTree
    from ktrial.kernels.uarch.patch import UarchPatch


@click.command(short_help="Make a patch that adds all targets to a kernel tree.")
@click.argument("folder", metavar="TREE", type=click.Path(path_type=Path))
@output_option("Write to FILE instead of stdout.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option("--apply", "mode", flag_value="apply", help="Apply the patch to the tree.")
@click.option("--reverse", "mode", flag_value="reverse", help="Remove the patch from the tree.")
@click.option("--check", "mode", flag_value="check", help="Show the tree's version and whether ktrial can patch it.")
@click.option("--verify", "target", metavar="TARGET", help="With --apply, also check that the tree builds for TARGET.")
@click.option("--cc", metavar="PROGRAM", default="gcc", show_default=True, help="Compiler for --verify.")
@json_option
@click.pass_obj
def command(
    app: App,
    folder: Path,
    output: Path | None,
    force: bool,
    mode: str | None,
    target: str | None,
    cc: str,
    as_json: bool,
) -> int:
    """Make a patch that lets you choose the CPU that the kernel in TREE is compiled for (Linux 4.19 or newer).

    The patch goes to stdout or to FILE, for `patch -p1`; only --apply and --reverse change the tree. The patch adds a
    Kconfig choice of x86-64 levels and microarchitectures, each with the compilers that it needs. The default choice
    leaves the compiler flags unchanged. ktrial refuses a tree that already has such a choice from CachyOS, Zen or TKG.
    """
    if target is not None and mode != "apply":
        check = f"ktrial kernel uarch verify {folder} {target}"
        raise BadInput("--verify requires --apply", hint=f"add --apply, or run `{check}` if the tree has the patch")
    if output is not None and mode is not None:
        raise BadInput(f"cannot combine -o with --{mode}", hint="leave out -o")
    if output is not None and output.exists() and not force:
        raise BadInput(f"{output}: file exists", hint="choose another name, or add --force to overwrite the file")
    tree = app.kernels.tree(folder)
    if mode == "check":
        return _check(tree, as_json)
    patch = tree.reverse() if mode == "reverse" else tree.patch()
    if mode is not None:
        _write(app, tree, patch, mode, as_json)
    elif output is not None:
        write_file(output, patch.text.encode())
        app.say(f"wrote {output} for Linux {patch.tree.version}")
    elif as_json:
        write_json({"schema": "ktrial.kernel-patch/1", "tree": patch.tree, "patch": patch.text})
    else:
        sys.stdout.write(patch.text)
    if target is not None:
        from ktrial.cli.kernel.uarch.verify import verify_target

        return verify_target(app, tree, target, cc, as_json=as_json)
    return 0


def _write(app: App, tree: SourceTree, patch: UarchPatch, mode: str, as_json: bool) -> None:
    tree.write(patch)
    done = "applied to" if mode == "apply" else "removed from"
    app.say(f"{done} Linux {patch.tree.version} in {tree.folder}: {', '.join(sorted(patch.after))}")
    if as_json and mode == "reverse":
        write_json({"schema": "ktrial.kernel-patch/1", "tree": patch.tree, "patch": patch.text})


def _check(tree: SourceTree, as_json: bool) -> int:
    from ktrial.kernels.uarch.targets_text import tree_text

    found = tree.survey()
    if found.applied:
        tree.reverse()
    elif not found.carries:
        tree.patch()
    write_answer(
        as_json, lambda: {"schema": "ktrial.kernel-tree/1", "tree": found}, lambda width: tree_text(found, width=width)
    )
    return 0

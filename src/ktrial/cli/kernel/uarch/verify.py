# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch verify`: check that a tree builds for a target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import cpu_level, json_option, write_answer

if TYPE_CHECKING:
    from ktrial.kernels.build.tree import SourceTree


@click.command(short_help="Check that a kernel tree builds for a target.")
@click.argument("folder", metavar="TREE", type=click.Path(path_type=Path))
@click.argument("target", metavar="TARGET")
@click.option("--cc", metavar="PROGRAM", default="gcc", show_default=True, help="Compiler to use.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration file to start from.  [a minimal configuration]",
)
@click.option("--rust", is_flag=True, help="Enable Rust, and also check one Rust object.")
@json_option
@click.pass_obj
def command(app: App, folder: Path, target: str, cc: str, config: Path | None, rust: bool, as_json: bool) -> int:
    """Check that the kernel in TREE builds for TARGET.

    \b
    ktrial kernel uarch verify linux-6.12 znver3
    ktrial kernel uarch verify linux-6.12 x86-64-v3 --cc clang
    ktrial kernel uarch verify linux-6.12 native

    ktrial configures TREE for TARGET in a folder outside TREE, reads the symbols back, and compiles one object. The
    compile command must contain the right -march once, and no other -march. With --rust, the command of a Rust
    object must contain the right -Ctarget-cpu. ktrial refuses a target that the compiler or the tree lacks. Add the
    targets to the tree with `ktrial kernel uarch patch TREE --apply`.
    """
    return verify_target(app, app.kernels.tree(folder), target, cc, config=config, rust=rust, as_json=as_json)


def verify_target(
    app: App,
    tree: SourceTree,
    word: str,
    cc: str,
    *,
    config: Path | None = None,
    rust: bool = False,
    as_json: bool = False,
) -> int:
    from ktrial.kernels.uarch.target_files import load_targets
    from ktrial.kernels.uarch.targets import find_target, native_entry, native_target
    from ktrial.kernels.uarch.targets_text import verified_text
    from ktrial.kernels.uarch.verify import verify_target

    targets = load_targets()
    (compiler,) = app.kernels.compilers.find([cc])
    level = cpu_level(app)
    if word == "native":
        target = native_entry(tree.survey(), native_target(compiler, level, targets))
    else:
        target = find_target(word, targets)
    with app.kernels.probe_build(tree.folder, cc, config) as build:
        found = verify_target(target, targets, tree.survey(), compiler, build, level, rust=rust)
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.kernel-verified/1", "verified": found},
        lambda width: verified_text(found, width=width),
    )
    return 0

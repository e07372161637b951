# SPDX-License-Identifier: Apache-2.0
"""What `kernel config` and `kernel build` share: sources, patches, compiler, configuration, and their options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ktrial.cli.options import cpu_level, json_option, with_options
from ktrial.kit.errors import BadInput, Contradiction

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.kernels.build.sources import Opened
    from ktrial.kernels.build_record import Toolchain
    from ktrial.kernels.request import Configured, Fragment, Wish
    from ktrial.kernels.uarch.targets import Target

wish_options = with_options(
    click.argument("tree"),
    click.option(
        "-o",
        "--output",
        required=True,
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Folder to configure and build in.",
    ),
    click.option(
        "--config",
        "base",
        metavar="BASE",
        help="Configuration to start from, such as running, tinyconfig or a file.  [the .config in FOLDER]",
    ),
    click.option(
        "--fragment",
        "fragments",
        multiple=True,
        metavar="NAME|FILE",
        help="Group of symbols to add (see `ktrial kernel fragments`), or a file with symbols. Repeatable.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="SYMBOL=VALUE",
        help="Symbol to set; it overrides fragments. Repeatable.",
    ),
    click.option(
        "--patch",
        "patches",
        multiple=True,
        metavar="FILE|URL",
        help="Patch or series to apply to a copy of TREE. Repeatable.",
    ),
    click.option(
        "--cc",
        metavar="PROGRAM",
        help="Compiler: gcc, or clang with the LLVM tools.  [gcc, or the one that a fragment needs]",
    ),
    click.option(
        "--anyway",
        is_flag=True,
        help="Continue even if symbols are not as requested, or if disk space or memory seems short.",
    ),
    json_option,
)


class Wishes(NamedTuple):
    """The values of `wish_options`."""

    tree: str
    output: Path
    base: str | None
    fragments: tuple[str, ...]
    settings: tuple[str, ...]
    patches: tuple[str, ...]
    cc: str | None
    anyway: bool


class PreparedKernel(NamedTuple):
    """Sources, compiler and configuration, ready to write or build. `flagged` is a target that compiler flags set."""

    opened: Opened
    toolchain: Toolchain
    architecture: str
    configured: Configured
    text: bytes
    flagged: Target | None
    optimise: str | None


def prepared(app: App, wishes: Wishes, *, target: str | None = None, optimise: str | None = None) -> PreparedKernel:
    """Open and patch the sources, choose the compiler, and configure; write only to the cache."""
    from ktrial.kernels.build.make_kernel import make_variables
    from ktrial.kernels.build.toolchain import check_toolchain, choose
    from ktrial.kernels.config.fragments import load_fragments
    from ktrial.kernels.config.make_config import ConfigRequest, check_held, configure
    from ktrial.kernels.request import Wish, parse_set, wishes_of, with_extended

    known = load_fragments()
    files = [word for word in wishes.fragments if word not in known and Path(word).is_file()]
    chosen = with_extended([word for word in wishes.fragments if word not in files], known)
    toolchain = choose(_compiler(app, wishes.cc, chosen))
    machine = os.uname().machine
    architecture = "arm64" if machine == "aarch64" else machine
    requested = [wish for fragment in chosen for wish in wishes_of(fragment, architecture)]
    requested += [wish for word in files for wish in _of_file(word)]
    opened = opened_with_patches(app, wishes)
    check_toolchain(toolchain, opened.folder)
    word = target or next((one.build.target for one in chosen if one.build.target), None)
    by = "--target" if target is not None else "the fragments"
    flagged, symbols = _target(app, word, toolchain, opened.folder)
    requested += [Wish(name, value, by) for name, value in symbols.items()]
    requested += [parse_set(setting) for setting in wishes.settings]
    request = ConfigRequest(
        base=_base(wishes),
        version=opened.source.version,
        architecture=architecture,
        compiler=toolchain.variables["CC"],
        fragments=chosen,
        files=files,
        wishes=requested,
    )
    known_symbols = app.kernels.symbols(opened.folder, architecture)
    with app.kernels.configuring(opened.folder, make_variables(toolchain, architecture)) as work:
        configured = configure(request, known_symbols, work)
        text = work.text
    if not wishes.anyway:
        check_held(configured)
    optimise = optimise or next((one.build.optimise for one in chosen if one.build.optimise), None)
    return PreparedKernel(opened, toolchain, architecture, configured, text, flagged, optimise)


def opened_with_patches(app: App, wishes: Wishes) -> Opened:
    """Return the sources, patched in a copy; report uncommitted changes of a git tree."""
    from ktrial.kernels.source import parse_patch

    words = [parse_patch(word) for word in wishes.patches]
    opened = app.kernels.sources.open(wishes.tree)
    if opened.source.changes:
        shown = ", ".join(opened.source.changes[:4]) + (", …" if len(opened.source.changes) > 4 else "")
        app.say(f"{wishes.tree} differs from its commit {(opened.source.commit or '')[:12]}: {shown}")
    patched = app.kernels.sources.patched(opened, app.kernels.patches.read(words))
    for patch in patched.source.patches:
        families = ", ".join(f"{one.name} {one.version or ''}".strip() for one in patch.families)
        app.say(f"applied {patch.name}{f': {families}' if families else ''}")
    return patched


def _base(wishes: Wishes) -> str:
    if wishes.base is not None:
        return wishes.base
    own = wishes.output / ".config"
    if own.is_file():
        return str(own)
    from ktrial.kernels.config.configure import BASES

    raise BadInput("no base configuration", hint=f"add --config with a file, or with one of: {', '.join(BASES)}")


def _compiler(app: App, cc: str | None, fragments: Sequence[Fragment]) -> str:
    """Return the named compiler, or else the compiler that a fragment needs, or else gcc."""
    asking = next((one for one in fragments if one.build.compiler), None)
    if asking is None:
        return cc or "gcc"
    kind = str(asking.build.compiler)
    if cc is None:
        found = [one.path for one in app.kernels.compilers.find() if one.kind == kind]
        if not found:
            raise BadInput(
                f"the fragment {asking.name} needs {kind}, which is missing",
                hint=f"install {kind}, for example with `apt-get install {kind} lld`",
            )
        return Path(found[0]).name
    if kind not in Path(cc).name:
        raise Contradiction(
            f"the fragment {asking.name} needs {kind}, but --cc is {cc}", hint="leave out --cc or the fragment"
        )
    return cc


def _target(app: App, word: str | None, toolchain: Toolchain, tree: Path) -> tuple[Target | None, Mapping[str, str]]:
    """Return a target set by compiler flags, or the symbols that select the target if the tree has them."""
    if word is None:
        return None, {}
    from ktrial.kernels.uarch.target_files import load_targets
    from ktrial.kernels.uarch.targets import find_target, native_target, native_words
    from ktrial.kernels.uarch.verify import check_accepted

    found = None if word == "native" else find_target(word, load_targets())
    (compiler,) = app.kernels.compilers.find([toolchain.variables["CC"]])
    if found is None:
        found = native_target(compiler, cpu_level(app), load_targets())
        app.say(native_words(compiler, found))
    check_accepted(found, compiler)
    if set(found.wanted) <= set(app.kernels.tree(tree).survey().symbols):
        return None, found.wanted
    return found, {}


def _of_file(word: str) -> list[Wish]:
    from ktrial.kernels.request import Wish
    from ktrial.kit.errors import UnreadableOutput
    from ktrial.kit.formats.kernel_config import read_fragment

    try:
        lines = read_fragment(Path(word).read_bytes(), word)
    except UnreadableOutput as error:
        raise BadInput(error.message, hint="write one symbol per line, such as CONFIG_HZ_1000=y") from None
    return [Wish(line.symbol, line.value, f"{word}:{line.number}") for line in lines]

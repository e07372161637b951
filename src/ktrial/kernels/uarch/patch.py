# SPDX-License-Identifier: Apache-2.0
"""Makes the patch that adds targets to a kernel tree, from the tree's own structure.

It works on texts, not on files. The added lines are between marks, so that ktrial can remove exactly these lines. The
patch is a unified diff.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

import msgspec

from ktrial.kernels.config.kconfig import Choice, Kconfig, KconfigEntry, read_kconfig
from ktrial.kernels.uarch.patch_text import (
    LEVEL,
    NOT_IN_RUSTC,
    WORDS,
    Facts,
    choice,
    entries,
    feature_entries,
    flag_lines,
    generic_entry,
    level_entry,
    mask_lines,
    rustc_entry,
    shift_lines,
)
from ktrial.kernels.uarch.targets import NATIVE, KernelTree, Target
from ktrial.kernels.uarch.x86_makefile import read_flag_block, read_tree_version
from ktrial.kit.errors import Refused

BEGIN, END = "ktrial-uarch: begin", "ktrial-uarch: end"
_BEGIN = re.compile(rf"\s*(?:#|/\*) {BEGIN}(?: \*/)?\n?")
_END = re.compile(rf"\s*(?:#|/\*) {END}(?: \*/)?\n?")


def insert(text: str, after: Mapping[int, str], *, comment: str = "# {}") -> str:
    """Return `text` with marked insertions. `after` maps a line's number to the new text below it; 0 is the top."""
    lines = text.splitlines(keepends=True)
    result: list[str] = []
    for number in range(len(lines) + 1):
        if number:
            result.append(lines[number - 1])
        if number in after:
            result += [comment.format(BEGIN) + "\n", after[number].rstrip("\n") + "\n", comment.format(END) + "\n"]
    return "".join(result)


def is_marked(text: str) -> bool:
    return BEGIN in text


def without(text: str) -> str:
    """Return the text without the marked lines. Raise ValueError if a mark has no counterpart."""
    kept: list[str] = []
    inside = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if _BEGIN.fullmatch(line):
            if inside:
                raise ValueError(f"a mark begins in line {number} before the mark of line {inside} ends")
            inside = number
        elif _END.fullmatch(line):
            if not inside:
                raise ValueError(f"the mark that ends in line {number} never began")
            inside = 0
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"the mark of line {inside} never ends")
    return "".join(kept)


def unified(path: str, old: str, new: str) -> str:
    """Return the change of one file as a unified diff for `patch -p1`; empty if nothing changed."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=3
    )
    return "".join(lines)


TOP = "Makefile"
KCONFIG = "arch/x86/Kconfig.cpu"
MAKEFILE = "arch/x86/Makefile"
INIT = "init/Kconfig"
FEATURES = "arch/x86/Kconfig.cpufeatures"
MASKS = "arch/x86/include/asm/required-features.h"
#: Files that define the string which keeps modules of different processor families apart.
VERMAGIC = ("arch/x86/include/asm/vermagic.h", "arch/x86/include/asm/module.h")
NEEDED = (TOP, KCONFIG, MAKEFILE, INIT)
OPTIONAL = (FEATURES, MASKS, *VERMAGIC)
#: Hint for a tree in which the places to change are not found.
UNKNOWN_TREE = "use the unchanged tree of a release, or `ktrial kernel uarch flags`, which needs no patch"
_HAS_PATCH = "check a target with `ktrial kernel uarch verify TREE TARGET`, or remove the patch with --reverse"

_MASK = re.compile(r"#define\s+REQUIRED_MASK(\d+)\s+(.*)")
_FAMILY_64 = re.compile(r"#\s*if(?:def\s+|\s+defined\s*(?:\(\s*)?)CONFIG_X86_64\b")
#: Symbols of other patches that add processors to a kernel.
_FOREIGN = frozenset({LEVEL, *(one.symbol for one in NATIVE), "MICELAKE", "GENERIC_CPU2", "GENERIC_CPU3"})


class UarchPatch(msgspec.Struct, frozen=True):
    """The texts of all changed files, before and after."""

    tree: KernelTree
    before: Mapping[str, str]
    after: Mapping[str, str]

    @property
    def text(self) -> str:
        return "".join(unified(path, self.before[path], self.after[path]) for path in sorted(self.after))


def survey(files: Mapping[str, str], targets: Sequence[Target]) -> KernelTree:
    """Return the properties of a tree from its `files`. Raise Refused or UnreadableOutput for an unknown structure."""
    version = read_tree_version(files[TOP].encode(), TOP)
    applied = any(is_marked(text) for text in files.values())
    plain = _unmarked(files) if applied else files
    kconfig = read_kconfig(plain[KCONFIG].encode(), KCONFIG)
    block = read_flag_block(plain[MAKEFILE].encode(), MAKEFILE)
    native = "X86_NATIVE_CPU" in kconfig.names
    carries = _symbols_of_patch(kconfig, targets)
    shape = "native" if native else "mixed" if "GENERIC_CPU" in _family(kconfig).symbols else "32-bit"
    return KernelTree(
        version=version,
        kconfig=shape,
        makefile=block.shape,
        rust=block.rust,
        native=native,
        symbols=tuple(sorted(read_kconfig(files[KCONFIG].encode(), KCONFIG).names)),
        carries=carries,
        applied=applied,
    )


def make_patch(files: Mapping[str, str], targets: Sequence[Target]) -> UarchPatch:
    tree = survey(files, targets)
    if tree.applied:
        raise Refused(f"this tree ({tree.version}) already has the patch", hint=_HAS_PATCH)
    if tree.carries:
        shown = ", ".join(tree.carries[:4]) + (", …" if len(tree.carries) > 4 else "")
        raise Refused(
            f"this tree ({tree.version}) already has symbols for CPUs ({shown}), from CachyOS, Zen, TKG or similar",
            hint="check one of these symbols with `ktrial kernel uarch verify TREE TARGET`",
        )
    _check_vermagic(files)
    after = _edited(files, targets, tree)
    before = {path: files[path] for path in after}
    return UarchPatch(tree, before, after)


def make_reverse(files: Mapping[str, str], targets: Sequence[Target]) -> UarchPatch:
    """Return the patch that removes the targets again.

    Raise Refused if the tree lacks the targets, or if `make_patch` would add other lines.
    """
    plain = _unmarked(files)
    if plain == dict(files):
        raise Refused("this tree lacks the patch", hint="add the patch with `ktrial kernel uarch patch TREE --apply`")
    patch = make_patch(plain, targets)
    for path, text in patch.after.items():
        if files[path] != text:
            raise Refused(
                f"cannot remove the patch from {path}: another version of ktrial added it, or somebody edited it",
                hint="run `patch -p1 -R < FILE` with the patch file that was applied",
            )
    return UarchPatch(patch.tree, patch.after, patch.before)


def _unmarked(files: Mapping[str, str]) -> dict[str, str]:
    plain = {}
    for path, text in files.items():
        try:
            plain[path] = without(text)
        except ValueError as error:
            raise Refused(
                f"{path}: ktrial's marks are damaged: {error}",
                hint="restore the file from the original tree",
            ) from None
    return plain


def _family(kconfig: Kconfig) -> Choice:
    """Return the choice of processors: the one that contains the Pentium Pro (M686), which every kernel has."""
    found = [choice for choice in kconfig.choices if "M686" in choice.symbols]
    if len(found) != 1:
        raise Refused(
            f"{KCONFIG}: expected one choice of processors, but M686 is in {len(found)} choices", hint=UNKNOWN_TREE
        )
    return found[0]


def _symbols_of_patch(kconfig: Kconfig, targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the symbols of the tree that known patches add and that upstream lacks."""
    upstream = {"GENERIC_CPU", "MK8", "MPSC", "MCORE2", "MATOM"}
    known = {target.symbol for target in targets} | _FOREIGN
    return tuple(sorted((known - upstream) & kconfig.names))


def _check_vermagic(files: Mapping[str, str]) -> None:
    """Raise Refused if modules of 64-bit kernels name a processor family, which ktrial's targets lack."""
    for path in VERMAGIC:
        text = files.get(path, "")
        if "MODULE_PROC_FAMILY" not in text:
            continue
        first = next((line for line in text.splitlines() if re.match(r"#\s*if(?!ndef\s+_)", line)), "")
        if not _FAMILY_64.match(first):
            raise Refused(
                f"{path}: 64-bit modules need the name of a processor family, which ktrial's targets lack",
                hint=UNKNOWN_TREE,
            )


def _edited(files: Mapping[str, str], targets: Sequence[Target], tree: KernelTree) -> dict[str, str]:
    kconfig = read_kconfig(files[KCONFIG].encode(), KCONFIG)
    block = read_flag_block(files[MAKEFILE].encode(), MAKEFILE)
    native = kconfig.entry("X86_NATIVE_CPU")
    facts = Facts(
        native=tree.native,
        rust=tree.rust,
        rust_gate="config RUSTC_LLVM_VERSION\n" in files[INIT],
        rust_first=native is not None and any(re.match(r"depends on .*\bRUST\b", line) for line in native.lines),
        features_in_kconfig=FEATURES in files,
    )
    new = [one for one in targets if one.generic_level is not None or one.symbol not in kconfig.names]
    if not tree.native:
        new += NATIVE
    after = {KCONFIG: _edited_kconfig(files[KCONFIG], kconfig, new, facts)}
    insertions = {block.last: flag_lines(new, block)}
    if block.shape in ("direct", "native"):
        insertions = {block.first - 1: flag_lines(new, block), block.last: f"{block.indent}endif"}
    after[MAKEFILE] = insert(files[MAKEFILE], insertions)
    if facts.rust and NOT_IN_RUSTC in after[KCONFIG]:
        after[INIT] = _edited_init(files[INIT])
    if not facts.features_in_kconfig:
        after[MASKS] = _edited_masks(files.get(MASKS, ""))
    return after


def _edited_kconfig(text: str, kconfig: Kconfig, new: Sequence[Target], facts: Facts) -> str:
    family = _family(kconfig)
    levels = [target for target in new if target.generic_level is not None]
    micro = [target for target in new if target.generic_level is None]
    implied = level_entry(levels, facts) + feature_entries(new, facts)
    if facts.rust and not facts.rust_first:
        implied += rustc_entry(new, facts)
    additions: dict[int, str] = {}
    if "GENERIC_CPU" in family.symbols:
        additions[family.last - 1] = entries(micro, facts) + "\n"
        additions[family.last] = implied
    elif "GENERIC_CPU" in kconfig.names:
        raise Refused(f"{KCONFIG}: GENERIC_CPU is not in the choice of processors", hint=UNKNOWN_TREE)
    else:
        native = kconfig.entry("X86_NATIVE_CPU")
        place = max(family.last, native.last if native is not None else 0)
        additions[place] = choice(generic_entry(facts) + "\n" + entries(micro, facts), facts) + implied
    shift = kconfig.entry("X86_L1_CACHE_SHIFT")
    defaults = [] if shift is None else [number for number, line in _numbered(shift) if line.startswith("default ")]
    if shift is None or not defaults:
        raise Refused(f"{KCONFIG}: X86_L1_CACHE_SHIFT has no default", hint=UNKNOWN_TREE)
    covered = any(re.match(r'default "?6"? if', line) and re.search(r"\bX86_64\b", line) for line in shift.lines)
    lines = shift_lines(micro, covered=covered)
    if lines:
        additions[defaults[0] - 1] = lines
    return insert(text, additions)


def _edited_init(text: str) -> str:
    """Turn Rust off for targets that rustc does not know."""
    rust = read_kconfig(text.encode(), INIT).entry("RUST")
    last = max((number for number, line in _numbered(rust) if line.startswith("depends on ")), default=0) if rust else 0
    if not last:
        raise Refused(
            f"{INIT}: RUST has no dependency, yet the tree passes flags to rustc",
            hint=UNKNOWN_TREE,
        )
    return insert(text, {last: f"\tdepends on !{NOT_IN_RUSTC}"})


def _numbered(entry: KconfigEntry) -> list[tuple[int, str]]:
    return list(zip(entry.line_numbers, entry.lines, strict=True))


def _edited_masks(text: str) -> str:
    """Add the features that the target needs to the masks that early boot code checks."""
    old: dict[int, str] = {}
    last = 0
    for number, line in enumerate(text.splitlines(), start=1):
        match = _MASK.fullmatch(line)
        if match and int(match[1]) in WORDS.values():
            old[int(match[1])], last = match[2].strip(), number
    if set(old) != set(WORDS.values()) or any(value.endswith("\\") for value in old.values()):
        raise Refused(
            f"cannot extend {MASKS}: REQUIRED_MASK4 and REQUIRED_MASK6 are not on one line each, and the tree has no "
            f"{FEATURES}",
            hint=UNKNOWN_TREE,
        )
    return insert(text, {last: mask_lines(old)}, comment="/* {} */")

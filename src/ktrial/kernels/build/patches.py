# SPDX-License-Identifier: Apache-2.0
"""Patches for kernel trees: downloads, checks, and applies them without fuzz to a private tree."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import re
import subprocess
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from ktrial.kernels.build.patch_files import families
from ktrial.kernels.build.toolchain import install_step
from ktrial.kernels.source import AppliedPatch, PatchWord
from ktrial.kit.errors import BadInput, KtrialError, Refused, UnreadableOutput
from ktrial.kit.files import why_unread
from ktrial.kit.formats.tool_output import numbered, unreadable, with_hint
from ktrial.kit.formats.unified_diff import FilePatch, read_patch, strip_name
from ktrial.tuning.origin.formats.words import split_words

_STRIP = re.compile(r"-p(\d|ab)")


class PatchMember(msgspec.Struct, frozen=True):
    """A patch that a series names. `strip` is the number of path components to remove from file names."""

    path: str
    strip: int = 1


def read_series(data: bytes, source: str = "series") -> tuple[PatchMember, ...]:
    """Parse a series file.

    Raise UnreadableOutput for an option other than `-pN` and `-pab`, a path outside the folder, and an empty series.
    """
    found = []
    for number, text in numbered(data, source):
        line = text.split("#")[0].strip() if text.lstrip().startswith("#") or " #" in text else text.strip()
        if not line:
            continue
        try:
            path, *options = split_words(line)
        except ValueError:
            raise unreadable(source, number, text, "the name of a patch") from None
        if path.startswith("/") or ".." in path.split("/"):
            raise unreadable(source, number, path, "a path below the folder of the series")
        strip = 1
        for option in options:
            match = _STRIP.fullmatch(option)
            if match is None:
                raise unreadable(source, number, option, "an option of a series (-p0, -p1 or -pab)")
            strip = 1 if match[1] == "ab" else int(match[1])
        found.append(PatchMember(path, strip))
    if not found:
        raise unreadable(source, None, "", "a series: it names no patch")
    return tuple(found)


LIMIT_BYTES = 64 << 20
_LIMIT_S = 300.0
_SERIES = "series"
_FAILED = re.compile(r"Hunk #(\d+) FAILED at (\d+)")
_SHIFTED = re.compile(r"Hunk #\d+ succeeded at \d+ \(offset -?\d+ lines?\)")
_PATCHING = re.compile(r"(?:patching|checking) file '?([^']+?)'?(?: \(renamed from .*\))?")
_SHOWN_LINES = 24
_UNPACKERS: Mapping[bytes, Callable[[io.BytesIO], io.BufferedIOBase]] = {
    b"\x1f\x8b": lambda packed: gzip.GzipFile(fileobj=packed),
    b"\xfd7zXZ": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}


class Patch(NamedTuple):
    """A patch. `place` is its path or URL, and `strip` the number of path components to remove from file names."""

    name: str
    place: str
    sha256: str
    data: bytes
    strip: int
    files: tuple[FilePatch, ...]


class Patches:
    """Reads patches; `download` writes the content of a URL to a new file."""

    def __init__(self, work: Path, download: Callable[[str, Path], None]) -> None:
        self._work = work
        self._download = download

    def read(self, words: Iterable[PatchWord]) -> list[Patch]:
        """Return all patches in order.

        A `series` file, or a folder with such a file, stands for the patches that the file lists.
        """
        found: list[Patch] = []
        for word in words:
            path = Path(word.place)
            series = path / _SERIES if path.is_dir() else path if path.name == _SERIES else None
            if word.remote:
                found.append(_patch(self._fetched(word), word.place, word.sha256, 1))
            elif series is None:
                found.append(_patch(_bytes(path), word.place, word.sha256, 1))
            else:
                found += _series(series, word)
        return found

    def _fetched(self, word: PatchWord) -> bytes:
        into = self._work / f"patch-{hashlib.sha256(word.place.encode()).hexdigest()[:16]}"
        into.unlink(missing_ok=True)
        try:
            self._download(word.place, into)
            return into.read_bytes()
        finally:
            into.unlink(missing_ok=True)


def apply(patch: Patch, tree: Path) -> AppliedPatch:
    """Apply a patch to a tree. Replace files instead of modifying them, because they may be hard links.

    Raise Refused if the patch does not fit; the tree may then be unusable.
    """
    check_names(patch, tree)
    argv = ["patch", f"-p{patch.strip}", "-F0", "-N", "--batch", "--no-backup-if-mismatch", "-r", "-", "-d", str(tree)]
    try:
        done = subprocess.run(argv, input=patch.data, capture_output=True, check=False, timeout=_LIMIT_S)
    except FileNotFoundError:
        raise KtrialError("cannot apply patches: `patch` is not installed", hint=install_step(["patch"])) from None
    except subprocess.TimeoutExpired:
        raise KtrialError(
            f"{patch.name}: `patch` did not end within {_LIMIT_S:g} s",
            hint="run the command again when the machine is less busy",
        ) from None
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise Refused(_failure(patch, said, done.stderr.decode(errors="replace"), tree), hint=_hint(said))
    texts = {strip_name(file.names[-1], patch.strip): file.added for file in patch.files}
    return AppliedPatch(
        name=patch.name,
        place=patch.place,
        sha256=patch.sha256,
        files=len(patch.files),
        shifted=len(_SHIFTED.findall(said)),
        families=families(texts),
    )


def _series(series: Path, word: PatchWord) -> list[Patch]:
    if not series.is_file():
        hint = "name the patch files one by one with --patch"
        raise BadInput("no `series` file in this folder", file=word.place, hint=hint)
    data = _bytes(series)
    if word.sha256 is not None:
        _check_digest(data, word.sha256, str(series))
    with with_hint("correct this file, or name the patches one by one with --patch"):
        members = read_series(data, str(series))
    found = []
    for member in members:
        path = series.parent / member.path
        if not path.resolve().is_relative_to(series.parent.resolve()):
            raise BadInput(
                f"{member.path} points outside the folder of the series",
                file=str(series),
                hint="do not use this series",
            )
        found.append(_patch(_bytes(path), str(path), None, member.strip))
    return found


def _patch(data: bytes, place: str, sha256: str | None, strip: int) -> Patch:
    digest = _check_digest(data, sha256, place)
    text = _unpacked(data, place)
    try:
        files = read_patch(text, place)
    except UnreadableOutput as error:
        raise BadInput(
            error.message, hint="use a whole unified diff of text files, such as the output of `git diff`"
        ) from None
    return Patch(place.rstrip("/").rpartition("/")[2], place, digest, text, strip, files)


def _check_digest(data: bytes, wanted: str | None, place: str) -> str:
    digest = hashlib.sha256(data).hexdigest()
    if wanted not in {None, digest}:
        raise BadInput(
            f"expected SHA-256 {wanted}, got {digest}",
            file=place,
            hint="give --patch the digest of a file that you reviewed",
        )
    return digest


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _no_more(file.read(LIMIT_BYTES + 1), str(path))
    except OSError as error:
        raise BadInput(why_unread(error), file=str(path), hint="check the path and its permissions") from None


def _unpacked(data: bytes, place: str) -> bytes:
    for magic, unpack in _UNPACKERS.items():
        if data.startswith(magic):
            try:
                with unpack(io.BytesIO(data)) as file:
                    return _no_more(file.read(LIMIT_BYTES + 1), place)
            except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError):
                raise BadInput(
                    "cannot unpack the patch: it is truncated or damaged", file=place, hint="download the patch again"
                ) from None
    return data


def _no_more(data: bytes, place: str) -> bytes:
    if len(data) > LIMIT_BYTES:
        raise BadInput(f"too large for a patch (maximum {LIMIT_BYTES >> 20} MiB)", file=place, hint="split the patch")
    return data


def check_names(patch: Patch, tree: Path) -> None:
    """Raise Refused for a name or link outside the tree, a name in .git, and a name too short for -pN."""
    root = tree.resolve()
    for file in patch.files:
        bare = next((name for name in file.names if name != "/dev/null" and not strip_name(name, patch.strip)), None)
        if bare is not None:
            raise Refused(
                f"{patch.name}: {bare!r} has no folder for -p{patch.strip} to strip",
                hint="use a patch with file names such as a/init/main.c, or a series with the right -p",
            )
        names = [strip_name(name, patch.strip) for name in file.names if name != "/dev/null"] + list(file.mentioned)
        absolute = [name for name in (*file.names, *file.mentioned) if name.startswith("/") and name != "/dev/null"]
        for name in (*absolute, *names):
            inside = bool(name) and not name.startswith("/") and ".." not in name.split("/")
            if not inside or not (root / name).parent.resolve().is_relative_to(root):
                raise Refused(
                    f"{patch.name}: {name or file.names[0]!r} points outside the tree", hint="do not use this patch"
                )
            if name.split("/")[0] == ".git":
                raise Refused(f"{patch.name}: {name} belongs to git", hint="do not use this patch")
        if file.link and any(_leads_out(link, names[-1]) for link in file.added.splitlines()):
            raise Refused(f"{patch.name}: {names[-1]} would link out of the tree", hint="do not use this patch")


def _leads_out(link: str, name: str) -> bool:
    depth = len(name.split("/")) - 1
    for part in link.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return link.startswith("/")


def _failure(patch: Patch, said: str, complaint: str, tree: Path) -> str:
    name = ""
    for line in said.splitlines():
        if match := _PATCHING.fullmatch(line.strip()):
            name = match[1]
        if (match := _FAILED.search(line)) and name:
            file = next((one for one in patch.files if strip_name(one.names[-1], patch.strip) == name), None)
            number, at = int(match[1]), int(match[2])
            if file is not None and number <= len(file.hunks):
                hunk = file.hunks[number - 1]
                wanted = "\n".join(f"  {one}" for one in hunk.lines[:_SHOWN_LINES])
                there = _around(tree / name, at, min(len(hunk.lines), _SHOWN_LINES))
                return (
                    f"{patch.name}:{hunk.line}: hunk {number} of {len(file.hunks)} does not fit {name}:{at}\n"
                    f"the patch expects\n{wanted}\nthe tree has\n{there}"
                )
    lines = [line for line in (*said.splitlines(), *complaint.splitlines()) if line.strip()]
    return f"cannot apply {patch.name}:\n" + "\n".join(f"  {line}" for line in lines[-8:])


def _around(path: Path, at: int, count: int) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "  (no such file)"
    shown = lines[max(0, at - 1) : at - 1 + count]
    return "\n".join(f"  {at + number:6} {line}" for number, line in enumerate(shown)) or "  (end of file)"


def _hint(said: str) -> str:
    if "Reversed (or previously applied)" in said:
        return "skip this patch: the tree has it already, or the patch is for an older version"
    return "use the patch for this version of Linux; your tree is unchanged"

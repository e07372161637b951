# SPDX-License-Identifier: Apache-2.0
"""Bundles as files: a tar of plain files in one zstd frame.

Equal content gives equal bytes.

A reader does not trust a bundle. It unpacks only plain files, and only into a private folder. A bundle may contain only
certain names, and the manifest must list the size and digest of every file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO

import msgspec
import zstandard

from ktrial.evidence.model import (
    COMPARISON,
    LARGEST_BUNDLE_BYTES,
    LARGEST_BYTES,
    MANIFEST,
    MEMBER,
    MOST_MEMBERS,
    OTHER_COPY,
    SCHEMA,
    BundleMember,
    Manifest,
    Packed,
    folder_of,
    trial_folder_of,
    trials_of,
)
from ktrial.kit.errors import BadInput, KtrialError, in_lower_case
from ktrial.kit.files import why_unread
from ktrial.kit.json_strict import decode_as
from ktrial.kit.units import show_bytes

_LEVEL = 10
_BLOCK = 512
_CHUNK = 1 << 20
#: Number of compressed bytes to read at a time, which limits what one step can unpack: 4 bytes become at most 128 KiB.
_PACKED_CHUNK = 1 << 10
#: Memory that a zstd frame may request.
_WINDOW_BYTES = 128 << 20
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.DIRTYPE: "a folder",
}


#: Hint for a folder or file that cannot be written.
_ROOM = "free some space, or make the folder writable"

#: Hint for a bundle that is larger than ktrial unpacks.
_SMALLER = "ask the author of the bundle for several bundles with fewer sessions each"

#: Hint for an invalid published folder.
_OTHER_FOLDER = "fetch the folder again, or ask its author to publish again with `ktrial publish … --data`"


class BundleFolder:
    """A private folder in which bundles are packed and unpacked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Path] = []

    def new(self) -> BundleWriter:
        return BundleWriter(self._private())

    def examine(self, path: Path) -> UnpackedBundle:
        """Return the bundle in a file or folder; its `damaged` names the members that do not match their digest."""
        if not path.is_dir():
            return self._open(path, damaged_too=True)
        try:
            return _opened_folder(path)
        except BadInput as error:
            raise BadInput(error.message, hint=error.hint or _OTHER_FOLDER) from None

    def open(self, path: Path) -> UnpackedBundle:
        """Return the bundle in a file after checking all of it. Raise BadInput for an invalid bundle."""
        return self._open(path, damaged_too=False)

    def _open(self, path: Path, *, damaged_too: bool) -> UnpackedBundle:
        try:
            file = path.open("rb")
        except OSError as error:
            raise BadInput(f"{path}: {why_unread(error)}", hint="check the path and its permissions") from None
        try:
            with file:
                return _unpack(file, str(path), self._private(), damaged_too=damaged_too)
        except BadInput as error:
            raise BadInput(error.message, hint=error.hint or OTHER_COPY) from None

    def close(self) -> None:
        for folder in self._made:
            shutil.rmtree(folder, ignore_errors=True)

    def _private(self) -> Path:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._remove_leftovers()
            made = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self._folder))
        except OSError as error:
            raise KtrialError(f"cannot write {self._folder}: {error.strerror}", hint=_ROOM) from None
        self._made.append(made)
        return made

    def _remove_leftovers(self) -> None:
        for folder in self._folder.iterdir():
            process = folder.name.partition("-")[0]
            if process.isdecimal() and not Path(f"/proc/{process}").exists():
                shutil.rmtree(folder, ignore_errors=True)


class BundleWriter:
    """Collects members, and writes them as a bundle."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._members: dict[str, BundleMember] = {}

    def raw(self, data: bytes) -> str:
        """Add raw bytes unless the bundle has them already; return their digest."""
        digest = hashlib.sha256(data).hexdigest()
        if f"raw/{digest}" not in self._members:
            self.member(f"raw/{digest}", [data])
        return digest

    def member(self, name: str, pieces: Iterable[bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        with self._writing(self._folder), _place(self._folder, name).open("wb") as file:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                file.write(piece)
        self._members[name] = BundleMember(digest.hexdigest(), size)

    def opened(self, sessions: Iterable[Packed]) -> UnpackedBundle:
        """Return the members added so far as a bundle to read; its manifest lists `sessions`."""
        return UnpackedBundle("the bundle", partial(_place, self._folder), self._manifest(sessions))

    def files(self, sessions: Iterable[Packed]) -> dict[str, bytes]:
        manifest = self._manifest(sessions)
        found = {MANIFEST: msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1) + b"\n"}
        return found | {name: _place(self._folder, name).read_bytes() for name in manifest.members}

    def _manifest(self, sessions: Iterable[Packed]) -> Manifest:
        return Manifest(sessions=tuple(sessions), members=dict(sorted(self._members.items())))

    def write(self, path: Path, sessions: Iterable[Packed]) -> None:
        """Write the bundle atomically; its manifest lists `sessions`."""
        manifest = self._manifest(sessions)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with self._writing(path):
            try:
                with part.open("wb") as file:
                    self._pack(file, msgspec.json.encode(manifest, order="sorted") + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                part.rename(path)
            except OSError:
                part.unlink(missing_ok=True)
                raise

    def _pack(self, file: IO[bytes], manifest: bytes) -> None:
        packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        with (
            packer.stream_writer(file, closefd=False) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
        ):
            tar.addfile(_header(MANIFEST, len(manifest)), io.BytesIO(manifest))
            for name in sorted(self._members):
                with _place(self._folder, name).open("rb") as member:
                    tar.addfile(_header(name, self._members[name].size_bytes), member)

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise KtrialError(f"cannot write {path}: {error.strerror}", hint=_ROOM) from None


class UnpackedBundle:
    """A complete bundle; `damaged` names the members that do not match the manifest."""

    def __init__(
        self, shown: str, place: Callable[[str], Path], manifest: Manifest, damaged: Iterable[str] = ()
    ) -> None:
        self.shown = shown
        self.manifest = manifest
        self.damaged = frozenset(damaged)
        self._place = place

    def session(self, name: str) -> bytes:
        return self._place(f"{folder_of(name)}/session.json").read_bytes()

    def runs(self, name: str) -> Iterator[bytes]:
        with self._place(f"{folder_of(name)}/runs.jsonl").open("rb") as file:
            while line := file.readline(LARGEST_BYTES):
                yield line

    def raw(self, digest: str) -> bytes:
        return self._place(f"raw/{digest}").read_bytes()

    def comparison(self) -> bytes | None:
        return self._member(COMPARISON)

    @property
    def trials(self) -> tuple[str, ...]:
        return trials_of(self.manifest.members)

    def trial(self, name: str, part: str) -> bytes | None:
        return self._member(f"{trial_folder_of(name)}/{part}")

    def _member(self, name: str) -> bytes | None:
        return self._place(name).read_bytes() if name in self.manifest.members else None


def _opened_folder(path: Path) -> UnpackedBundle:
    """Return the bundle whose members are the plain files of a folder."""
    shown = str(path)
    manifest = _manifest(plain_file(path.parent, f"{path.name}/{MANIFEST}"), shown)
    damaged = set()
    for name, listed in manifest.members.items():
        if MEMBER.fullmatch(name) is None:
            raise BadInput(f"{shown}: {name!r} does not belong in a bundle")
        digest = hashlib.sha256(plain_file(path, name)).hexdigest()
        own = name.removeprefix("raw/") if name.startswith("raw/") else listed.sha256
        if not digest == listed.sha256 == own:
            damaged.add(name)
    return UnpackedBundle(shown, path.joinpath, manifest, damaged)


def plain_file(folder: Path, name: str) -> bytes:
    """Return the content of a plain file in an untrusted folder. Raise BadInput for links, devices and the like."""
    parts, place = Path(name).parts, folder / name
    if Path(name).is_absolute() or ".." in parts:
        raise BadInput(f"{name}: the path leads outside the bundle", hint=_OTHER_FOLDER)
    if any(folder.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts) + 1)):
        raise BadInput(f"{place} is a symbolic link; a bundle contains plain files only", hint=_OTHER_FOLDER)
    try:
        size_bytes = place.stat().st_size
        if not place.is_file():
            raise BadInput(f"{place} is not a plain file", hint=_OTHER_FOLDER)
        if size_bytes > LARGEST_BUNDLE_BYTES:
            raise BadInput(
                f"{place} has {show_bytes(size_bytes)}; the limit is {show_bytes(LARGEST_BUNDLE_BYTES)}",
                hint=_OTHER_FOLDER,
            )
        return place.read_bytes()
    except OSError as error:
        raise BadInput(f"{place}: {why_unread(error)}", hint=_OTHER_FOLDER) from None


def _place(folder: Path, name: str) -> Path:
    """Return the path of a member. All members are in one flat folder, so that no name can lead outside."""
    return folder / name.replace("/", "+")


def _header(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o644
    return info


class _Frame:
    """The content of a zstd frame, read piece by piece.

    It checks that the frame is complete and that nothing follows it.
    """

    def __init__(self, file: IO[bytes], shown: str) -> None:
        self._file = file
        self.shown = shown
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
        self._ready = bytearray()
        self._given = 0

    def exactly(self, size: int) -> bytes:
        """Return the next `size` bytes. Raise BadInput if fewer are left."""
        while len(self._ready) < size:
            if not self._more():
                raise BadInput(f"{self.shown}: the bundle is truncated")
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def end(self) -> None:
        """Raise BadInput unless only zeros follow."""
        while self._ready or self._more():
            if self._ready.strip(b"\0"):
                raise BadInput(f"{self.shown}: unexpected data after the archive")
            self._ready.clear()
        if self._unpacker.unused_data or self._file.read(1):
            raise BadInput(f"{self.shown}: unexpected data after the bundle")

    def _more(self) -> bool:
        """Unpack some more bytes; return False at the end."""
        if self._unpacker.eof:
            return False
        packed = self._file.read(_PACKED_CHUNK)
        if not packed:
            raise BadInput(f"{self.shown}: the bundle is truncated")
        try:
            found = self._unpacker.decompress(packed)
        except zstandard.ZstdError as error:
            raise BadInput(f"{self.shown}: not a bundle, or a damaged one ({error})") from None
        self._given += len(found)
        if self._given > LARGEST_BUNDLE_BYTES + MOST_MEMBERS * 2 * _BLOCK:
            raise BadInput(
                f"{self.shown}: the bundle unpacks to more than {LARGEST_BUNDLE_BYTES >> 30} GiB", hint=_SMALLER
            )
        self._ready += found
        return True


def _unpack(file: IO[bytes], shown: str, folder: Path, *, damaged_too: bool) -> UnpackedBundle:
    frame = _Frame(file, shown)
    name, size = _next(frame, shown) or ("", 0)
    if name != MANIFEST:
        raise BadInput(
            f"{shown} is not a ktrial bundle, because it does not begin with {MANIFEST}",
            hint="name a file that `ktrial bundle` wrote",
        )
    manifest = _manifest(b"".join(_content(frame, size)), shown)
    missing, damaged = dict(manifest.members), set()
    while (found := _next(frame, shown)) is not None:
        name, size = found
        listed = missing.pop(name, None)
        if listed is None:
            problem = "occurs twice" if name in manifest.members else "is not in the manifest"
            raise BadInput(f"{shown}: {name} {problem}")
        if listed.size_bytes != size:
            raise BadInput(f"{shown}: {name} has {size} bytes, but the manifest says {listed.size_bytes}")
        if not _keep(frame, folder, name, listed):
            damaged.add(name)
            if not damaged_too:
                raise BadInput(f"{shown}: {name} does not match its digest; the bundle is damaged")
    frame.end()
    if missing:
        raise BadInput(f"{shown}: {next(iter(missing))} is missing; the bundle may be truncated")
    return UnpackedBundle(shown, partial(_place, folder), manifest, damaged)


def _next(frame: _Frame, shown: str) -> tuple[str, int] | None:
    """Return name and size of the next member, or None at the end."""
    block = frame.exactly(_BLOCK)
    if not block.strip(b"\0"):
        return None
    try:
        info = tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"{shown}: not a bundle, or a damaged one ({error})") from None
    name = info.name
    if info.type != tarfile.REGTYPE:
        raise BadInput(
            f"{shown}: {name!r} is {_KINDS.get(info.type, 'not a plain file')}; a bundle contains plain files only"
        )
    if name != MANIFEST and MEMBER.fullmatch(name) is None:
        is_outside = name.startswith("/") or ".." in name.split("/")
        problem = "leads outside the bundle" if is_outside else "does not belong in a bundle"
        raise BadInput(f"{shown}: {name!r} {problem}")
    largest = LARGEST_BUNDLE_BYTES if name.endswith("/runs.jsonl") else LARGEST_BYTES
    if not 0 <= info.size <= largest:
        raise BadInput(f"{shown}: {name} claims to have {show_bytes(info.size)}; the limit is {show_bytes(largest)}")
    return name, info.size


def _content(frame: _Frame, size: int) -> Iterator[bytes]:
    """Yield the content of a member in pieces, without the padding of its last block."""
    left = size
    while left:
        piece = frame.exactly(min(left, _CHUNK))
        left -= len(piece)
        yield piece
    if frame.exactly(-size % _BLOCK).strip(b"\0"):
        raise BadInput(f"{frame.shown}: the damaged bundle has unexpected data between its files")


def _keep(frame: _Frame, folder: Path, name: str, listed: BundleMember) -> bool:
    """Write a member to the folder; return whether it matches its digest."""
    digest = hashlib.sha256()
    try:
        with _place(folder, name).open("xb") as file:
            for piece in _content(frame, listed.size_bytes):
                digest.update(piece)
                file.write(piece)
    except OSError as error:
        raise KtrialError(f"cannot write {folder}: {error.strerror}", hint=_ROOM) from None
    own = name.removeprefix("raw/") if name.startswith("raw/") else listed.sha256
    return digest.hexdigest() == listed.sha256 == own


def _manifest(data: bytes, shown: str) -> Manifest:
    """Return the manifest after checking its sizes and counts against the limits."""
    try:
        document = decode_as(data, object)
        schema = document.get("schema") if isinstance(document, Mapping) else None
        if isinstance(schema, str) and schema != SCHEMA and schema.startswith(SCHEMA.partition("/")[0]):
            raise BadInput(f"{shown}: a newer ktrial wrote this bundle ({schema})", hint="update ktrial")
        manifest = msgspec.convert(document, Manifest)
    except msgspec.DecodeError as error:
        raise BadInput(f"cannot read {MANIFEST} of {shown}: {in_lower_case(str(error))}") from None
    wanted = [
        f"{folder_of(one.session)}/{name}" for one in manifest.sessions for name in ("runs.jsonl", "session.json")
    ]
    there = [name for name in manifest.members if name.startswith("sessions/")]
    if sorted(wanted) != sorted(there):
        raise BadInput(f"{shown}: the sessions and the files in {MANIFEST} do not match")
    total = sum(max(0, one.size_bytes) for one in manifest.members.values())
    if total > LARGEST_BUNDLE_BYTES or len(manifest.members) > MOST_MEMBERS:
        raise BadInput(
            f"{shown}: the bundle unpacks to {show_bytes(total)} in {len(manifest.members)} files; the limits are "
            f"{show_bytes(LARGEST_BUNDLE_BYTES)} and {MOST_MEMBERS} files",
            hint=_SMALLER,
        )
    return manifest

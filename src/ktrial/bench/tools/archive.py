# SPDX-License-Identifier: Apache-2.0
"""Digest of a folder, and safe unpacking of archives.

The digest is the SHA-256 of the folder in the NAR serialisation. It covers names, contents, links and the executable
bit, but not owners and times. `nix hash path --base16 FOLDER` prints the same digest.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ktrial.kit.errors import KtrialError, in_lower_case

#: Maximum number of bytes and files in a source. The largest tool has some 2 MiB in 150 files.
TREE_BYTES = 512 << 20
TREE_FILES = 100_000
_CHUNK_BYTES = 1 << 20
_NAR_MAGIC = b"nix-archive-1"


def tree_sha256(folder: Path) -> str:
    """Return the digest of all files in `folder`.

    Raise KtrialError for special files, and for links that lead outside the folder.
    """
    digest = hashlib.sha256()
    _put(digest.update, _NAR_MAGIC)
    _put_node(digest.update, folder, folder.resolve())
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(archive: Path, into: Path, place: str | None = None) -> Path:
    """Unpack a tar archive into the new folder `into`. Return `into`, or its only entry if that is a folder.

    Errors show `place`, where the user got the archive.
    """
    shown = place or str(archive)
    into.mkdir()
    left_bytes, left_files = TREE_BYTES, TREE_FILES
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                _check_name(shown, member.name)
                left_bytes -= member.size
                left_files -= 1
                if left_bytes < 0 or left_files < 0:
                    raise KtrialError(
                        f"{shown} contains more than {TREE_BYTES >> 20} MiB or {TREE_FILES} files",
                        hint="with --from, name an archive that contains only the tool",
                    )
                _unpack_member(shown, tar, member, into)
    except OSError as error:
        raise KtrialError(
            f"cannot unpack {shown}: {error.strerror or error}",
            hint="free some space" if error.errno == errno.ENOSPC else "download the archive again",
        ) from None
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        # If no format fits, the text of tarfile has a line for each format.
        text = str(error)
        why = "it is not a tar archive" if "\n" in text else f"it is damaged ({in_lower_case(text)})"
        raise KtrialError(f"cannot unpack {shown}: {why}", hint="name a complete archive with --from") from None
    entries = list(into.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() and not entries[0].is_symlink() else into


def check_size(folder: Path) -> None:
    """Raise KtrialError if a folder is too large to be the source of a tool."""
    size_bytes = count = 0
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            size_bytes += (Path(place) / name).lstat().st_size
            count += 1
        if size_bytes > TREE_BYTES or count > TREE_FILES:
            raise KtrialError(
                f"{folder} contains more than {TREE_BYTES >> 20} MiB or {TREE_FILES} files",
                hint="with --from, name a source that contains only the tool",
            )


def _unpack_member(shown: str, tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    """Unpack a folder, a file or a link within the archive; refuse others. Python 3.11.2 has no such filter."""
    target = into / member.name
    _check_way(shown, target, into)
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member) if member.isreg() else None
    if content is not None:
        with content, target.open("xb") as file:
            shutil.copyfileobj(content, file, _CHUNK_BYTES)
        target.chmod(0o755 if member.mode & 0o111 else 0o644)
        os.utime(target, (member.mtime, member.mtime))
    elif member.issym():
        meant = PurePosixPath(member.name).parent / member.linkname
        _check_name(shown, os.path.normpath(meant), member.linkname)
        target.symlink_to(member.linkname)
    elif member.islnk():
        _check_name(shown, member.linkname)
        linked = into / member.linkname
        _check_way(shown, linked, into)
        if linked.is_symlink() or not linked.is_file():
            raise _distrusted(
                shown,
                f"{member.name!r} links to {member.linkname!r}, which is not an earlier file in the archive",
            )
        target.hardlink_to(linked)
    else:
        raise _distrusted(shown, f"{member.name!r} is not a file, folder or link")


def _check_way(shown: str, target: Path, into: Path) -> None:
    """Raise KtrialError if the path goes through a link, which could lead outside."""
    for parent in target.parents:
        if parent == into:
            return
        if parent.is_symlink():
            raise _distrusted(shown, f"the path to {target.name!r} goes through a link")


def _check_name(shown: str, name: str, link: str = "") -> None:
    if name.startswith("/") or link.startswith("/") or ".." in PurePosixPath(name).parts:
        raise _distrusted(shown, f"{(link or name)!r} leads outside the archive")


def _distrusted(shown: str, why: str) -> KtrialError:
    return KtrialError(f"cannot trust {shown}: {why}", hint="get the source elsewhere; nothing was built")


def _put(write: Callable[[bytes], object], data: bytes) -> None:
    write(len(data).to_bytes(8, "little"))
    write(data)
    write(bytes(-len(data) % 8))


def _put_node(write: Callable[[bytes], object], path: Path, top: Path) -> None:
    status = path.lstat()
    _put(write, b"(")
    _put(write, b"type")
    if stat.S_ISREG(status.st_mode):
        _put_file(write, path, status)
    elif stat.S_ISLNK(status.st_mode):
        if not path.resolve().is_relative_to(top):
            raise KtrialError(
                f"{path} is a link that points outside the source",
                hint="remove the link from a copy of the source, and name that copy with --from",
            )
        _put(write, b"symlink")
        _put(write, b"target")
        _put(write, os.fsencode(path.readlink()))
    elif stat.S_ISDIR(status.st_mode):
        _put(write, b"directory")
        for name, below in sorted((os.fsencode(below.name), below) for below in path.iterdir()):
            for part in (b"entry", b"(", b"name", name, b"node"):
                _put(write, part)
            _put_node(write, below, top)
            _put(write, b")")
    else:
        raise KtrialError(
            f"{path} is not a file, folder or link",
            hint=f"remove {path.name} from a copy of the source, and name that copy with --from",
        )
    _put(write, b")")


def _put_file(write: Callable[[bytes], object], path: Path, status: os.stat_result) -> None:
    _put(write, b"regular")
    if status.st_mode & stat.S_IXUSR:
        _put(write, b"executable")
        _put(write, b"")
    _put(write, b"contents")
    write(status.st_size.to_bytes(8, "little"))
    left = status.st_size
    with path.open("rb") as file:
        while chunk := file.read(min(_CHUNK_BYTES, left)):
            write(chunk)
            left -= len(chunk)
    if left:
        raise KtrialError(f"{path} changed while ktrial read it", hint="try again when no program writes to the source")
    write(bytes(-status.st_size % 8))

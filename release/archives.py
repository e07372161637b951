# SPDX-License-Identifier: Apache-2.0
"""Archives that are the same bytes whoever packs them, and whenever: sorted, dated by the release, owned by root."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from pathlib import Path

import zstandard

#: What two Pythons' builds of one module differ by in their names. Without it they lie side by side in the archive,
#: where the compressor sees what they share.
_OF_ONE_PYTHON = re.compile(r"python3\.\d+|cpython-3\d+")
_LEVEL = 12
_WINDOW = 27  # 128 MiB, the most that `zstd -d` and tar take without being asked


def tar(folder: Path, name: str, dated: int) -> bytes:
    """Return a tar archive of `folder` under `name`. A file with the bytes of an earlier one is a link to that."""
    stream = io.BytesIO()
    first: dict[tuple[str, bool], str] = {}
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted([folder, *folder.rglob("*")], key=lambda path: _order(path.relative_to(folder))):
            below = path.relative_to(folder).as_posix()
            entry = tarfile.TarInfo(name if below == "." else f"{name}/{below}")
            entry.mtime = dated
            runs = path.is_dir() or bool(path.stat(follow_symlinks=False).st_mode & 0o111)
            entry.mode = 0o755 if runs else 0o644
            if path.is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
                archive.addfile(entry)
            elif path.is_dir():
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                _add_file(archive, entry, path.read_bytes(), first)
    return stream.getvalue()


def _order(path: Path) -> tuple[str, str]:
    return _OF_ONE_PYTHON.sub("", path.as_posix()), path.as_posix()


def _add_file(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, content: bytes, first: dict[tuple[str, bool], str]
) -> None:
    key = (hashlib.sha256(content).hexdigest(), entry.mode == 0o755)
    if content and key in first:
        entry.type, entry.linkname = tarfile.LNKTYPE, first[key]
        archive.addfile(entry)
        return
    first[key] = entry.name
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def write_zst(folder: Path, name: str, dated: int, output: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, window_log=_WINDOW, enable_ldm=True, threads=2, write_checksum=True
    )
    output.write_bytes(zstandard.ZstdCompressor(compression_params=parameters).compress(tar(folder, name, dated)))


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive of our own; Python has filters since 3.11.4."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)


def repack_gz(packed: Path, work: Path, dated: int) -> None:
    """Replace a tar.gz that holds one folder by the same without the time and the user that it was packed by."""
    with tarfile.open(packed) as archive:
        extract(archive, work)
    (folder,) = work.iterdir()
    packed.write_bytes(gzip.compress(tar(folder, folder.name, dated), mtime=dated))

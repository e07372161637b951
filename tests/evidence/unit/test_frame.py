# SPDX-License-Identifier: Apache-2.0
"""The frame of a bundle: whole, with nothing behind its end, and never more than the limits."""

from __future__ import annotations

import io
import os
import random
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard

from ktrial.evidence import file
from ktrial.evidence.file import BundleFolder, _Frame, _keep, _next, plain_file
from ktrial.evidence.model import MANIFEST, BundleMember
from ktrial.kit.errors import BadInput, KtrialError

BLOCK = 512


def frame(content: bytes, after: bytes = b"") -> _Frame:
    return _Frame(io.BytesIO(zstandard.ZstdCompressor().compress(content) + after), "b.tar.zst")


def header(size: int, name: str = MANIFEST) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT)


def test_zeros_may_follow_the_last_member_and_nothing_else() -> None:
    found = frame(b"a" + b"\0" * 3 * BLOCK)
    assert found.exactly(1) == b"a"
    found.end()
    with pytest.raises(BadInput, match="unexpected data after the archive"):
        frame(b"\0" * BLOCK + b"x").end()
    with pytest.raises(BadInput, match="unexpected data after the bundle"):
        frame(b"\0" * BLOCK, after=b"x").end()


def test_what_a_chunk_has_already_given_is_looked_at_too() -> None:
    found = frame(b"ab")
    assert found.exactly(1) == b"a"
    with pytest.raises(BadInput, match="unexpected data after the archive"):
        found.end()


def test_a_frame_that_ends_too_early_is_refused() -> None:
    with pytest.raises(BadInput, match="the bundle is truncated"):
        frame(b"abc").exactly(4)


def test_all_that_was_unpacked_counts_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LARGEST_BUNDLE_BYTES", 100)
    monkeypatch.setattr(file, "MOST_MEMBERS", 2)
    monkeypatch.setattr(file, "_PACKED_CHUNK", 8)
    most = random.Random(1).randbytes(100 + 2 * 2 * BLOCK)
    assert frame(most).exactly(len(most)) == most
    with pytest.raises(BadInput, match="the bundle unpacks to more than"):
        frame(most + b"x").exactly(len(most) + 1)


def test_a_name_that_is_no_ascii_is_refused() -> None:
    info = tarfile.TarInfo("é")
    with pytest.raises(BadInput, match="not a bundle, or a damaged one"):
        _next(frame(info.tobuf(tarfile.USTAR_FORMAT, "utf-8")), "b")


def test_members_of_no_bytes_and_of_the_most_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LARGEST_BYTES", 7)
    assert _next(frame(header(0)), "b") == (MANIFEST, 0)
    assert _next(frame(header(7)), "b") == (MANIFEST, 7)
    with pytest.raises(BadInput, match=r"claims to have 8 B; the limit is 7 B"):
        _next(frame(header(8)), "b")


def test_a_member_that_is_damaged_is_noted_by_who_only_looks(tmp_path: Path) -> None:
    bundles = BundleFolder(tmp_path / "work")
    writer = bundles.new()
    digest = writer.raw(b"one")
    writer.write(tmp_path / "sound", ())
    content = zstandard.ZstdDecompressor().decompressobj().decompress((tmp_path / "sound").read_bytes())
    (tmp_path / "bad").write_bytes(zstandard.compress(content.replace(b"one\0", b"two\0")))
    with pytest.raises(BadInput):
        bundles.open(tmp_path / "bad")
    found = bundles.examine(tmp_path / "bad")
    assert found.damaged == {f"raw/{digest}"}
    assert not bundles.examine(tmp_path / "sound").damaged
    bundles.close()


def test_a_bundle_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    bundles = BundleFolder(tmp_path / "work")
    writer = bundles.new()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").touch()
    with pytest.raises(KtrialError, match=r"cannot write .*taken: ") as caught:
        writer.write(tmp_path / "taken", ())
    assert caught.value.hint == "free some space, or make the folder writable"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken", "work"]
    shutil.rmtree(tmp_path / "work")
    bundles.close()  # what is away is not a fault


def test_members_can_be_read_by_whoever_unpacks_them(tmp_path: Path) -> None:
    folder = BundleFolder(tmp_path / "private")
    folder.new().write(tmp_path / "b.tar.zst", ())
    content = zstandard.ZstdDecompressor().stream_reader((tmp_path / "b.tar.zst").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert [(member.name, member.mode) for member in tar] == [(MANIFEST, 0o644)]


def test_a_bundle_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: sizes.append(os.fstat(file).st_size))
    BundleFolder(tmp_path / "private").new().write(tmp_path / "b.tar.zst", ())
    assert sizes == [(tmp_path / "b.tar.zst").stat().st_size]
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700


def test_a_file_of_a_published_folder_lies_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inside").write_bytes(b"1234567")
    for name in (str(tmp_path / "outside"), "../outside"):
        with pytest.raises(BadInput, match="the path leads outside the bundle"):
            plain_file(folder, name)
    monkeypatch.setattr(file, "LARGEST_BUNDLE_BYTES", 7)
    assert plain_file(folder, "inside") == b"1234567"
    monkeypatch.setattr(file, "LARGEST_BUNDLE_BYTES", 6)
    with pytest.raises(BadInput, match="inside has 7 B; the limit is 6 B"):
        plain_file(folder, "inside")


def test_a_published_folder_has_no_other_files_than_a_bundle(tmp_path: Path) -> None:
    bundles = BundleFolder(tmp_path / "work")
    folder = tmp_path / "published"
    for name, data in bundles.new().files(()).items():
        folder.mkdir()
        (folder / name).write_bytes(
            data.replace(b'"members": {}', b'"members": {"notes": {"sha256": "", "size_bytes": 1}}')
        )
    with pytest.raises(BadInput, match="'notes' does not belong in a bundle"):
        bundles.examine(folder)


def test_a_member_that_cannot_be_written_is_no_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(KtrialError, match=r"cannot write .*absent: No such file or directory"):
        _keep(frame(b""), tmp_path / "absent", "raw/1", BundleMember("1", 0))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KtrialError, match=r"cannot write .*file/private: Not a directory"):
        BundleFolder(tmp_path / "file" / "private").new()

# SPDX-License-Identifier: Apache-2.0
"""Digests of folders, and archives that mean harm."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.tools import archive as tree
from ktrial.bench.tools.archive import check_size, tree_sha256, unpack
from ktrial.kit.errors import KtrialError


def a_tree(folder: Path) -> Path:
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "program").write_text("#!/bin/sh\n")
    (folder / "below" / "program").chmod(0o755)
    (folder / "text").write_text("eight by")
    (folder / "text-2").write_text("")
    (folder / "link").symlink_to("below/program")
    return folder


def test_the_digest_is_the_one_that_nix_tells(tmp_path: Path) -> None:
    """The value is that of `nix hash path --base16` (nix 2.8.0) for this tree."""
    assert tree_sha256(a_tree(tmp_path / "a")) == "8f3e9f6e5d90754b6de44d3d216d05b09cef296c6c4f1a3501fdd227dc423626"


def test_times_and_owners_do_not_count(tmp_path: Path) -> None:
    one, two = a_tree(tmp_path / "a"), a_tree(tmp_path / "b")
    os.utime(two / "text", (1, 1))
    (two / "text").chmod(0o600)
    assert tree_sha256(one) == tree_sha256(two)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "text").write_text("Eight by"),
        lambda folder: (folder / "text").chmod(0o755),
        lambda folder: (folder / "text").rename(folder / "Text"),
        lambda folder: (folder / "empty").mkdir(),
        lambda folder: (folder / "link").unlink() or (folder / "link").symlink_to("text"),
    ],
)
def test_everything_else_does(tmp_path: Path, change: Callable[[Path], object]) -> None:
    folder = a_tree(tmp_path / "a")
    before = tree_sha256(folder)
    change(folder)
    assert tree_sha256(folder) != before


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    folder = a_tree(tmp_path / "a")
    (folder / "out").symlink_to("/etc/passwd")
    with pytest.raises(KtrialError, match="points outside the source"):
        tree_sha256(folder)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(KtrialError, match="not a file"):
        tree_sha256(tmp_path)


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    made.linkname = link
    return made


def test_the_only_top_folder_is_the_source(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tgz", (member("tool-1/Makefile"), b"all:\n"), (member("tool-1/x/y"), b""))
    assert unpack(path, tmp_path / "out") == tmp_path / "out" / "tool-1"
    assert (tmp_path / "out" / "tool-1" / "Makefile").read_text() == "all:\n"


def test_several_top_entries_are_the_source(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tgz", (member("Makefile"), b""), (member("x/y"), b""))
    assert unpack(path, tmp_path / "out") == tmp_path / "out"


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/ktrial-was-here"),
        member("a/../../ktrial-was-here"),
        member("../ktrial-was-here"),
        member("a/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("a/link", tarfile.SYMTYPE, "../../ktrial-was-here"),
        member("a/link", tarfile.LNKTYPE, "../ktrial-was-here"),
        member("a/device", tarfile.CHRTYPE),
        member("a/pipe", tarfile.FIFOTYPE),
    ],
)
def test_what_leads_out_of_an_archive_is_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    path = archive(tmp_path / "a.tgz", (member("a/Makefile"), b""), (bad, b""))
    with pytest.raises(KtrialError, match="cannot trust"):
        unpack(path, tmp_path / "out")
    assert not list(tmp_path.rglob("ktrial-was-here"))


def test_a_link_cannot_be_written_through(tmp_path: Path) -> None:
    link = member("a/here", tarfile.SYMTYPE, "..")
    path = archive(tmp_path / "a.tgz", (link, b""), (member("a/here/../../out"), b"x"))
    with pytest.raises(KtrialError, match="cannot trust"):
        unpack(path, tmp_path / "unpacked")
    assert not (tmp_path / "out").exists()


def test_files_folders_and_links_of_an_archive_are_unpacked(tmp_path: Path) -> None:
    script, folder = member("a/run"), member("a/empty", tarfile.DIRTYPE)
    script.mode, script.mtime = 0o6755, 1_000_000
    links = [(member("a/to", tarfile.SYMTYPE, "./run"), b""), (member("a/same", tarfile.LNKTYPE, "a/run"), b"")]
    found = unpack(archive(tmp_path / "a.tgz", (script, b"#!/bin/sh\n"), (folder, b""), *links), tmp_path / "out")
    assert {path.name for path in found.iterdir()} == {"run", "empty", "to", "same"}
    assert ((found / "run").stat().st_mode & 0o7777, (found / "run").stat().st_mtime) == (0o755, 1_000_000)
    assert (found / "to").readlink() == Path("run")
    assert (found / "same").samefile(found / "run")


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tgz", (member("link", tarfile.SYMTYPE, "x"), b""), (member("link"), b"y"))
    with pytest.raises(KtrialError, match=r"cannot unpack .*: File exists"):
        unpack(path, tmp_path / "out")


def test_another_file_is_not_a_tar_archive(tmp_path: Path) -> None:
    (tmp_path / "page.tgz").write_bytes(b"<html>" * 200)
    with pytest.raises(KtrialError, match=r"cannot unpack .*: it is not a tar archive$"):
        unpack(tmp_path / "page.tgz", tmp_path / "out")


def test_an_archive_is_called_as_the_user_called_it(tmp_path: Path) -> None:
    cut = tmp_path / "archive"
    cut.write_bytes(archive(tmp_path / "a.tgz", (member("run"), bytes(100_000))).read_bytes()[:-60])
    with pytest.raises(KtrialError, match=r"^cannot unpack /home/me/a\.tgz: it is damaged \(compressed file ended"):
        unpack(cut, tmp_path / "out", "/home/me/a.tgz")


def test_a_link_of_a_link_is_refused(tmp_path: Path) -> None:
    """`a/up` stays within, and what is below it would not."""
    links = [(member("a/b/up", tarfile.SYMTYPE, ".."), b""), (member("x", tarfile.LNKTYPE, "a/b/up/../../out"), b"")]
    with pytest.raises(KtrialError, match="cannot trust"):
        unpack(archive(tmp_path / "a.tgz", *links), tmp_path / "unpacked")
    through = (member("a/b/up/file"), b"x")
    with pytest.raises(KtrialError, match="goes through a link"):
        unpack(archive(tmp_path / "b.tgz", links[0], through), tmp_path / "again")


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "a.tgz", (member("zeros"), bytes(1 << 20)))
    monkeypatch.setattr(tree, "TREE_BYTES", 1 << 19)
    with pytest.raises(KtrialError, match="more than 0 MiB"):
        unpack(path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_million_files_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "a.tgz", *((member(f"f{number}"), b"") for number in range(20)))
    monkeypatch.setattr(tree, "TREE_FILES", 10)
    with pytest.raises(KtrialError, match="10 files"):
        unpack(path, tmp_path / "out")


@given(data=st.binary(max_size=2000))
def test_any_bytes_are_an_archive_or_an_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "a").write_bytes(data)
    with contextlib.suppress(KtrialError):
        unpack(folder / "a", folder / "out")


def test_a_folder_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_tree(tmp_path / "a")
    check_size(tmp_path / "a")
    monkeypatch.setattr(tree, "TREE_FILES", 3)
    with pytest.raises(KtrialError, match="3 files"):
        check_size(tmp_path / "a")

# SPDX-License-Identifier: Apache-2.0
"""Patches on sources from folders, archives, packages and git, with the real `patch`, tar and git."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktrial.kernels.build.patches import LIMIT_BYTES, Patch, Patches
from ktrial.kernels.build.sources import Opened, Sources
from ktrial.kernels.source import KernelSource, PatchSet, PatchWord, parse_patch
from ktrial.kit.errors import BadInput, KtrialError, Refused, UnreadableOutput
from tests.support.kernel_trees import SHAPES, write
from tests.support.kernels import package

SCHED = "int base_slice = 3;\nint other;\n" + "".join(f"int x{number};\n" for number in range(40))
BORE = """--- a/kernel/sched/fair.c
+++ b/kernel/sched/fair.c
@@ -1,2 +1,2 @@
-int base_slice = 3;
+int base_slice = 2;
 int other;
--- /dev/null
+++ b/include/linux/sched/bore.h
@@ -0,0 +1 @@
+#define SCHED_BORE_VERSION "6.8.0"
"""
pytestmark = pytest.mark.skipif(shutil.which("patch") is None, reason="`patch` is not installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = write(SHAPES["6.14.0"], tmp_path / "linux-6.14")
    for name, text in {
        "Kconfig": 'source "arch/x86/Kconfig.cpu"\n',
        "scripts/kconfig/merge_config.sh": "#!/bin/sh\n",
        "kernel/sched/fair.c": SCHED,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path / "cache")


def no_network(address: str, into: Path) -> None:
    pytest.fail(f"{address} was asked for")


def patches(folder: Path, *words: PatchWord) -> list[Patch]:
    return Patches(folder, no_network).read(words)


def patch_file(folder: Path, text: str, name: str = "0001-bore.patch") -> PatchWord:
    (folder / name).write_text(text)
    return PatchWord(str(folder / name), None)


def test_a_folder_is_copied_and_left_alone(tree: Path, sources: Sources, tmp_path: Path) -> None:
    opened = sources.open(str(tree))
    assert (opened.source.kind, opened.source.version, opened.source.families) == ("folder", "6.14.0", ())
    found = sources.patched(opened, patches(tmp_path, patch_file(tmp_path, BORE)))
    assert (found.folder / "kernel/sched/fair.c").read_text().startswith("int base_slice = 2;\n")
    assert (tree / "kernel/sched/fair.c").read_text() == SCHED
    (patch,) = found.source.patches
    assert (patch.name, patch.files, patch.shifted) == ("0001-bore.patch", 2, 0)
    assert patch.families == found.source.families == (PatchSet("BORE", "6.8.0"),)
    assert patch.sha256 == hashlib.sha256(BORE.encode()).hexdigest()


def test_a_copy_needs_the_room_that_the_tree_takes(
    tree: Path, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "large").write_bytes(bytes(1 << 20))
    (tree / ".git").mkdir()
    (tree / ".git/pack").write_bytes(bytes(1 << 20))
    opened = Opened(KernelSource(kind="git", place=str(tree), version="6.14.0"), tree, ours=False)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("ktrial.kernels.build.sources.shutil.disk_usage", lambda _: usage._replace(free=1 << 20))
    read = patches(tmp_path, patch_file(tmp_path, BORE))
    with pytest.raises(Refused, match=r"copying the sources needs about 1\.\d+ MiB, but .* has only 1 MiB free"):
        sources.patched(opened, read)
    monkeypatch.setattr("ktrial.kernels.build.sources.shutil.disk_usage", lambda _: usage._replace(free=2 << 20))
    assert (sources.patched(opened, read).folder / "large").stat().st_size == 1 << 20


def test_an_archive_is_unpacked_once_and_never_changed(tree: Path, sources: Sources, tmp_path: Path) -> None:
    archive = tmp_path / "linux-6.14.tar.gz"
    subprocess.run(["tar", "-C", tmp_path, "-czf", archive, tree.name], check=True)
    opened = sources.open(str(archive))
    assert (opened.source.kind, opened.ours) == ("archive", True)
    assert opened.source.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()
    read = patches(tmp_path, patch_file(tmp_path, BORE))
    found = sources.patched(opened, read)
    assert (opened.folder / "kernel/sched/fair.c").read_text() == SCHED
    stamp = (found.folder / "Makefile").stat().st_ino
    assert (sources.patched(sources.open(str(archive)), read).folder / "Makefile").stat().st_ino == stamp
    assert sources.patched(opened, read).source == found.source


def test_a_source_package_of_debian(tree: Path, sources: Sources, tmp_path: Path) -> None:
    archive, deb = tmp_path / "inner.tar.xz", tmp_path / "linux-source-6.14.deb"
    subprocess.run(["tar", "-C", tmp_path, "-cJf", archive, tree.name], check=True)
    deb.write_bytes(package({"usr/src/linux-source-6.14.tar.xz": archive.read_bytes()}))
    opened = sources.open(str(deb))
    assert (opened.source.kind, opened.source.version) == ("package", "6.14.0")
    assert (opened.folder / "kernel/sched/fair.c").read_text() == SCHED
    deb.write_bytes(package({"boot/vmlinuz-6.12": b"x"}))
    with pytest.raises(BadInput, match=r"no usr/src/linux-source-….tar in this package"):
        sources.open(str(deb))


def test_a_git_tree_tells_its_commit_and_its_changes(tree: Path, sources: Sources, tmp_path: Path) -> None:
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    opened = sources.open(str(tree))
    assert (opened.source.kind, opened.source.changes, len(opened.source.commit or "")) == ("git", (), 40)
    (tree / "kernel/sched/fair.c").write_text(f"{SCHED}int mine;\n")
    changed = sources.open(str(tree))
    assert changed.source.changes == ("kernel/sched/fair.c",)
    found = sources.patched(changed, patches(tmp_path, patch_file(tmp_path, BORE)))
    assert (found.folder / "kernel/sched/fair.c").read_text().endswith("int mine;\n")
    assert not (found.folder / ".git").exists()


def test_a_patch_that_does_not_fit_shows_where(tree: Path, sources: Sources, tmp_path: Path) -> None:
    word = patch_file(tmp_path, BORE.replace("-int base_slice = 3;", "-int base_slice = 7;"))
    with pytest.raises(Refused) as caught:
        sources.patched(sources.open(str(tree)), patches(tmp_path, word))
    assert caught.value.message.splitlines()[:7] == [
        "0001-bore.patch:3: hunk 1 of 1 does not fit kernel/sched/fair.c:1",
        "the patch expects",
        "  -int base_slice = 7;",
        "  +int base_slice = 2;",
        "   int other;",
        "the tree has",
        "       1 int base_slice = 3;",
    ]
    assert not list((tmp_path / "cache").glob("patched-*"))


def test_hunks_on_other_lines_count_and_fuzz_is_none(tree: Path, sources: Sources, tmp_path: Path) -> None:
    head = "--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n"
    shifted = f"{head}@@ -3,3 +3,3 @@\n int x9;\n-int x10;\n+int y;\n int x11;\n"
    opened = sources.open(str(tree))
    found = sources.patched(opened, patches(tmp_path, patch_file(tmp_path, shifted)))
    assert found.source.patches[0].shifted == 1
    with pytest.raises(Refused, match="does not fit"):
        sources.patched(opened, patches(tmp_path, patch_file(tmp_path, shifted.replace(" int x9;", " int wrong;"))))
    with pytest.raises(Refused) as caught:
        sources.patched(opened, patches(tmp_path, patch_file(tmp_path, BORE), patch_file(tmp_path, BORE, "2.patch")))
    assert caught.value.hint == "skip this patch: the tree has it already, or the patch is for an older version"


@pytest.mark.parametrize(
    "text",
    [
        "--- a/../../outside\n+++ b/../../outside\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ /etc/outside\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+../../etc\n",
        "diff --git a/x b/x\nrename from Makefile\nrename to ../x\n",
        "--- a/away/outside\n+++ b/away/outside\n@@ -0,0 +1 @@\n+x\n",
        "--- a/.git/hooks/x\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n",
    ],
)
def test_a_patch_that_leads_out_of_the_tree_is_refused_before_a_copy_is_made(
    text: str, tree: Path, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktrial.kernels.build.sources._copy", lambda *_: pytest.fail("a copy is made"))
    (tree / "away").symlink_to(tmp_path)
    with pytest.raises(Refused, match=r"link out of the tree|points outside the tree|belongs to git"):
        sources.patched(sources.open(str(tree)), patches(tmp_path, patch_file(tmp_path, text)))
    assert not (tmp_path / "outside").exists()


def test_a_series_with_its_options(tree: Path, sources: Sources, tmp_path: Path) -> None:
    queue = tmp_path / "patches"
    (queue / "sched").mkdir(parents=True)
    patch_file(queue, BORE, "sched/bore.patch")
    second = (
        BORE.replace("a/k", "k").replace("b/k", "k").replace("slice = 2", "slice = 1").replace("slice = 3", "slice = 2")
    )
    (queue / "second.patch.gz").write_bytes(gzip.compress(second.partition("--- /dev/null")[0].encode()))
    (queue / "series").write_text("# order counts\nsched/bore.patch\nsecond.patch.gz -p0\n")
    opened = sources.open(str(tree))
    for word in (queue, queue / "series"):
        found = sources.patched(opened, patches(tmp_path, PatchWord(str(word), None)))
        assert (found.folder / "kernel/sched/fair.c").read_text().startswith("int base_slice = 1;\n")
        assert [patch.name for patch in found.source.patches] == ["bore.patch", "second.patch.gz"]
    (queue / "series").write_text("sched/bore.patch --reverse\n")
    with pytest.raises(UnreadableOutput, match="an option of a series") as caught:
        patches(tmp_path, PatchWord(str(queue), None))
    assert "--patch" in str(caught.value.hint)
    (queue / "series").unlink()
    with pytest.raises(BadInput, match="no `series` file in this folder"):
        patches(tmp_path, PatchWord(str(queue), None))


def test_what_is_downloaded_must_be_what_was_looked_at(tmp_path: Path) -> None:
    def download(address: str, into: Path) -> None:
        into.write_text(BORE)

    right = hashlib.sha256(BORE.encode()).hexdigest()
    brought = Patches(tmp_path, download)
    (patch,) = brought.read([parse_patch(f"https://example.org/0001-bore.patch#sha256={right}")])
    assert (patch.name, patch.place) == ("0001-bore.patch", "https://example.org/0001-bore.patch")
    with pytest.raises(BadInput, match=f"expected SHA-256 0{{64}}, got {right}"):
        brought.read([parse_patch(f"https://example.org/0001-bore.patch#sha256={'0' * 64}")])
    assert not list(tmp_path.glob("patch-*"))


def test_what_is_no_source(tmp_path: Path, tree: Path, sources: Sources) -> None:
    (tmp_path / "text").write_text("x")
    (tmp_path / "broken.tar.gz").write_bytes(b"\x1f\x8bnothing")
    (tmp_path / "empty").mkdir()
    for word, said, error in (
        ("nowhere", "no such file or folder", BadInput),
        ("text", "neither a tar archive nor a Debian package", BadInput),
        ("broken.tar.gz", "tar .* ended with status 2", KtrialError),
        ("empty", "not a kernel tree: Makefile is missing", BadInput),
    ):
        with pytest.raises(error, match=said):
            sources.open(str(tmp_path / word))
    (tree / ".config").write_text("")
    with pytest.raises(Refused, match=r"was built or configured inside this tree \(.config exists\)"):
        sources.open(str(tree))
    (tmp_path / "two").mkdir()
    subprocess.run(["tar", "-C", tmp_path, "-cf", tmp_path / "two.tar", "two", "text"], check=True)
    with pytest.raises(BadInput, match="expected one top-level folder, got 2 entries"):
        sources.open(str(tmp_path / "two.tar"))
    assert not [path for path in (tmp_path / "cache").iterdir() if path.name.startswith("source-")]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_small_file_that_unpacks_without_end_is_no_patch(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.patch"
    bomb.write_bytes(pack(bytes(LIMIT_BYTES + 1)))
    with pytest.raises(BadInput, match="too large for a patch"):
        patches(tmp_path, PatchWord(str(bomb), None))

# SPDX-License-Identifier: Apache-2.0
"""Kernels of arms around a make that is quick: checked, built once, kept, and what goes wrong."""

from __future__ import annotations

import io
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from ktrial.cli.app import App
from ktrial.cli.main import main
from ktrial.cli.shared.guest_trials import words_of
from ktrial.kit.errors import BadInput, Contradiction, KtrialError, Refused
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile
from tests.support import kernels as kernel_files
from tests.support.buildable_tree import write_buildable
from tests.support.tree import Ran

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="its image is for x86-64"),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("flex", "bison", "bc")), reason="no flex, bison, bc"
    ),
]
FAST = ArmFile(kernel=KernelChange(set={"HZ_1000": "y"}))
PATCH = '--- a/Kconfig\n+++ b/Kconfig\n@@ -1,2 +1,3 @@\n config 64BIT\n+\n \tbool "64BIT"\n'


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_buildable(tmp_path / "linux")


@pytest.fixture
def archive(tree: Path, tmp_path: Path) -> Path:
    path = tmp_path / "linux.tar"
    subprocess.run(["tar", "-C", str(tmp_path), "-cf", str(path), tree.name], check=True)
    return path


def trial(sources: Path, **arms: ArmFile) -> TrialFile:
    recipe = KernelRecipe(tree=str(sources), fragments=())
    arms = {"control": ArmFile(), **arms}
    return TrialFile(name="t", suite="wakeups-busy", guest=GuestFile(kernel=recipe), arms=arms)


def built(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "XDG_CACHE_HOME" / "ktrial" / "kernels").glob("built-*"))


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["kernel", *argv], out, err), out.getvalue(), err.getvalue())


def test_each_kernel_is_built_once_and_kept(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = tmp_path / "mine.patch"
    patch.write_text(PATCH)
    patched = ArmFile(kernel=KernelChange(patches=(str(patch),)))
    file = trial(archive, fast=FAST, again=ArmFile(placebo=True), mine=patched)
    words = words_of(App(may_ask=False), file)
    assert words["again"] == words["control"]
    assert sorted({Path(word).parents[3] for word in words.values()}) == built(tmp_path)
    assert len(built(tmp_path)) == 3
    assert "CONFIG_HZ_1000=y" in (Path(words["fast"]).parents[3] / ".config").read_text()
    assert capsys.readouterr().err.count("building the kernel of arm") == 3
    assert not [path for folder in built(tmp_path) for path in folder.rglob("*.o")], "nobody makes anything of them"
    stamps = [Path(word).stat().st_mtime_ns for word in words.values()]
    assert words_of(App(may_ask=False), file) == words
    assert [Path(word).stat().st_mtime_ns for word in words.values()] == stamps
    assert "building the kernel of arm" not in capsys.readouterr().err
    Path(words["fast"]).write_bytes(b"something else")
    assert words_of(App(may_ask=False), file) == words
    assert capsys.readouterr().err.count("building the kernel of arm") == 1
    assert Path(words["fast"]).read_bytes() == Path(words["control"]).read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert not set(words_of(App(may_ask=False), file).values()) & set(words.values()), "time is built in"


def test_sources_that_may_change_unseen_are_made_again(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trial(tree, fast=FAST)
    words = words_of(App(may_ask=False), file)
    assert words_of(App(may_ask=False), file) == words
    assert capsys.readouterr().err.count("building the kernel of arm") == 4
    assert (Path(words["fast"]).parents[3] / "init" / "main.o").is_file(), "make takes what has not changed"


def test_what_cannot_be_is_told_before_anything_is_built(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.patch"
    other.write_text(PATCH.replace("config 64BIT", "config 32BIT"))
    for arm, kind, told in (
        (KernelChange(set={"STUBBORN": "y"}), Refused, "arm bad: Kconfig rejected 1 of 1 symbols"),
        (
            KernelChange(set={"HZ_1001": "y"}),
            BadInput,
            "arm bad: unknown symbol of Linux 6.14.0 (--set): 'HZ_1001'",
        ),
        (KernelChange(patches=(str(other),)), Refused, "arm bad: other.patch"),
        (
            KernelChange(fragments=("hz-100", "hz-1000")),
            Contradiction,
            "arm bad: hz-100 wants HZ=100, but hz-1000 wants",
        ),
        (KernelChange(tree="/no/such"), BadInput, "arm bad: /no/such: no such file"),
    ):
        with pytest.raises(kind) as caught:
            words_of(App(may_ask=False), trial(archive, fast=FAST, bad=ArmFile(kernel=arm)))
        assert told in caught.value.message
    assert built(tmp_path) == []


def test_a_build_that_fails_leaves_those_before_it(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = trial(archive, broken=ArmFile(kernel=KernelChange(set={"BROKEN": "y"})))
    for left in (2, 1):
        with pytest.raises(KtrialError, match="the build failed: the headers of libelf are missing"):
            words_of(App(may_ask=False), file)
        assert f"building the kernel of arm broken, {left} of {left}" in capsys.readouterr().err
    assert len(built(tmp_path)) == 2


def test_words_are_arms_and_what_would_be_built_is_told(archive: Path, tmp_path: Path) -> None:
    patch = tmp_path / "mine.patch"
    patch.write_text(PATCH)
    words = ("trial", "--tree", str(archive), "--config", "tinyconfig", "--suite", "wakeups-busy")
    image = tmp_path / "vmlinuz-6.12"
    image.write_bytes(kernel_files.image())
    arms = ("--set", "HZ_1000=y HZ_250=n", "--patch", str(patch), "--boot", "nohz=off", str(image))
    ran = run(*words, *arms, "--dry-run")
    assert ran.status == 0, ran.err
    file = tomllib.loads(ran.out)
    assert file["guest"] == {"kernel": {"tree": str(archive), "fragments": []}}
    assert file["arms"] == {
        "control": {},
        "vmlinuz-6.12": {"kernel": str(image)},
        "HZ_1000-y-HZ_250-n": {"kernel": {"set": {"HZ_1000": "y", "HZ_250": "n"}}},
        "mine": {"kernel": {"patches": [str(patch)]}},
        "nohz-off": {"boot": ["nohz=off"]},
    }
    assert "control, nohz-off: Linux 6.14.0, to be built" in ran.err
    assert "mine: Linux 6.14.0, to be built" in ran.err
    assert f"vmlinuz-6.12: Linux 6.12.7-test, {image}" in ran.err
    assert built(tmp_path) == []


def test_tiers_of_a_ladder_are_built(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "fast.config").write_text("CONFIG_HZ_1000=y\n")
    (tmp_path / "same.config").write_text("CONFIG_HZ_250=y\n")
    tiers = [("T0", 'profile = "stock"'), ("T1", 'build = "faster"'), ("T2", 'build = "the same"')]
    files = ["", f'fragments = ["{tmp_path}/fast.config"]', f'fragments = ["{tmp_path}/same.config"]']
    parts = [
        f'[[tier]]\nname = "{name}"\nwhy = "w"\n{what}\n{more}\n'
        for (name, what), more in zip(tiers, files, strict=True)
    ]
    ladder = tmp_path / "mine.toml"
    ladder.write_text("\n".join(['name = "mine"\nsummary = "s"\n', *parts]))
    words = ("ladder", str(ladder), "--tree", str(archive), "--config", "tinyconfig", "--suite", "wakeups-busy")
    out, err = io.StringIO(), io.StringIO()
    assert main([*words, "--dry-run"], out, err) == 0, err.getvalue()
    arms = tomllib.loads(out.getvalue())["arms"]
    assert arms["T1"] == arms["T2"] == {"kernel": {"fragments": [f"{tmp_path}/fast.config"]}}
    assert "T1, T2: Linux 6.14.0, to be built" in err.getvalue()
    for more, told in (
        (("--kernel", "T1=./t1"), "cannot combine --kernel with --tree"),
        (("--patch", "T9=a.patch"), "unknown tier: 'T9'"),
    ):
        assert main([*words, *more], io.StringIO(), err) == 2
        assert told in err.getvalue()


def test_symbols_that_are_to_be_blamed_are_looked_at_in_every_combination(archive: Path, tmp_path: Path) -> None:
    words = ("blame", "--tree", str(archive), "--config", "tinyconfig", "--suite", "wakeups-busy", "--dry-run")

    def blamed(*more: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        return Ran(main([*words, *more], out, err), out.getvalue(), err.getvalue())

    shown = blamed("--set", "HZ_1000=y", "--set", "SLOW=y", "--set", "BROKEN=y")
    assert shown.status == 0, shown.err
    assert "8 kernels; ktrial builds 8 of them when it needs them" in shown.err
    assert "3 settings to test" in shown.err
    assert built(tmp_path) == []
    for more, status, told in (
        (("--set", "HZ_1000=y", "--set", "STUBBORN=y"), 4, "arm STUBBORN: Kconfig rejected 1 of 1 symbols"),
        (("--set", "HZ_1000=y", "--set", "HZ_250=y"), 2, "arms control and HZ_250 ask for different kernels"),
        (("--set", "HZ_1000=y"), 2, "only kconfig:HZ_1000=y changes anything here"),
        (("--set", "HZ_1000=y", "--kernel", "running"), 2, "cannot combine --kernel with --tree"),
    ):
        refused = blamed(*more)
        assert refused.status == status, refused.err
        assert told in " ".join(refused.err.split())


def test_ctrl_c_ends_a_build_and_the_same_command_goes_on(archive: Path, tmp_path: Path) -> None:
    words = ("--tree", str(archive), "--config", "tinyconfig", "--set", "SLOW=y", "--suite", "wakeups-busy")
    argv = [sys.executable, "-m", "ktrial", "kernel", "trial", *words]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        limit_s = time.monotonic() + 60
        while len(list(tmp_path.glob("XDG_CACHE_HOME/ktrial/kernels/built-*/told"))) < 2:
            assert time.monotonic() < limit_s
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "run the same command again to continue" in said
    ran = run("trial", *words, "--dry-run")
    assert f"control: Linux 6.14.0, {tmp_path}" in ran.err
    assert "SLOW-y: Linux 6.14.0, to be built" in ran.err


def test_a_target_is_an_arm_that_only_a_clock_can_judge(archive: Path) -> None:
    words = ("trial", "--tree", str(archive), "--common", "hz-100", "--target", "x86-64-v3", "--suite", "wakeups-busy")
    ran = run(*words, "--mode", "kvm", "--dry-run")
    assert ran.status == 0, ran.err
    file = tomllib.loads(ran.out)
    assert file["arms"] == {"control": {}, "x86-64-v3": {"kernel": {"target": "x86-64-v3"}}}
    assert "x86-64-v3: Linux 6.14.0, to be built" in ran.err
    exact = run(*words)
    assert exact.status == 4
    assert "cannot compare arms control and x86-64-v3 in exact guests" in exact.err
    assert "next: add --mode kvm" in exact.err
    unknown = run(*words[:6], "x86-64-v9", *words[7:], "--mode", "kvm", "--dry-run")
    assert (unknown.status, "arm x86-64-v9: " in unknown.err) == (2, True), unknown.err

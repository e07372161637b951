# SPDX-License-Identifier: Apache-2.0
"""What `ktrial kernel trial` and `--host` make of their words, before any guest is booted."""

from __future__ import annotations

import gzip
import io
import tomllib
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.support import kernels as kernel_files
from tests.support.tree import Ran


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(list(argv), out, err), out.getvalue(), err.getvalue())


@pytest.fixture
def kernels(tmp_path: Path) -> list[str]:
    """Three kernels: an image, a folder, and another one of the same name."""
    image = kernel_files.image()
    paths = [tmp_path / "linux-image-6.1.deb", tmp_path / "k" / "6.12", tmp_path / "l" / "6.12"]
    paths[0].write_bytes(kernel_files.package({"boot/vmlinuz-6.1": image}))
    for folder in paths[1:]:
        folder.mkdir(parents=True)
        (folder / "vmlinuz-6.12").write_bytes(image)
    return [str(paths[0]), f"{paths[1]}/vmlinuz-6.12", f"{paths[2]}/vmlinuz-6.12"]


def test_kernels_words_and_values_are_arms(kernels: list[str]) -> None:
    words = [*kernels, "sched:base_slice_ns=500000,3000000"]
    more = ["--boot", "preempt=full nohz=off", "--suite", "wakeups-busy", "--placebo", "--workloads", "2"]
    more += ["--budget", "quick"]
    shown = run("kernel", "trial", *words, *more, "--dry-run")
    assert shown.status == 0, shown.err
    assert f"ktrial: vmlinuz-6.12: Linux 6.12.7-test, {kernels[1]}\n" in shown.err
    file = tomllib.loads(shown.out)
    assert file["guest"] == {"kernel": kernels[0], "workloads": 2}
    arms = file["arms"]
    assert arms["control"] == {}
    assert arms["placebo"] == {"placebo": True}
    assert (arms["vmlinuz-6.12"], arms["vmlinuz-6.12-2"]) == ({"kernel": kernels[1]}, {"kernel": kernels[2]})
    assert arms["preempt-full-nohz-off"] == {"boot": ["preempt=full", "nohz=off"]}
    assert [arm["set"] for arm in arms.values() if "set" in arm] == [
        {"sched:base_slice_ns": "500000"},
        {"sched:base_slice_ns": "3000000"},
    ]


def test_algorithms_of_zram_are_tried_against_the_first_of_them(kernels: list[str]) -> None:
    zram = (
        "kernel",
        "trial",
        "--guest",
        kernels[1],
        "zram:comp_algorithm=lz4,zstd",
        "--suite",
        "pressure-small",
        "--dry-run",
    )
    shown = run(*zram)
    assert shown.status == 0, shown.err
    arms = tomllib.loads(shown.out)["arms"]
    assert [arm["set"]["zram:comp_algorithm"] for arm in arms.values()] == ["lz4", "zstd"]
    beside = run(*zram, "--boot", "nohz=off")
    assert (beside.status, "run a separate trial of the zram algorithms" in beside.err) == (2, True), beside.err


@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_a_kernel_that_does_not_exist_is_named_with_its_arm(kernels: list[str], tmp_path: Path, dry: list[str]) -> None:
    suite = ("--guest", "--suite", "wakeups-busy", *dry)
    missing = run("kernel", "trial", kernels[1], f"{tmp_path}/none", *suite)
    told = f"ktrial: arm none: {tmp_path}/none: no such file\n  next: check the path, or run `ktrial kernel list`"
    assert (missing.status, told in missing.err) == (2, True), missing.err
    unknown = run("kernel", "trial", "9.9.9-none", kernels[1], *suite)
    told = "ktrial: arm control: unknown installed kernel: '9.9.9-none'\n  next: "
    assert (unknown.status, told in unknown.err) == (2, True), unknown.err
    (tmp_path / "text").write_text("no kernel")
    wrong = run("kernel", "trial", kernels[1], f"{tmp_path}/text", *suite)
    assert (wrong.status, f"arm text: {tmp_path}/text: " in wrong.err, "next: " in wrong.err) == (2, True, True)


def test_exact_guests_refuse_kernels_of_two_compilers_before_the_trial(kernels: list[str]) -> None:
    other = kernel_files.kernel(banner=kernel_files.BANNER.replace(b"gcc-12", b"gcc-13"))
    Path(kernels[2]).write_bytes(kernel_files.bzimage(gzip.compress(other)))
    words = ("kernel", "trial", "--guest", *kernels[1:], "--dry-run")
    exact = run(*words, "--suite", "wakeups-busy")
    assert (exact.status, "they differ in their compilers" in exact.err) == (4, True), exact.err
    assert "next: add --mode kvm (in a protocol: mode = " in exact.err
    assert run(*words, "--mode", "kvm", "--suite", "wakeups-busy").status == 0


@pytest.mark.parametrize(
    "words, told",
    [
        (["kernel", "trial", "running", "--suite", "quick"], "nothing to compare"),
        (["kernel", "trial", "a", "b", "--guest", "--dry-run"], "the trial measures nothing"),
        (["kernel", "trial", "a", "b", "--suite", "quick", "--cpus", "2", "--dry-run"], "an exact guest has one CPU"),
        (["kernel", "trial", "--set", "A=y", "--suite", "quick"], "--set requires --tree"),
        (["kernel", "trial", "a", "--patch", "p", "--suite", "quick"], "--patch requires --tree"),
        (["kernel", "trial", "a", "--target", "native", "--suite", "quick"], "--target requires --tree"),
        (["kernel", "trial", "--common", "guest", "--suite", "quick"], "--common requires --tree"),
        (["kernel", "trial", "--tree", "l", "--set", "A", "--suite", "quick"], "--set A: expected SYMBOL=VALUE"),
        (
            ["kernel", "trial", "--tree", "/no/such", "--set", "A=y", "--suite", "wakeups-busy"],
            "/no/such: no such file",
        ),
        (["kernel", "trial", "a.toml", "b"], "cannot combine b with a protocol file"),
        (["kernel", "trial", "a.toml", "--budget", "9"], "cannot combine --budget with a protocol file"),
        (["kernel", "trial", "a.toml", "--yes", "--fail-on", "worse"], "a.toml: no such file"),
        (["kernel", "trial", "--guest", "/no/such", "/no/other", "--suite", "wakeups-busy"], "/no/such: "),
        (["--host", "usb:x", "facts"], "--host usb:x: not supported"),
        (["--host", "guest:", "facts"], "--host guest:: not supported"),
    ],
)
def test_what_cannot_be_done_is_told(words: list[str], told: str) -> None:
    shown = run(*words)
    assert shown.status == 2
    assert told in shown.err
    assert shown.out == ""


def test_without_guests_the_kernels_are_those_that_this_machine_boots() -> None:
    words = ("6.1.0-13-amd64", "running", "vm.swappiness=10", "--boot", "preempt=full")
    shown = run("kernel", "trial", *words, "--placebo", "--suite", "wakeups-busy", "--dry-run")
    assert shown.status == 0, shown.err
    file = tomllib.loads(shown.out)
    assert "guest" not in file
    arms = file["arms"]
    assert (arms["control"], arms["placebo"], arms["running"]) == ({"kernel": "6.1.0-13-amd64"}, {"placebo": True}, {})
    assert arms["preempt-full"] == {"boot": ["preempt=full"], "kernel": "6.1.0-13-amd64"}
    (tried,) = [arm for arm in arms.values() if "set" in arm]
    assert tried == {"set": {"vm.swappiness": "10"}, "kernel": "6.1.0-13-amd64"}
    idle = run("kernel", "trial", "running", "vm.swappiness=10", "--suite", "wakeups-busy")
    assert (idle.status, "no arm changes the kernel or its arguments" in idle.err) == (2, True), idle.err


def test_a_protocol_without_guests_is_for_another_verb(tmp_path: Path) -> None:
    file = tmp_path / "trial.toml"
    file.write_text('name = "t"\nsuite = "quick"\n[arms.control]\n[arms.placebo]\nplacebo = true\n')
    shown = run("kernel", "trial", str(file))
    assert (shown.status, shown.out) == (2, "")
    assert "no [guest] table" in shown.err


def test_over_boots_a_program_of_the_users_own_is_measured() -> None:
    mine = run("kernel", "trial", "running", "--boot", "nohz=off", "--dry-run", "--", "true", "--long")
    assert (mine.status, 'command = ["true", "--long"]' in mine.out) == (0, True), mine.err
    twice = run("kernel", "trial", "kernels.toml", "--", "true")
    assert (twice.status, "cannot combine kernels.toml with a command" in twice.err) == (2, True), twice.err

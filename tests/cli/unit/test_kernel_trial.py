# SPDX-License-Identifier: Apache-2.0
"""What `ktrial kernel trial` and `--host` make of their words, before any guest is booted."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.support.tree import Ran


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(list(argv), out, err), out.getvalue(), err.getvalue())


def test_kernels_words_and_values_are_arms() -> None:
    words = ["/k/linux-image-6.1.deb", "/k/6.12/", "/l/6.12", "sched:base_slice_ns=500000,3000000"]
    more = ["--boot", "preempt=full nohz=off", "--suite", "wakeups-busy", "--placebo", "--workloads", "2", "--cap", "9"]
    shown = run("kernel", "trial", *words, *more, "--dry-run")
    assert (shown.status, shown.err) == (0, "")
    file = tomllib.loads(shown.out)
    assert file["guest"] == {"kernel": "/k/linux-image-6.1.deb", "workloads": 2}
    arms = file["arms"]
    assert arms["control"] == {}
    assert arms["placebo"] == {"placebo": True}
    assert (arms["6.12"], arms["6.12-2"]) == ({"kernel": "/k/6.12/"}, {"kernel": "/l/6.12"})
    assert arms["preempt-full-nohz-off"] == {"boot": ["preempt=full", "nohz=off"]}
    assert [arm["set"] for arm in arms.values() if "set" in arm] == [
        {"sched:base_slice_ns": "500000"},
        {"sched:base_slice_ns": "3000000"},
    ]


def test_algorithms_of_zram_are_tried_against_the_first_of_them() -> None:
    zram = ("kernel", "trial", "/k/6.12", "zram:comp_algorithm=lz4,zstd", "--suite", "pressure-small", "--dry-run")
    shown = run(*zram)
    assert (shown.status, shown.err) == (0, "")
    arms = tomllib.loads(shown.out)["arms"]
    assert [arm["set"]["zram:comp_algorithm"] for arm in arms.values()] == ["lz4", "zstd"]
    beside = run(*zram, "--boot", "nohz=off")
    assert (beside.status, "run a separate trial of the zram algorithms" in beside.err) == (2, True), beside.err


@pytest.mark.parametrize(
    "words, told",
    [
        (["kernel", "trial", "running", "--suite", "quick"], "nothing to compare"),
        (["kernel", "trial", "a", "b", "--dry-run"], "nothing is measured"),
        (["kernel", "trial", "a", "b", "--suite", "quick", "--cpus", "2", "--dry-run"], "an exact guest has one CPU"),
        (["kernel", "trial", "--set", "A=y", "--suite", "quick"], "--set requires --tree"),
        (["kernel", "trial", "a", "--patch", "p", "--suite", "quick"], "--patch requires --tree"),
        (["kernel", "trial", "--common", "guest", "--suite", "quick"], "--common requires --tree"),
        (["kernel", "trial", "--tree", "l", "--set", "A", "--suite", "quick"], "--set A: expected SYMBOL=VALUE"),
        (
            ["kernel", "trial", "--tree", "/no/such", "--set", "A=y", "--suite", "wakeups-busy"],
            "/no/such: no such file",
        ),
        (["kernel", "trial", "a.toml", "b"], "cannot combine b with a protocol file"),
        (["kernel", "trial", "/no/such", "/no/other", "--suite", "wakeups-busy"], "/no/such: "),
        (["--host", "ssh:x", "facts"], "--host ssh:x: not supported"),
        (["--host", "guest:", "facts"], "--host guest:: not supported"),
    ],
)
def test_what_cannot_be_done_is_told(words: list[str], told: str) -> None:
    shown = run(*words)
    assert shown.status == 2
    assert told in shown.err
    assert shown.out == ""


def test_a_protocol_without_guests_is_for_another_verb(tmp_path: Path) -> None:
    file = tmp_path / "trial.toml"
    file.write_text('name = "t"\nsuite = "quick"\n[arms.control]\n[arms.placebo]\nplacebo = true\n')
    shown = run("kernel", "trial", str(file))
    assert (shown.status, shown.out) == (2, "")
    assert "no [guest] table" in shown.err

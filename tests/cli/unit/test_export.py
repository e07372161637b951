# SPDX-License-Identifier: Apache-2.0
"""`ktrial export`: from trials, transactions and profiles to files, with the reasons for each setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.unit.test_keep import with_trial
from tests.support.tree import FakeRoot


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return FakeRoot(tmp_path / "root")


@pytest.fixture
def tried(machine: FakeRoot) -> FakeRoot:
    """A machine with the trial of four values."""
    return with_trial(machine)


def test_an_arm_is_exported_with_its_verdict(tried: FakeRoot) -> None:
    ran = tried.run("export", "swappiness/sw10", "--to", "sysctl.d")
    assert (ran.status, ran.err) == (0, "")
    setting, reason, line = ran.out.splitlines()[2:]
    assert (setting, line) == ("# vm.swappiness = 10", "vm.swappiness = 10")
    assert reason.startswith("#   better: tool.rate (memory-pressure) +")
    assert "98.3 % interval +" in reason
    assert "trial swappiness-abcdef/sw10, 2023-11-14" in reason


def test_a_value_has_the_verdict_of_the_trial_that_it_was_tested_in(tried: FakeRoot) -> None:
    assert "worse: tool.rate" in tried.run("export", "vm.swappiness=180", "--to", "sysctl.d").out
    told = tried.run("export", "vm.swappiness=11", "--to", "sysctl.d").out
    assert "#   not tested on this machine\n" in told


def test_what_a_trial_does_not_decide_is_left_out_and_said(tried: FakeRoot) -> None:
    ran = tried.run("export", "swappiness/sw60", "--to", "sysctl.d")
    assert "vm.swappiness = 60\n" in ran.out
    assert ran.err == (
        "ktrial: left out vm.page-cluster: it was in force before the trial, so the trial says nothing about it\n"
    )


@pytest.mark.parametrize(
    "words, message, step",
    [
        (("swappiness/sw11",), "unknown arm of swappiness-abcdef: 'sw11'", "did you mean sw10?"),
        (("swappiness/control",), "unknown arm of swappiness-abcdef: 'control'", "use one of: "),
        (("vm.swappiness",), "vm.swappiness is a knob and needs a value", "write vm.swappiness=VALUE"),
        (("vm.swappiness=10", "vm.swappiness=20"), "vm.swappiness is set twice: 10 and 20", "remove one of them"),
        ((), "nothing to export", "name a profile, a trial"),
        (("thp:enabled=madvise",), "cannot export thp:enabled=madvise", "add --to tmpfiles.d"),
    ],
)
def test_bad_words(tried: FakeRoot, words: tuple[str, ...], message: str, step: str) -> None:
    ran = tried.run("export", *words, "--to", "sysctl.d")
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert f"  next: {step}" in ran.err


def test_files_are_written_below_a_folder_and_others_are_left_alone(machine: FakeRoot, tmp_path: Path) -> None:
    words = ("export", "vm.swappiness=10", "--to", "sysctl.d", "--name", "mine", "-o", str(tmp_path / "out"))
    ran = machine.run(*words)
    file = tmp_path / "out/etc/sysctl.d/90-ktrial-mine.conf"
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.splitlines() == [
        f"ktrial: {tmp_path / 'out'}: 1 file",
        "ktrial: sysctl.d: copy it to /etc/sysctl.d and run `sysctl --system`",
    ]
    text = file.read_text()
    assert machine.run(*words).status == 0
    file.write_text("edited by hand\n")
    ran = machine.run(*words)
    assert ran.status == 2
    assert "file exists with other content" in ran.err
    assert file.read_text() == "edited by hand\n"
    assert machine.run(*words, "--force").status == 0
    assert file.read_text() == text


def test_conditions_and_computed_values_are_those_of_this_machine(machine: FakeRoot) -> None:
    machine.write("/proc/meminfo", "MemTotal:        8388608 kB\nMemAvailable:   4000000 kB\n")
    words = ("--to", "sysctl.d", "--to", "zram-generator")
    ran = machine.run("export", "micro-stutter-watermarks", *words)
    assert ran.status == 0, ran.err
    assert "left out vm.min_free_kbytes: " in ran.err
    assert "vm.watermark_scale_factor = 500\n" in ran.out
    assert "zram-size = 4096\n" in machine.run("export", "arashi-t3a", *words, "--to", "systemd-unit").out


def test_json_has_settings_files_and_what_was_left_out(machine: FakeRoot) -> None:
    ran = machine.run(
        "export", "vm.swappiness=10", "queue:scheduler@[rotational=true]=bfq", "--to", "ansible", "--json"
    )
    assert ran.json["schema"] == "ktrial.export/1"
    assert [one["address"] for one in ran.json["settings"]] == ["vm.swappiness", "queue:scheduler@[rotational=true]"]
    assert {one["target"] for one in ran.json["files"]} == {"ansible"}
    assert ran.json["left_out"] == []
    listed = machine.run("export", "--list", "--json").json["targets"]
    assert next(one for one in listed if one["target"] == "udev")["forms"]["device"] is True

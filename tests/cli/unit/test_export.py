# SPDX-License-Identifier: Apache-2.0
"""`ktrial export`: from trials, transactions and profiles to files, with the reasons for each setting."""

from __future__ import annotations

import zipfile
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
        (("queue:scheduler",), "queue:scheduler is a knob and needs a value", "write queue:scheduler@NAME=VALUE"),
        (("queue:scheduler@sda",), "queue:scheduler@sda is a knob", "write queue:scheduler@sda=VALUE"),
        (("vm.swappiness=10", "vm.swappiness=20"), "vm.swappiness is set twice: 10 and 20", "remove one of the two"),
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
        "ktrial: sysctl.d: copy the file to /etc/sysctl.d and run `sysctl --system`",
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


def test_a_module_for_phones_is_one_zip(machine: FakeRoot, tmp_path: Path) -> None:
    place = tmp_path / "module.zip"
    words = ("export", "ktweak", "--to", "magisk", "-o", str(place))
    ran = machine.run(*words)
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.splitlines()[0] == f"ktrial: {place}: 10 files"
    with zipfile.ZipFile(place) as archive:
        assert archive.testzip() is None
        modes = {one.filename: one.external_attr >> 16 & 0o777 for one in archive.infolist()}
        settings = archive.read("settings.sh").decode()
    assert modes["service.sh"] == modes["META-INF/com/google/android/update-binary"] == 0o755
    assert modes["module.prop"] == 0o644
    assert settings.count("    setting ") == 42
    assert settings.count("#   not tested on this phone\n") == 42
    assert "#   profile ktweak: Keeps tasks on the fast cluster" in settings
    assert "#   ktweak, claimed: With 80 80, tasks move up only above 80 %. (The script at the time" in settings
    assert "#   ktweak, refuted: The script sets 35, which the source treats as percent. (The unit is" in settings
    first = place.read_bytes()
    assert machine.run(*words).status == 0
    assert place.read_bytes() == first
    place.write_bytes(b"mine")
    ran = machine.run(*words)
    assert (ran.status, place.read_bytes()) == (2, b"mine")
    assert "file exists with other content" in ran.err
    assert machine.run(*words, "--force").status == 0
    place.unlink()
    place.mkdir()
    assert "module.zip: expected a file, got a folder" in machine.run(*words, "--force").err


def test_a_verdict_of_this_machine_is_not_one_of_the_phone(tried: FakeRoot) -> None:
    text = tried.run("export", "swappiness/sw10", "--to", "kernelsu").out
    assert "#   better: tool.rate" in text
    assert "#   not tested on this phone\n" in text
    assert "worse:" not in tried.run("export", "vm.swappiness=180", "--to", "kernelsu").out


@pytest.mark.parametrize(
    "words, message",
    [
        (("vm.swappiness=1", "--to", "magisk", "--to", "sysctl.d"), "cannot be combined with other targets"),
        (("stock", "--to", "apatch"), "its values are those of this machine"),
        (("vm.swappiness=1", "--to", "sysctl.d", "-o", "x.zip"), "sysctl.d writes files, not a zip"),
        (("vm.swappiness=1,5", "--to", "magisk"), "vm.swappiness=1,5: not a whole number"),
        (("zram:disksize=1GiB", "--to", "magisk"), "magisk cannot set zram devices"),
    ],
)
def test_what_makes_no_module(machine: FakeRoot, words: tuple[str, ...], message: str) -> None:
    ran = machine.run("export", *words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert "  next: " in ran.err


def test_a_profile_that_was_edited_on_windows_makes_a_module_with_unix_line_ends(
    machine: FakeRoot, tmp_path: Path
) -> None:
    text = 'name = "mine"\nsummary = "mine"\n\n[[setting]]\nknob = "vm.swappiness"\nvalue = 100\nwhy = "faster"\n'
    (tmp_path / "mine.toml").write_bytes(text.replace("\n", "\r\n").encode())
    ran = machine.run("export", str(tmp_path / "mine.toml"), "--to", "kernelsu", "-o", str(tmp_path / "out"))
    assert ran.status == 0, ran.err
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"\r" not in path.read_bytes()
    assert "'vm.swappiness' 'same' 'value' '100'" in (tmp_path / "out/settings.sh").read_text()


def test_the_log_of_a_phone_is_verified(machine: FakeRoot, tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = "accepted\tvm.swappiness\t/proc/sys/vm/swappiness\twanted 100\twas 60\tis 100\n"
    log.write_text(f"ktrial-module-log/1\tktrial-a\t0.1.0-12\n{line}end\tlate\n")
    assert machine.run("verify", str(log)).status == 0
    log.write_text(log.read_text().replace("accepted", "ignored"))
    ran = machine.run("verify", str(log), "--json")
    assert (ran.status, ran.json["schema"]) == (3, "ktrial.module-log/1")
    assert ran.json["boots"][0]["settings"][0]["outcome"] == "ignored"
    log.write_text("something else\n")
    assert "not the log of a phone module" in machine.run("verify", str(log)).err
    ran = machine.run("verify", str(tmp_path / "missing"))
    assert (ran.status, "neither a transaction nor a file" in ran.err) == (2, True)

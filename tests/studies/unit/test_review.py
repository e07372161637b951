# SPDX-License-Identifier: Apache-2.0
"""Each line of a list of tweaks gets its state on the machine, and the command that would try it works as it stands."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from ktrial.kit.errors import BadInput
from ktrial.studies.review.review import review
from ktrial.studies.review.text import review_text
from ktrial.tuning.catalog.loader import load_catalog
from tests.support.machine import FakeMachine
from tests.support.tree import FILES, FakeRoot

LIST = """\
Some people swear by these:
vm.swappiness=10
vm.vfs_cache_pressure=100
vm.page-cluster = 3
vm.page-cluster = 0
kernel.sched_latency_ns=1000000
echo never > /sys/kernel/mm/transparent_hugepage/enabled
echo none > /sys/block/sda/queue/scheduler
vm.dirty_ratio=500
net.ipv4.tcp_low_latency=1
kernel.made_up=1
fs.known_here=7
GRUB_CMDLINE_LINUX_DEFAULT="quiet mitigations=off threadirqs nowatchdog unheard.of"
kernel.randomize_va_space=0
look at vm.stat_interval some day
"""
STATES = {
    "vm.swappiness=10": (2, "would change", "60"),
    "vm.vfs_cache_pressure=100": (3, "already set", "100"),
    "vm.page-cluster=3": (4, "set again", None),
    "vm.page-cluster=0": (5, "would change", "3"),
    "sched:latency_ns=1000000": (6, "gone", None),
    "thp:enabled=never": (7, "not here", None),
    "queue:scheduler@sda=none": (8, "not offered", None),
    "vm.dirty_ratio=500": (9, "invalid", None),
    "net.ipv4.tcp_low_latency=1": (10, "gone", None),
    "kernel.made_up=1": (11, "not here", None),
    "fs.known_here=7": (12, "unknown", "5"),
    "boot:mitigations=off": (13, "next boot", None),
    "boot:threadirqs=on": (13, "already set", "on"),
    "boot:nowatchdog=on": (13, "next boot", None),
    "kernel.randomize_va_space=0": (14, "would change", "2"),
}


@pytest.fixture
def machine(root: FakeRoot) -> FakeRoot:
    root.write("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/vda1 threadirqs\n")
    root.write("/sys/block/sda/queue/scheduler", "[mq-deadline] bfq\n")
    root.write("/sys/block/sda/queue/rotational", "0\n")
    root.write("/proc/sys/fs/known_here", "5\n")
    root.write("/proc/sys/kernel/randomize_va_space", "2\n")
    return root


def reviewed(machine: FakeRoot, text: str, tmp_path: Path, *words: str, name: str = "list.md") -> Any:
    (tmp_path / name).write_text(text, encoding="utf-8")
    ran = machine.run("review", str(tmp_path / name), "--json", *words)
    assert ran.status == 0, ran.err
    return ran.json


def test_every_line_has_its_state(machine: FakeRoot, tmp_path: Path) -> None:
    found = reviewed(machine, LIST, tmp_path)
    states = {line["setting"]: (line["line"], line["state"], line["now"]) for line in found["lines"]}
    assert {name: state for name, state in states.items() if name in STATES} == STATES
    assert found["ignored"] == [1]
    (unread,) = [line for line in found["lines"] if line["setting"] is None]
    assert (unread["line"], unread["state"]) == (15, "not understood")
    assert all(
        line["why"] for line in found["lines"] if line["state"] not in {"would change", "next boot", "already set"}
    )


def test_dangers_are_named_and_stay_out_of_the_profile(machine: FakeRoot, tmp_path: Path) -> None:
    output = tmp_path / "rest.toml"
    found = reviewed(machine, LIST, tmp_path, "-o", str(output))
    lines = {line["setting"]: line for line in found["lines"]}
    assert {name for name, line in lines.items() if line["dangerous"]} == set(found["left_out"])
    assert "boot:mitigations=off" in found["left_out"]
    assert "other programs' memory" in lines["boot:mitigations=off"]["security"]
    rest = [setting["knob"] for setting in tomllib.loads(output.read_text())["setting"]]
    assert {"vm.swappiness", "vm.page-cluster", "boot:nowatchdog"} <= set(rest)
    assert not {"boot:mitigations", "vm.vfs_cache_pressure", "thp:enabled"} & set(rest)
    planned = machine.run("plan", str(output), "--json")
    assert {step["path"] for step in planned.json["plan"]["steps"]} >= {"/proc/sys/vm/swappiness"}
    shown = machine.run("try", str(output), "--dry-run", "--suite", "quick").out
    assert '"vm.swappiness" = "10"' in shown
    assert 'boot = ["nowatchdog"]' in shown


def test_the_commands_can_be_typed(machine: FakeRoot, tmp_path: Path) -> None:
    found = reviewed(machine, LIST, tmp_path)
    commands = [shlex.split(line["next"]) for line in found["lines"] if line["next"] is not None]
    assert sum(words[1] == "try" for words in commands) >= 5
    for program, *words in commands:
        ran = machine.run(*words, *(["--dry-run"] if words[0] == "try" else []))
        assert (program, ran.status) == ("ktrial", 0), f"{words}: {ran.err}"


def test_of_two_that_exclude_each_other_the_later_one_remains(machine: FakeRoot, tmp_path: Path) -> None:
    output = tmp_path / "rest.toml"
    text = "vm.dirty_bytes=268435456\nvm.dirty_ratio=10\nvm.dirty_background_bytes=0\nvm.dirty_background_ratio=5\n"
    found = reviewed(machine, text, tmp_path, "-o", str(output))
    states = {line["setting"]: line["state"] for line in found["lines"]}
    assert states == {
        "vm.dirty_bytes=268435456": "set again",
        "vm.dirty_ratio=10": "would change",
        "vm.dirty_background_bytes=0": "already set",
        "vm.dirty_background_ratio=5": "would change",
    }
    assert "line 2 sets vm.dirty_ratio" in found["lines"][0]["why"]
    assert machine.run("plan", str(output)).status == 0


def test_rules_for_different_devices_are_not_the_same_setting(machine: FakeRoot, tmp_path: Path) -> None:
    rule = 'ACTION=="add|change", KERNEL=="sd[a-z]", ATTR{{queue/rotational}}=="{}", ATTR{{queue/scheduler}}="{}"'
    text = f"{rule.format(0, 'mq-deadline')}\n{rule.format(1, 'bfq')}\n"
    found = reviewed(machine, text, tmp_path, name="60-disk.rules")
    assert [line["state"] for line in found["lines"]] == ["already set", "not here"]


def test_an_existing_file_and_an_empty_rest_are_refused(machine: FakeRoot, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("vm.swappiness=60\n")
    output = tmp_path / "rest.toml"
    ran = machine.run("review", str(tmp_path / "list"), "-o", str(output))
    assert (ran.status, output.exists()) == (2, False)
    assert "already set" in ran.out
    assert "no setting in it would change this machine" in ran.err
    output.write_text("mine")
    ran = machine.run("review", str(tmp_path / "list"), "-o", str(output))
    assert (ran.status, output.read_text()) == (2, "mine")


def test_nothing_of_a_list_is_run(machine: FakeRoot, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    text = (
        f"#!/bin/sh\ntouch {trap}\nsysctl -w vm.swappiness=$(touch {trap}; echo 10)\n"
        f"X=`touch {trap}`\necho 1 > /proc/sys/vm/page-cluster; eval 'touch {trap}'\n"
    )
    before = machine.values()
    found = reviewed(machine, text, tmp_path, name="list.sh")
    assert "vm.page-cluster=1" in {line["setting"] for line in found["lines"]}
    assert (trap.exists(), machine.values()) == (False, before)


@pytest.mark.parametrize(
    "data", [b"I like fast computers, and I reboot once a week.\n" * 40, bytes(range(256)) * 64, b""]
)
def test_a_text_without_settings_is_refused(machine: FakeRoot, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "list").write_bytes(data)
    ran = machine.run("review", str(tmp_path / "list"))
    assert (ran.status, ran.out) == (2, "")
    assert "contains no readable setting" in ran.err
    assert "next: " in ran.err
    assert len(ran.err) < 1000


def test_a_list_of_two_thousand_lines(machine: FakeRoot, tmp_path: Path) -> None:
    text = "".join(f"net.ipv4.made_up_{number}={number}\nvm.swappiness={number % 100}\n" for number in range(1000))
    found = reviewed(machine, text, tmp_path)
    assert len(found["lines"]) == 2000
    assert [line["setting"] for line in found["lines"] if line["state"] == "would change"] == ["vm.swappiness=99"]


def test_the_table_fits_eighty_columns(machine: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "list.md").write_text(LIST)
    ran = machine.run("review", str(tmp_path / "list.md"))
    long = [line for line in ran.out.splitlines() if len(line) > 80]
    assert [line for line in long if "ktrial " not in line] == []  # a command to copy stays on its line
    assert "\x1b" not in ran.out


CATALOG = load_catalog()
SCRAPS = (
    *(
        *LIST.splitlines(),
        "```",
        "<pre>",
        "<td>",
        "|",
        "`",
        "=",
        " ",
        "\n",
        "\n",
        "\0",
        "\x1b[2J",
        '"',
        "@*",
        "[",
        "9" * 30,
    ),
    *("/sys/block/*/queue/nr_requests", "zram0", "sysctl -w ", "$(", "for i in 1 2; do ", "vm.", "%", "options a b=1"),
)


@hypothesis.given(strategies.lists(strategies.sampled_from(SCRAPS), max_size=12).map("".join))
def test_whatever_a_list_holds_it_is_reviewed_or_refused(text: str) -> None:
    machine = FakeMachine(FILES, {"kernel.release": "6.12.1", "kernel.command_line": "quiet threadirqs"})
    try:
        found = review(text.encode(), "-", machine, CATALOG, lambda knob: (), user=machine)
    except BadInput as error:
        assert error.hint
        return
    shown = review_text(found, width=80)
    assert all(character.isprintable() for character in shown.replace("\n", ""))
    assert len(found.lines) >= len(found.remaining) + len(found.left_out)
    assert machine.requests == []

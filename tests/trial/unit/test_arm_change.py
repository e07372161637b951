# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kit.errors import BadInput
from ktrial.trial.protocol.file import trial_text
from ktrial.trial.protocol.read import parse_trial_file

HEAD = 'name = "t"\nsuite = "wakeup"\n[arms.control]\n[arms.case]\n'


def test_commands_and_a_service_are_read_and_written_again() -> None:
    words = """
service = { name = "getty@tty1.service", state = "stopped" }
[[arms.case.commands]]
run = ["touch", "a \\"b\\""]
undo = ["rm", "a"]
[[arms.case.commands]]
run = ["x"]
undo = ["y"]
check = ["z"]
"""
    trial = parse_trial_file((HEAD + words).encode(), "t.toml")
    case = trial.arms["case"]
    assert [(one.run, one.undo, one.check) for one in case.commands] == [
        (("touch", 'a "b"'), ("rm", "a"), ()),
        (("x",), ("y",), ("z",)),
    ]
    assert case.service is not None
    assert (case.service.name, case.service.state) == ("getty@tty1.service", "stopped")
    assert parse_trial_file(trial_text(trial).encode(), "t.toml") == trial


@pytest.mark.parametrize(
    "words, why",
    [
        ('commands = [{ run = ["x"], undo = [] }]', "arm case: a command lacks `undo`"),
        ('commands = [{ run = [""], undo = ["x"] }]', "arm case: a command lacks `run`"),
        ('commands = [{ run = ["x"] }]', "undo"),
        ('commands = [{ run = "x y", undo = ["x"] }]', "run"),
        ('commands = [{ run = ["x"], undo = ["x"], check = [""] }]', "a check lacks a program"),
        ('commands = [{ run = ["x"], undo = ["x"], shell = true }]', "shell"),
        ('service = { name = "--root=/x.service", state = "stopped" }', "is not the name of a service"),
        ('service = { name = "irqbalance", state = "stopped" }', "is not the name of a service"),
        ('service = { name = "a.service; rm", state = "stopped" }', "is not the name of a service"),
        ('service = { name = "a.service", state = "masked" }', "masked"),
        ("sched_ext = { run = [] }", "sched_ext lacks a program"),
        ('sched_ext = { run = ["scx_"] }', "sched_ext lacks a program"),
        ('placebo = true\nservice = { name = "a.service", state = "stopped" }', "a placebo cannot change anything"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(words: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_trial_file((HEAD + words).encode(), "t.toml")

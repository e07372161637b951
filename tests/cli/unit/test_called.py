# SPDX-License-Identifier: Apache-2.0
"""Commands in ktrial's text are spelled as the user called it, where that is known and a person reads."""

from __future__ import annotations

import io
import os

import pytest

from ktrial.cli.called import as_called, take_called
from ktrial.cli.main import main

VERBS = ("why", "revert", "watch", "kernel")


@pytest.mark.parametrize(
    "called,text,spelled",
    [
        ("./ktrial", "run `ktrial why vm.x`, or ktrial --host x", "run `./ktrial why vm.x`, or ./ktrial --host x"),
        ("ktrial", "use `sudo ./ktrial …` or sudo ./ktrial revert", "use `sudo ktrial …` or sudo ktrial revert"),
        ("../k/ktrial", "./ktrial kernel build; ktrial revert", "../k/ktrial kernel build; ../k/ktrial revert"),
        # No command: prose, paths, other names.
        ("./ktrial", "ktrial watches; reinstall ktrial", "ktrial watches; reinstall ktrial"),
        ("./ktrial", "/usr/bin/ktrial why; /var/lib/ktrial", "/usr/bin/ktrial why; /var/lib/ktrial"),
        ("ktrial", "/opt/./ktrial; ../ktrial why; ./ktrial-agent", "/opt/./ktrial; ../ktrial why; ./ktrial-agent"),
    ],
)
def test_a_command_is_spelled_as_it_was_called(called: str, text: str, spelled: str) -> None:
    spell = as_called(called, VERBS)
    assert spell(text) == spelled
    assert spell(spelled) == spelled


def test_what_a_launcher_says_is_taken_once_and_hidden_from_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTRIAL_CALLED", "/opt/x/ktrial")
    assert take_called() == "/opt/x/ktrial"
    assert "KTRIAL_CALLED" not in os.environ
    assert take_called() is None, "a checkout without its launcher"
    monkeypatch.setenv("KTRIAL_CALLED", "rm -rf /")
    assert take_called() is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_reads_the_own_call_and_a_file_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for err, told in ((Terminal(), "`./ktrial --help"), (io.StringIO(), "`ktrial --help")):
        monkeypatch.setenv("KTRIAL_CALLED", "./ktrial")
        assert main(["no-such-verb-at-all"], io.StringIO(), err) == 2
        assert told in err.getvalue()


def test_an_installed_ktrial_names_no_checkout_also_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTRIAL_CALLED", "ktrial")
    out = io.StringIO()
    assert main(["apply", "--help"], out, io.StringIO()) == 0
    assert "sudo ktrial apply vm.swappiness=10" in out.getvalue()
    assert "./ktrial" not in out.getvalue()

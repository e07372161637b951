# SPDX-License-Identifier: Apache-2.0
"""Commands in ktrial's text are spelled as the user called it, where that is known and a person reads."""

from __future__ import annotations

import io
import os

import pytest

from ktrial.cli.called import as_called, on_host, take_called
from ktrial.cli.main import main
from ktrial.cli.options import write_text
from ktrial.kit.streams import plain_stream

VERBS = ("why", "revert", "watch", "kernel", "trial")


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


@pytest.mark.parametrize(
    "text, spelled",
    [
        ("undo with `ktrial revert`; ./ktrial why vm.x", "undo with `ktrial -H revert`; ./ktrial -H why vm.x"),
        ("`ktrial trial resume a`; `ktrial trial report a`", "`ktrial -H trial resume a`; `ktrial trial report a`"),
        ("ktrial --host ssh:web1 revert", "ktrial --host ssh:web1 revert"),
        ("ktrial kernel list; ktrial watches", "ktrial kernel list; ktrial watches"),
    ],
)
def test_a_command_for_another_machine_names_it(text: str, spelled: str) -> None:
    spell = on_host("ssh:web1", VERBS)
    assert spell(text) == spelled.replace("-H", "--host ssh:web1")
    assert spell(spell(text)) == spell(text)


def test_the_own_text_of_a_command_with_a_host_names_the_host() -> None:
    for words in (["--host", "ssh:web1"], ["--no-sudo", "--host=ssh:web1"]):
        out, err = io.StringIO(), io.StringIO()
        assert main([*words, "apply", "--json", "--nope"], out, err) == 2
        assert "ktrial --host ssh:web1 " in err.getvalue(), err.getvalue()
        assert "ktrial --host ssh:web1 " in out.getvalue()


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


def test_an_answer_with_colours_is_spelled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    monkeypatch.setattr("sys.stdout", plain_stream(out, as_called("./ktrial", VERBS)))
    write_text("try `ktrial why vm.x`\n")
    assert out.getvalue() == "try `./ktrial why vm.x`\n"


def test_an_installed_ktrial_names_no_checkout_also_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTRIAL_CALLED", "ktrial")
    out = io.StringIO()
    assert main(["apply", "--help"], out, io.StringIO()) == 0
    assert "sudo ktrial apply vm.swappiness=10" in out.getvalue()
    assert "./ktrial" not in out.getvalue()

# SPDX-License-Identifier: Apache-2.0
"""The program that connects, and the password for sudo there: both come from the environment if it names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktrial.agent.ssh import SshWay, ssh_words
from ktrial.cli.app_ssh import given_password
from ktrial.kit.errors import BadInput


def test_options_of_ktrial_follow_those_of_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "my ssh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("KTRIAL_SSH", f"'{program}' -F 'a file' -o Port=22")
    argv = SshWay("web1").argv("true")
    assert argv[:6] == [str(program), "-F", "a file", "-o", "Port=22", "-T"]
    assert argv[-3:] == ["--", "web1", "exec /bin/sh -c 'true'"]


@pytest.mark.parametrize(
    "given, why",
    [
        ("", "names no program"),
        ("'ssh", "no closing quotation"),
        ("no-such-ssh -v", "cannot find an executable no-such-ssh"),
    ],
)
def test_a_variable_that_names_no_program(monkeypatch: pytest.MonkeyPatch, given: str, why: str) -> None:
    monkeypatch.setenv("KTRIAL_SSH", given)
    with pytest.raises(BadInput, match=why) as failure:
        ssh_words()
    assert failure.value.hint is not None


def password_of(monkeypatch: pytest.MonkeyPatch, content: bytes) -> str | None:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    monkeypatch.setenv("KTRIAL_PASSWORD_FD", str(reading))
    given_password.cache_clear()
    try:
        found = given_password()
        # It is read once: the file is closed, and a second question gets the same answer.
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(reading)
        assert given_password() == found
        return found
    finally:
        given_password.cache_clear()


@pytest.mark.parametrize("content", [b"pass word", b"pass word\n"])
def test_a_password_is_one_line(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    assert password_of(monkeypatch, content) == "pass word"


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"x" * 5000, b"\xff"])
def test_what_is_no_password(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    with pytest.raises(BadInput, match="KTRIAL_PASSWORD_FD") as failure:
        password_of(monkeypatch, content)
    assert "xff" not in failure.value.message


@pytest.mark.parametrize("number", ["", "x", "-1", "99999"])
def test_a_number_that_names_no_open_file(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    monkeypatch.setenv("KTRIAL_PASSWORD_FD", number)
    given_password.cache_clear()
    with pytest.raises(BadInput, match="cannot read the password"):
        given_password()

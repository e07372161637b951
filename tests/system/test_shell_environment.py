# SPDX-License-Identifier: Apache-2.0
"""Commands of the user's get the shell's environment, and no value of it that may be secret is kept anywhere."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import zstandard

from tests.support.terminal import KTRIAL
from tests.support.tree import Ran

#: In no file and no output, in none of its forms.
SECRET = "hunter2-tr0ub4dor"
TOLD = ("sh", "-c", 'echo "number: ${NUMBER:-7}"')
NUMBER = ("--metric", "number_ms:lower=number: ([0-9]+)")


class Shell:
    """A shell with a home of its own and these variables."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.variables: dict[str, str] = {}

    def run(self, *argv: str, **more: str) -> Ran:
        """One command."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "COLUMNS": "100", **self.variables, **more}
        ran = subprocess.run(
            [*KTRIAL, *argv], env=environment, cwd=self.home, capture_output=True, text=True, check=False, timeout=120
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def bench(shell: Shell, label: str, *words: str, **variables: str) -> Ran:
    output = ("--fresh", "-o", f"{label}.json")
    ran = shell.run("bench", "-n", "1", "--label", label, *output, *NUMBER, *words, "--", *TOLD, **variables)
    assert ran.status == 0, ran.err
    return ran


def environment_of(shell: Shell, label: str) -> dict[str, str]:
    return dict(json.loads((shell.home / f"{label}.json").read_text())["runs"][0]["environment"])


def findings(shell: Shell) -> str:
    ran = shell.run("compare", "base", "changed")
    assert ran.status == 0, ran.err
    return " ".join(ran.out.split())


def test_a_variable_of_the_shell_reaches_the_command_and_is_a_finding(shell: Shell) -> None:
    bench(shell, "base")
    assert "number 9 ms" in bench(shell, "changed", NUMBER="9").err
    assert "environment of the benchmark" in findings(shell)


def test_a_clean_environment_has_nothing_of_it(shell: Shell) -> None:
    assert "number 7 ms" in bench(shell, "base", "--clean-env", NUMBER="9").err
    assert "NUMBER" not in environment_of(shell, "base")


def test_a_named_variable_is_recorded_with_its_value(shell: Shell) -> None:
    ran = bench(shell, "base", "--clean-env", "--env", "NUMBER", "--env", "OTHER=1", NUMBER="9")
    assert "number 9 ms" in ran.err
    assert {"NUMBER": "9", "OTHER": "1"}.items() <= environment_of(shell, "base").items()
    ran = shell.run("bench", "--env", "MISSING", "--", *TOLD)
    assert ran.status == 2
    assert "--env MISSING: the shell has no such variable" in ran.err


def test_what_is_pinned_stays_pinned(shell: Shell) -> None:
    bench(shell, "base", LC_ALL="tr_TR.UTF-8", TZ="Asia/Tokyo", TMPDIR="/nowhere")
    found = environment_of(shell, "base")
    assert (found["LC_ALL"], found["TZ"]) == ("C", "UTC")
    assert found["TMPDIR"] != "/nowhere"


def test_functions_that_a_shell_exports_are_passed(shell: Shell) -> None:
    bench(shell, "base", **{"BASH_FUNC_x%%": "() {  echo 1\n}"})
    assert environment_of(shell, "base")["BASH_FUNC_x%%"].startswith("salted:")


def test_another_terminal_makes_no_difference(shell: Shell) -> None:
    bench(shell, "base", SHLVL="1", TERM="xterm", SSH_CONNECTION="1.2.3.4 5 6.7.8.9 22")
    bench(shell, "changed", SHLVL="2", TERM="linux")
    assert "environment of the benchmark" not in findings(shell)


def _everything(folder: Path) -> bytes:
    read = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    packed = [
        zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()) for path in folder.rglob("*.zst")
    ]
    return read + b"".join(packed)


@pytest.mark.root
@pytest.mark.xdist_group("machine")
@pytest.mark.usefixtures("real_machine")
def test_no_secret_of_the_shell_is_kept_bundled_or_published(shell: Shell) -> None:
    shell.variables = {"API_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "LS_COLORS": SECRET}
    said = bench(shell, "base").err + bench(shell, "changed", NUMBER="9").err
    tried = shell.run(
        *("try", "--env", "NUMBER=9", "--budget", "quick", "--settle", "0s", "--no-profile", "--anyway"),
        *(*NUMBER, "--", *TOLD),
    )
    assert tried.status == 0, tried.err
    (trial,) = [one["trial"] for one in shell.run("trial", "list", "--json").json["trials"]]
    for words in (
        ("bundle", "out.tar.zst", "--keep-identity"),
        ("publish", trial, "--data", "-o", "published"),
        ("compare", "base", "changed", "--json"),
    ):
        ran = shell.run(*words)
        assert ran.status == 0, ran.err
        said += ran.out + ran.err
    kept = _everything(shell.home) + (said + tried.out + tried.err).encode()
    assert b"API_TOKEN" in kept
    assert SECRET.encode() not in kept

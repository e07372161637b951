# SPDX-License-Identifier: Apache-2.0
"""Commands of the user's get the shell's environment, and no value of it that may be secret is kept anywhere."""

from __future__ import annotations

import json
import os
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
import zstandard

from ktrial.cli.shared.bench import TakesCommand
from tests.support.terminal import KTRIAL
from tests.support.tree import Ran

ROOT = Path(__file__).resolve().parents[3]
#: In no file and no output, in none of its forms.
SECRET = "hunter2-tr0ub4dor"
TOLD = ("sh", "-c", 'echo "number: ${NUMBER:-7}"')
LADDER = """
name = "mine"
summary = "Two tiers."
[[tier]]
name = "T0"
profile = "distro"
why = "As it is."
[[tier]]
name = "T1"
profile = "my-memory"
why = "One setting."
"""
PROFILE = """
name = "my-memory"
summary = "One setting."
[[setting]]
knob = "vm.page-cluster"
value = 2
why = "To have another tier."
"""
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
    assert "--env MISSING: no such variable in the shell" in ran.err


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


def test_all_that_start_a_command_of_the_users_have_both_options() -> None:
    names = [path.stem for path in (ROOT / "src/ktrial/cli/verbs").glob("*.py") if path.stem != "__init__"]
    verbs = [import_module(f"ktrial.cli.verbs.{name}").command for name in names]
    found = {verb.callback.__module__: verb for verb in verbs if isinstance(verb, TakesCommand)}
    # It measures nothing: its command runs as in the shell.
    del found["ktrial.cli.verbs.with"]
    assert len(found) == 10
    for name, verb in found.items():
        options = {option for parameter in verb.params for option in parameter.opts}
        assert {"--env", "--clean-env"} <= options, name


@pytest.mark.parametrize("variables", [{}, {"NUMBER": "9"}])
def test_a_watched_program_has_the_environment_that_was_asked_for(shell: Shell, variables: dict[str, str]) -> None:
    told = ("--", "sh", "-c", "echo ${NUMBER:-none} ${OTHER:-none} ${LANG:-none}")
    shell.variables = {**variables, "OTHER": "x", "LANG": "C.UTF-8"}
    wanted = variables.get("NUMBER", "none")
    ran = shell.run("watch", "--no-trace", *told)
    assert f"{wanted} x C.UTF-8" in ran.out, ran.err
    ran = shell.run("watch", "--no-trace", "--clean-env", *told)
    assert "none none none" in ran.out, ran.err
    ran = shell.run("watch", "--no-trace", "--clean-env", "--env", "OTHER", "--env", "NUMBER=8", *told)
    assert "8 x none" in ran.out, ran.err


def test_a_game_has_it_too_and_named_values_are_recorded(shell: Shell) -> None:
    game = shell.home / "game"
    game.write_text("#!/bin/sh\necho ${NUMBER:-none} ${OTHER:-none}\n")
    game.chmod(0o755)
    shell.variables = {"OTHER": "x", "NUMBER": "9", "PATH": f"{shell.home}:{os.environ['PATH']}"}
    (shell.home / "mangohud").write_text('#!/bin/sh\nexec "$@"\n')
    (shell.home / "mangohud").chmod(0o755)
    assert "9 x" in shell.run("frames", "--", "./game").out
    ran = shell.run("frames", "--clean-env", "--env", "NUMBER", "--", "./game")
    assert "9 none" in ran.out, ran.err
    (session,) = shell.run("runs", "--suite", "frames", "--json").json["sessions"][:1]
    kept = shell.run("show", f"{session['session']}/1", "--json").out
    assert '"NUMBER": "9"' in kept
    assert "OTHER" not in kept


@pytest.mark.parametrize(
    "words", [("watch", "--for", "1s", "--env", "A=1"), ("watch", "--clean-env"), ("frames", "x.csv", "--clean-env")]
)
def test_without_a_command_they_are_refused(shell: Shell, words: tuple[str, ...]) -> None:
    ran = shell.run(*words)
    assert ran.status == 2
    assert "requires a command after --" in ran.err


@pytest.mark.root
@pytest.mark.usefixtures("real_machine")
def test_all_tiers_of_a_ladder_have_a_variable(shell: Shell) -> None:
    (shell.home / "mine.toml").write_text(LADDER)
    profiles = shell.home / ".config" / "ktrial" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "my-memory.toml").write_text(PROFILE)
    words = ("--budget", "7", "--settle", "0s", "--no-profile", "--anyway", "--env", "NUMBER=9", "--clean-env")
    ran = shell.run("ladder", "./mine.toml", *words, *NUMBER, "--", *TOLD)
    assert ran.status == 0, ran.err
    (trial,) = [one["trial"] for one in shell.run("trial", "list", "--json").json["trials"]]
    shown = shell.run("trial", "show", trial, "--json").json
    assert shown["protocol"]["environment"] == {"NUMBER": "9"}
    (session,) = shell.run("runs", "--json").json["sessions"]
    for number in range(1, session["runs"]["ok"] + 1):
        assert '"NUMBER": "9"' in shell.run("show", f"{session['session']}/{number}", "--json").out


def _everything(folder: Path) -> bytes:
    read = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    packed = [
        zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()) for path in folder.rglob("*.zst")
    ]
    return read + b"".join(packed)


@pytest.mark.root
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

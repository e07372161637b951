# SPDX-License-Identifier: Apache-2.0
"""Every verb once on another machine: exit status, values of that machine's own network, and nothing stays there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kept import raw, records
from tests.support.remote_machine import RemoteMachine, remote_machine
from tests.support.terminal import eventually

KNOB, FILE = "net.core.somaxconn", "/proc/sys/net/core/somaxconn"
#: The value of the other machine's network; this machine has another one.
THERE = "4000"
SPACE = f"""
name = "there"

[[dimension]]
placeholder = "workers"
values = [1, 4, 16]
default = 1

[[dimension]]
knob = "{KNOB}"
values = [128, 512]
"""


@pytest.fixture(scope="module")
def web1() -> Iterator[RemoteMachine]:
    system = "rm /etc/os-release; echo 'NAME=Elsewhere\nPRETTY_NAME=\"Elsewhere 1\"' > /etc/os-release"
    with remote_machine(more=f"echo {THERE} > {FILE}; {system}") as machine:
        yield machine


@pytest.fixture(autouse=True)
def nothing_stays(web1: RemoteMachine) -> Iterator[None]:
    """The machine is as it was: its values, its user's home, and no process."""
    here = Path(FILE).read_text()
    assert here.strip() != THERE
    before = web1.run("find", str(web1.home), "/run", "-not", "-path", "/run/ktrial*")
    yield
    assert eventually(lambda: not web1.processes(), 10), web1.processes()
    assert web1.read(FILE) == THERE
    assert Path(FILE).read_text() == here
    after = web1.run("find", str(web1.home), "/run", "-not", "-path", "/run/ktrial*")
    assert after == before


def printed(web1: RemoteMachine, *words: str, status: int = 0) -> str:
    done = web1.ktrial(*words)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def document(web1: RemoteMachine, *words: str, status: int = 0) -> Any:
    at = words.index("--") if "--" in words else len(words)
    # Documents of one line come before the result.
    out = printed(web1, *words[:at], "--json", *words[at:], status=status)
    return json.loads(out[out.index("{\n") :] if "{\n" in out else out.splitlines()[-1])


def stored(web1: RemoteMachine, *words: str) -> str:
    """What a command without --host prints: it reads the results that are stored here."""
    argv = [word for word in web1.command(*words) if word not in {"--host", f"ssh:{web1.name}"}]
    return subprocess.run(argv, env=web1.environment(), capture_output=True, text=True, check=True).stdout


def test_facts_and_the_doctor_are_those_of_the_machine(web1: RemoteMachine) -> None:
    facts = document(web1, "facts")["facts"]
    assert facts["os.name"]["value"] == "Elsewhere 1"
    assert document(web1, "doctor")


def test_a_value_is_read_and_planned_there(web1: RemoteMachine) -> None:
    assert f"{KNOB} = {THERE}" in printed(web1, "why", KNOB)
    (step,) = document(web1, "plan", f"{KNOB}=512")["plan"]["steps"]
    assert (step["knob"], step["expect"].strip()) == (KNOB, THERE)


def test_a_list_is_reviewed_against_the_values_there(web1: RemoteMachine, tmp_path: Path) -> None:
    (tmp_path / "list.md").write_text(f"- `{KNOB}={THERE}`\n- `{KNOB}=512` is better\n")
    lines = document(web1, "review", str(tmp_path / "list.md"))["lines"]
    assert [one["state"] for one in lines] == ["set again", "would change"]
    assert lines[1]["now"] == THERE
    assert lines[1]["next"].startswith(f"ktrial --host ssh:web1 try {KNOB}=512")


def test_what_is_applied_is_in_force_there_until_it_is_reverted(web1: RemoteMachine) -> None:
    assert document(web1, "apply", f"{KNOB}=512")["state"] == "applied"
    try:
        assert web1.read(FILE) == "512"
        (applied,) = document(web1, "status")["transactions"]
        assert (applied["state"], applied["steps"][0]["old"].strip()) == ("applied", THERE)
        ((step,),) = [one["steps"] for one in document(web1, "verify")["transactions"]]
        assert (step["outcome"], step["now"].strip()) == ("in-force", "512")
    finally:
        (reverted,) = document(web1, "revert")["transactions"]
    assert reverted["steps"][0]["outcome"] == "restored"
    assert [one for one in document(web1, "status")["transactions"] if one["state"] == "applied"] == []


def test_a_deadline_there_does_not_need_the_connection(web1: RemoteMachine) -> None:
    said = web1.ktrial("apply", f"{KNOB}=512", "--for", "2s")
    assert said.returncode == 0, said.stderr
    assert "keep it with `ktrial --host ssh:web1 confirm" in said.stderr
    assert eventually(lambda: web1.read(FILE) == THERE, 10)


def test_a_command_is_measured_there_and_stored_here(web1: RemoteMachine) -> None:
    (web1.home / "answer").write_text("there")
    try:
        script = f"cat answer {FILE} && hostname && echo $HOME $MODE && id -un"
        bench = document(web1, "bench", "-n", "2", "--env", "MODE=fast", "--", "sh", "-c", script)
    finally:
        (web1.home / "answer").unlink()
    assert (bench["complete"], bench["interrupted"]) == (1, False)
    runs = records(web1.folder / "here", "state")
    assert runs[-1]["session"]["session"] in bench["where"]
    outputs = [raw(web1.folder / "here", one["raw"]["stdout"], "state").decode() for one in runs[-2:]]
    assert outputs == [f"there{THERE}\nweb1\n{web1.home} fast\nremote\n"] * 2


def test_the_agents_own_load_is_measured_there(web1: RemoteMachine) -> None:
    bench = document(web1, "bench", "agent-lock", "-n", "1")
    assert {one["outcome"] for one in bench["summaries"]} >= {"event-rate", "event-p99"}


def test_a_program_is_watched_there_and_its_recording_is_here(web1: RemoteMachine, tmp_path: Path) -> None:
    watched = document(web1, "watch", "-o", str(tmp_path / "seen"), "--", "sleep", "0.5")
    assert watched["findings"] is not None
    assert stored(web1, "diagnose", str(tmp_path / "seen"))


def test_drift_boots_and_states_are_those_of_the_machine(web1: RemoteMachine, tmp_path: Path) -> None:
    assert document(web1, "drift")["differs"] is False
    assert document(web1, "boot", "status")["entries"] == []
    printed(web1, "state", "save", "-o", str(tmp_path / "before.json"))
    assert f'"{THERE}' in (tmp_path / "before.json").read_text()


def test_a_setting_is_exported_for_the_machine(web1: RemoteMachine) -> None:
    (file,) = document(web1, "export", f"{KNOB}=512", "--to", "sysctl.d")["files"]
    assert f"{KNOB} = 512" in file["text"]


def test_a_game_is_logged_there(web1: RemoteMachine) -> None:
    variables = ("--env", "LIBGL_ALWAYS_SOFTWARE=1", "--env", "MESA_SHADER_CACHE_DISABLE=true")
    game = ("timeout", "6", "xvfb-run", "--auto-servernum", "glxgears")
    done = web1.ktrial("frames", "--duration", "2s", *variables, "--json", "--", *game)
    # `timeout` ends the game, with its own status.
    assert done.returncode == 124, done.stderr
    (log,) = json.loads(done.stdout)["logs"]
    assert log["frames"] > 10
    assert "saved as" in done.stderr


def test_a_trial_compares_settings_there(web1: RemoteMachine) -> None:
    words = ("--no-profile", "--settle", "0s", "--budget", "7", "--", "sleep", "0.05")
    shown = document(web1, "try", f"{KNOB}=512", *words)
    trial = shown["comparison"]["trial"]
    assert trial["blocks"] == 7
    assert trial["trial"] in stored(web1, "trial", "list")
    stored(web1, "trial", "recheck", trial["trial"])


def test_commands_are_compared_there(web1: RemoteMachine) -> None:
    metric = ("--metric", "value:lower=^([0-9]+)$")
    shown = " ".join(printed(web1, "ab", *metric, "--budget", "7", f"cat {FILE}", "echo 5000").split())
    assert f"`echo 5000` is worse than `cat {FILE}`: 25 % higher score" in shown


def test_a_search_finds_the_best_setting_and_parameter_there(web1: RemoteMachine, tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text(SPACE)
    rate = "(w == 16 ? 140 : 100) * (s == 512 ? 1.2 : 1) * (1 + 0.01 * rand())"
    script = f"""awk -v w="$0" -v s="$(cat {FILE})" -v seed=$$ 'BEGIN {{ srand(seed); print "rate", {rate} }}'"""
    given = ("--metric", "rate_per_s:higher=rate ([0-9.]+)", "--seed", "3", "--settle", "0s", "--budget", "20min")
    found = document(web1, "search", str(space), *given, "--", "sh", "-c", script, "{workers}")["search"]
    assert (found["ending"], found["winner"]) == ("confirmed", {"workers": 16, KNOB: 512})
    stored(web1, "trial", "recheck", found["confirmed_by"])
    # The same command for another machine is another search.
    (state,) = (web1.folder / "here/state/ktrial/searches").glob("*.json")
    assert "ssh:web1" in json.loads(state.read_text())["asked"]


@pytest.mark.parametrize("verb", ["demo", "kernel", "with"])
def test_what_works_only_here_is_refused(web1: RemoteMachine, verb: str) -> None:
    done = web1.ktrial(verb, "--", "true")
    assert done.returncode == 2
    assert "works on this machine only" in done.stderr

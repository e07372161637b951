# SPDX-License-Identifier: Apache-2.0
"""Who is root when: a real ordinary user with a checkout, the real sudo, and this machine's own knobs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hostile import evil_folder, start_without_sudo, surroundings_in
from tests.support.kept import raw, records
from tests.support.terminal import Terminal, eventually
from tests.support.user import CHECKOUT, User, ordinary_user

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
SWAPPINESS = Path("/proc/sys/vm/swappiness")
#: Not what any profile or distribution sets.
WANTED = "61\n"


@pytest.fixture(scope="module")
def made() -> Iterator[User]:
    with ordinary_user("sudo") as user:
        yield user


@pytest.fixture
def user(made: User) -> Iterator[User]:
    """The user with all rights of sudo and nothing in its log; the knob is as it was afterwards."""
    before = SWAPPINESS.read_text()
    assert before != WANTED
    made.allow()
    made.sudo_log.unlink(missing_ok=True)
    yield made
    SWAPPINESS.write_text(before)


@pytest.fixture
def state() -> Iterator[str]:
    """A state folder of root's, apart from the machine's own."""
    folder = Path(tempfile.mkdtemp(prefix="ktrial-state-"))
    yield str(folder / "state")
    shutil.rmtree(folder)


def asked(user: User) -> list[str]:
    """What sudo ran for the user, by its own log."""
    if not user.sudo_log.exists():
        return []
    unfolded = user.sudo_log.read_text().replace("\n    ", " ")
    return [line.partition("COMMAND=")[2] for line in unfolded.splitlines() if "COMMAND=" in line]


def test_benchmarks_run_as_the_user_also_under_sudo(user: User) -> None:
    ran = user.start("sudo", "./ktrial", "bench", "-n", "1", "--", "id", "-u")
    assert ran.returncode == 0, ran.stderr
    (record,) = records(user.home)
    assert raw(user.home, record["raw"]["stdout"]) == f"{user.uid}\n".encode()
    assert user.files_of_others() == []


SUITE = """name = "cold"
summary = "Cold caches."

[[benchmark]]
use = "agent-spin"
parameters = { duration_s = 1 }

[between]
sync = true
drop_caches = true
"""


def test_a_suite_that_drops_caches_asks_once_and_is_refused_without(user: User) -> None:
    suites = user.home / ".config/ktrial/suites"
    made = user.start("sh", "-c", 'mkdir -p "$1" && printf %s "$2" > "$1/cold.toml"', "sh", str(suites), SUITE)
    assert made.returncode == 0, made.stderr
    refused = user.start("./ktrial", "--no-sudo", "bench", "cold", "-n", "1")
    assert refused.returncode == 5
    assert "dropping caches before each run needs root, and --no-sudo forbids asking for it" in refused.stderr
    ran = user.start("./ktrial", "bench", "cold", "-n", "2", "--json")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("needs root: asking sudo") == 1
    assert len(asked(user)) == 1
    records = [event["record"] for event in map(json.loads, ran.stdout.splitlines()) if event["event"] == "run"]
    assert [[(one["reset"], one["ok"]) for one in record["prepared"]] for record in records] == [
        [("sync", True), ("caches", True)]
    ] * 2
    assert user.files_of_others() == []


def test_the_doctor_of_an_ordinary_user_needs_no_sudo(user: User) -> None:
    """What only root can read is named as such; the rest is the same machine that root sees."""
    ran = user.start("./ktrial", "doctor", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = json.loads(ran.stdout)
    seen_by_root = json.loads(subprocess.check_output([CHECKOUT / "ktrial", "doctor", "--json"]))
    assert said["machine"] == seen_by_root["machine"]
    assert "this session is not root" in [limit["why"] for limit in said["limits"]]
    shown = user.start("./ktrial", "doctor")
    assert shown.returncode == 0
    assert "Traceback" not in shown.stdout + shown.stderr
    assert asked(user) == []
    assert user.files_of_others() == []


@pytest.mark.parametrize("asker", ["doas", "pkexec"])
def test_without_sudo_another_program_is_asked(user: User, asker: str) -> None:
    def start(*words: str) -> subprocess.CompletedProcess[str]:
        return start_without_sudo(user, asker, "./ktrial", *words)

    applied = start("apply", "vm.swappiness=61", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert applied.stderr == f"ktrial: applying vm.swappiness=61 needs root: asking {asker}\n"
    assert SWAPPINESS.read_text() == WANTED
    assert start("revert").returncode == 0
    assert SWAPPINESS.read_text() != WANTED
    assert asked(user) == []
    assert user.files_of_others() == []


def test_sudo_ktrial_leaves_nothing_of_root_behind(user: User, state: str) -> None:
    before = SWAPPINESS.read_text()
    shutil.rmtree(user.home / ".cache", ignore_errors=True)
    command = ("sudo", "./ktrial", "--machine-state", state)
    applied = user.start(*command, "apply", "vm.swappiness=61", "--yes")
    assert (applied.returncode, applied.stderr) == (0, "")
    assert SWAPPINESS.read_text() == WANTED
    status = user.start(*command, "status")
    assert "vm.swappiness=61" in status.stdout, status.stderr
    assert user.start(*command, "verify").returncode == 0
    reverted = user.start(*command, "revert")
    assert (reverted.returncode, reverted.stdout) == (0, "Transaction 1: 1 of 1 restored.\n")
    assert SWAPPINESS.read_text() == before
    assert user.files_of_others() == []
    assert (user.home / ".cache/ktrial").is_dir()
    assert Path(state).stat().st_uid == 0
    assert Path(state).stat().st_mode & 0o777 == 0o700


def test_ktrial_alone_on_a_terminal_asks_nobody(user: User) -> None:
    shown = user.start("script", "-qec", "./ktrial", "/dev/null", environment={"TERM": "dumb"})
    assert shown.returncode == 0, shown.stdout
    assert "`./ktrial --help` lists all commands." in shown.stdout
    assert asked(user) == []


def test_a_plan_asks_nobody(user: User) -> None:
    planned = user.start("./ktrial", "plan", "vm.swappiness=61")
    assert (planned.returncode, planned.stderr) == (0, "")
    assert asked(user) == []


def test_what_only_root_can_read_is_said_to_be_unreadable_here(user: User) -> None:
    planned = user.start("./ktrial", "plan", "net.core.bpf_jit_harden=1")
    assert planned.returncode == 0, planned.stderr
    assert "unreadable here" in planned.stdout
    by_root = user.start("sudo", "./ktrial", "plan", "net.core.bpf_jit_harden=1")
    assert "unreadable here" not in by_root.stdout


def test_apply_asks_once_and_says_what_for(user: User, state: str) -> None:
    before = SWAPPINESS.read_text()
    applied = user.start("./ktrial", "--machine-state", state, "apply", "vm.swappiness=61", "--yes")
    assert (applied.returncode, applied.stderr) == (
        0,
        "ktrial: applying vm.swappiness=61 needs root: asking sudo\n",
    )
    assert SWAPPINESS.read_text() == WANTED
    agent = user.checkout / ".setup/bin/ktrial-agent"
    assert asked(user) == [f"{agent} serve --role root --state {state}"]
    assert user.start("./ktrial", "--machine-state", state, "revert").returncode == 0
    assert SWAPPINESS.read_text() == before
    assert user.files_of_others() == []


@pytest.mark.parametrize("verb", [("apply", "vm.swappiness=61", "--yes"), ("revert",), ("status",), ("recover",)])
def test_no_sudo_refuses_with_the_next_step(user: User, verb: tuple[str, ...]) -> None:
    refused = user.start("./ktrial", "--no-sudo", *verb)
    assert (refused.returncode, refused.stdout) == (5, "")
    message, step = refused.stderr.splitlines()
    assert message.startswith("ktrial: ")
    assert "needs root" in message
    assert "leave out --no-sudo" in step
    assert asked(user) == []


def test_a_user_without_rights_gets_status_5_and_one_message(user: User, state: str) -> None:
    user.allow("/bin/true")
    refused = user.start("./ktrial", "--machine-state", state, "apply", "vm.swappiness=61", "--yes")
    assert (refused.returncode, refused.stdout) == (5, "")
    said = [line for line in refused.stderr.splitlines() if line.startswith("ktrial: ")]
    assert said == [
        "ktrial: applying vm.swappiness=61 needs root: asking sudo",
        "ktrial: sudo did not start the agent as root (exit status 1)",
    ]
    assert "Traceback" not in refused.stderr
    assert "  next: " in refused.stderr
    assert SWAPPINESS.read_text() != WANTED


@pytest.mark.parametrize("prefix", [("sudo",), ()], ids=["sudo-ktrial", "ktrial-asks"])
@pytest.mark.parametrize("how", ["ctrl-c", "no", "closed-window", "kill-9"])
def test_the_question_on_a_terminal_behind_sudo(user: User, state: str, prefix: tuple[str, ...], how: str) -> None:
    """The agent has another parent then, and outlives what its terminal sends to it."""
    before = SWAPPINESS.read_text()
    lease = "600s" if how in {"ctrl-c", "no"} else "2s"
    command = (str(user.checkout / "ktrial"), "--machine-state", state, "apply", "vm.swappiness=61", "--yes")
    terminal = Terminal([*user.become(), *prefix, *command, "--confirm", lease])
    try:
        terminal.wait_for("Keep these settings?")
        assert SWAPPINESS.read_text() == WANTED
        if how in {"ctrl-c", "no"}:
            terminal.type("\x03" if how == "ctrl-c" else "n\n")
            assert terminal.end() == (130 if how == "ctrl-c" else 1)
            assert "1 of 1 restored" in terminal.said
        elif how == "closed-window":
            terminal.close()
        else:
            terminal.process.kill()
        assert eventually(lambda: SWAPPINESS.read_text() == before)
    finally:
        terminal.kill()
    assert "Traceback" not in terminal.said
    assert user.files_of_others() == []


def test_what_only_root_can_see_is_said_to_be_so(user: User) -> None:
    planned = user.start("./ktrial", "plan", "sched:base_slice_ns=4000000")
    assert planned.returncode == 0, planned.stderr
    assert "only root can see debugfs" in " ".join(planned.stdout.split())


@pytest.mark.parametrize("defaults", [(), ("!secure_path", "!env_reset")], ids=["ordinary-sudo", "lax-sudo"])
@pytest.mark.parametrize("by_prefix", [True, False], ids=["sudo-ktrial", "ktrial-asks"])
def test_nothing_of_the_users_surroundings_runs_as_root(
    user: User, state: str, by_prefix: bool, defaults: tuple[str, ...]
) -> None:
    user.allow("ALL", *defaults)
    folder = Path(tempfile.mkdtemp(prefix="ktrial-evil-"))
    try:
        folder.chmod(0o755)
        marks = folder / "marks"
        marks.touch()
        marks.chmod(0o666)
        evil = evil_folder(folder, marks)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        surroundings = surroundings_in(evil, elsewhere)
        prefix = ["/usr/bin/sudo"] if by_prefix else []
        command = [*prefix, str(user.checkout / "ktrial"), "--machine-state", state]
        applied = user.start(*command, "apply", "vm.swappiness=61", "--yes", directory=evil, environment=surroundings)
        assert applied.returncode == 0, applied.stderr
        assert SWAPPINESS.read_text() == WANTED
        reverted = user.start(*command, "revert", directory=evil, environment=surroundings)
        assert reverted.returncode == 0, reverted.stderr
        by_root = [line for line in marks.read_text().splitlines() if line.endswith(" 0")]
        # `sudo` itself is root's program, and what it loads is not the user's to choose.
        assert by_root == []
        assert list(elsewhere.iterdir()) == []
        assert user.files_of_others() == []
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("prefix", [("sudo",), ()], ids=["sudo-ktrial", "ktrial-asks"])
@pytest.mark.parametrize("what", ["agent", "folder", "owner"])
def test_an_agent_that_others_can_change_is_refused(user: User, state: str, what: str, prefix: tuple[str, ...]) -> None:
    agent = user.checkout / ".setup/bin/ktrial-agent"
    changed = agent if what in {"agent", "owner"} else agent.parent
    mode = changed.stat().st_mode & 0o7777
    try:
        if what == "owner":
            os.chown(agent, 65534, 65534)
        else:
            changed.chmod(0o777)
        refused = user.start(*prefix, "./ktrial", "--machine-state", state, "apply", "vm.swappiness=61", "--yes")
    finally:
        changed.chmod(mode)
        os.chown(agent, user.uid, agent.parent.stat().st_gid)
    assert refused.returncode == 4, refused.stderr
    assert f"{changed} can be changed by somebody else" in refused.stderr
    assert "  next: " in refused.stderr
    assert SWAPPINESS.read_text() != WANTED
    assert not Path(state).exists()


#: Its commands note who they are; one of them asks sudo itself, in a file that is the user's already.
ARMS = """
name = "rights"
suite = "agent-memcpy"
parameters = {{ duration_s = 0.1, bytes = 1048576 }}
design = {{ cap = 7, settle = "0s", anyway = true }}
[arms.control]
[arms.case]
set = {{ "vm.swappiness" = 61 }}
[[arms.case.commands]]
run = ["sh", "-c", "echo begun $(id -u) $(cat /proc/sys/vm/swappiness) >> {notes}"]
undo = ["sh", "-c", "echo undone $(id -u) >> {notes}"]
[[arms.case.commands]]
run = ["sudo", "-n", "sh", "-c", "echo asked $(id -u) >> {notes}"]
undo = ["true"]
"""


@pytest.mark.parametrize("before", [(), ("sudo",)], ids=["asking-sudo", "under-sudo"])
def test_arms_have_their_settings_of_root_and_their_commands_of_the_user(
    user: User, state: str, before: tuple[str, ...]
) -> None:
    notes, protocol = user.home / "notes", user.home / "trial.toml"
    script = ': > "$1"; printf %s "$3" > "$2"'
    made = user.start("sh", "-c", script, "sh", str(notes), str(protocol), ARMS.format(notes=notes))
    assert made.returncode == 0, made.stderr
    found = SWAPPINESS.read_text()
    command = (*before, "./ktrial", "--machine-state", state, "trial", "run", str(protocol), "--no-profile")
    ran = user.start(*command)
    assert ran.returncode == 0, ran.stderr
    assert SWAPPINESS.read_text() == found
    noted = notes.read_text().split("\n")[:-1]
    assert set(noted) == {f"begun {user.uid} 61", f"undone {user.uid}", "asked 0"}
    assert len(noted) % 3 == 0
    assert len(noted) >= 3 * 4, "visits that follow each other share one"
    assert len([one for one in asked(user) if "echo asked" not in one]) == 1, "root was asked for once"
    assert user.files_of_others() == []

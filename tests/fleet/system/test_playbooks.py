# SPDX-License-Identifier: Apache-2.0
"""The collection in real playbooks, on two machines behind real sshds; one of them has no Python."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.system.test_remote_ways import OWN_PROGRAMS, changed, password_for_sudo
from tests.support.playbooks import Played, command, environment_of, play, tasks_in, tasks_of
from tests.support.remote_machine import UID, RemoteMachine, remote_machine

KNOB, FILE, THERE = "net.core.somaxconn", "/proc/sys/net/core/somaxconn", "4000"
KEPT = "/etc/sysctl.d/ktrial.conf"
#: A machine that can keep settings, whose programs a test may replace.
MORE = f"mkdir -p /run/systemd/system; echo {THERE} > {FILE}; {OWN_PROGRAMS}"
NO_PYTHON = "rm -f /usr/bin/*python*"
APPLY = f"ktrial.tuning.apply: {{settings: {{{KNOB}: 512}}}}"
PAGE = Path(__file__).parents[3] / "docs/playbooks.md"


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[RemoteMachine, RemoteMachine]]:
    with (
        remote_machine("web1", more=MORE) as first,
        remote_machine("web2", more=f"{MORE}; {NO_PYTHON}") as second,
    ):
        yield first, second


@pytest.fixture
def web1(machines: tuple[RemoteMachine, RemoteMachine]) -> Iterator[RemoteMachine]:
    yield machines[0]
    assert machines[0].read(FILE) == THERE


def values(machines: tuple[RemoteMachine, ...]) -> list[str]:
    return [one.read(FILE) for one in machines]


def test_a_machine_without_python_gets_a_setting_once_and_loses_it_once(
    machines: tuple[RemoteMachine, RemoteMachine], tmp_path: Path
) -> None:
    web2 = machines[1]
    assert "python" not in web2.run("ls", "/usr/bin")
    facts = "ktrial.tuning.facts: {prefixes: [os.id]}"
    plan = f"ktrial.tuning.plan: {{settings: {{{KNOB}: 512}}}}"
    verify, revert = "ktrial.tuning.verify: {}", "ktrial.tuning.revert: {}"
    done = play(tmp_path, [web2], tasks_of(facts, plan, APPLY, APPLY, verify, revert, revert), "--diff")
    assert done.status == 0, done.text
    assert [one.changed for one in done.tasks] == [False, False, True, False, False, True, False], done.text
    assert done.of("0", "web2").result["ansible_facts"]["ktrial"] == {"os.id": "debian"}
    assert done.of("1", "web2").result["changes"] == [{"knob": KNOB, "before": THERE, "after": "512"}]
    (verified,) = done.of("4", "web2").result["transactions"]
    assert [(step["path"], step["now"]) for step in verified["steps"]] == [(FILE, "512\n")]
    assert f"-{THERE}\n+512\n" in done.text
    assert f"-512\n+{THERE}\n" in done.text
    assert values(machines) == [THERE, THERE]


def test_a_password_comes_from_a_vault(web1: RemoteMachine, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("key of the vault\n")
    (tmp_path / "secret.yml").write_text("ansible_become_password: secret\n")
    _vault(tmp_path, "encrypt", "secret.yml")
    assert (tmp_path / "secret.yml").read_text().startswith("$ANSIBLE_VAULT;")
    with password_for_sudo(web1):
        book = tasks_of(APPLY, "ktrial.tuning.revert: {}")
        done = play(tmp_path, [web1], book, "--vault-password-file", "key", "-e", "@secret.yml")
        assert done.status == 0, done.text
        assert [one.changed for one in done.tasks] == [True, True]
        (tmp_path / "asked").write_text("wrong\n")
        done = play(tmp_path, [web1], tasks_of(APPLY), "--become-password-file", "asked")
        assert (done.of("0").what, done.of("0").result["rc"]) == ("failed", 5)
        assert "sudo on web1 did not accept the password" in done.of("0").message
        assert "wrong" not in done.text
        done = play(tmp_path, [web1], tasks_of(APPLY))
        assert "whose sudo asks for a password, and there is no terminal here; next: " in done.of("0").message


def test_a_delegated_task_works_on_the_other_machine(
    machines: tuple[RemoteMachine, RemoteMachine], tmp_path: Path
) -> None:
    there = "delegate_to: web2, run_once: true"
    done = play(tmp_path, machines, tasks_of(f"{APPLY}, {there}"))
    assert (done.status, values(machines)) == (0, [THERE, "512"]), done.text
    assert play(tmp_path, machines, tasks_of(f"ktrial.tuning.revert: {{}}, {there}")).status == 0
    assert values(machines) == [THERE, THERE]


def _vault(folder: Path, *words: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", **environment_of(folder)}
    argv = [sys.executable, "-m", "ansible", "vault", *words, "--vault-password-file", "key"]
    subprocess.run(argv, cwd=folder, env=environment, check=True, capture_output=True)


def refused(done: Played, number: int, *parts: str, what: str = "failed") -> None:
    found = done.of(str(number))
    assert found.what == what, done.text
    assert all(part in found.message for part in (*parts, "next: ")), found.message


def test_what_ktrial_cannot_use_is_named_with_the_next_step(web1: RemoteMachine, tmp_path: Path) -> None:
    facts = "ktrial.tuning.facts: {prefixes: [os.id]}"
    ignore = "ignore_errors: true, ignore_unreachable: true"
    book = tasks_of(
        f"{facts}, {ignore}, vars: {{ansible_host: nobody.invalid}}",
        f"{facts}, {ignore}, vars: {{ansible_connection: winrm}}",
        f"{facts}, {ignore}, become_method: su",
        f"{facts}, {ignore}, become_user: nobody",
        f"{APPLY}, {ignore}, become: false",
        f"ktrial.tuning.apply: {{settings: {{{KNOB}: true}}}}, {ignore}",
        f"ktrial.tuning.apply: {{settings: {{net.core.nonsense: 1}}}}, {ignore}",
        f"{facts}, {ignore}, vars: {{ktrial_program: /nowhere/ktrial}}",
    )
    done = play(tmp_path, [web1], book)
    refused(done, 0, "cannot connect to nobody.invalid", what="unreachable")
    refused(done, 1, "cannot use the connection winrm", "`connection: ssh`")
    refused(done, 2, "cannot become root with su", "`become_method: sudo`")
    refused(done, 3, "cannot become nobody")
    refused(done, 4, "needs root on web1", "`become: true`")
    refused(done, 5, "expected text or a number, got True")
    refused(done, 6, "unknown knob: 'net.core.nonsense'")
    refused(done, 7, "cannot start /nowhere/ktrial")
    assert done.of("6").result["rc"] == 2


def test_a_host_key_that_changed_makes_a_machine_unreachable(web1: RemoteMachine, tmp_path: Path) -> None:
    known = web1.folder / "known_hosts"
    before = known.read_text()
    other = (web1.folder / "key.pub").read_text().split()
    known.write_text(f"web1 {other[0]} {other[1]}\n")
    try:
        done = play(tmp_path, [web1], tasks_of(APPLY), "--ssh-extra-args=-o ControlPath=none")
    finally:
        known.write_text(before)
    refused(done, 0, "Host key verification failed", what="unreachable")


NO_SUDO = "cd /usr/bin; mv sudo kept-sudo; mv doas kept-doas"
FAKE_UNAME = (
    "mv /usr/bin/uname /usr/bin/kept; printf '#!/bin/sh\\necho riscv64\\n' > /usr/bin/uname; chmod 755 /usr/bin/uname"
)


@pytest.mark.parametrize(
    "begin, end, why",
    [
        (NO_SUDO, "cd /usr/bin; mv kept-sudo sudo; mv kept-doas doas", "neither sudo nor doas"),
        (FAKE_UNAME, "mv /usr/bin/kept /usr/bin/uname", "riscv64"),
        ("mount -t tmpfs -o size=1m,uid={uid} tmpfs {home}", "umount {home}", "No space left on device"),
    ],
    ids=["no sudo", "another architecture", "a full disk"],
)
def test_a_machine_that_cannot_do_it(web1: RemoteMachine, tmp_path: Path, begin: str, end: str, why: str) -> None:
    begin, end = (text.format(uid=UID, home=web1.home) if "{home}" in text else text for text in (begin, end))
    with changed(web1, begin, end):
        done = play(tmp_path, [web1], tasks_of(APPLY))
    refused(done, 0, why)


def test_another_agent_that_was_left_there_is_removed(web1: RemoteMachine, tmp_path: Path) -> None:
    old = f"{web1.home}/.cache/ktrial/agents/{'0' * 64}"
    web1.run("sh", "-c", f"mkdir -p {old}; cp /bin/true {old}/ktrial-agent; chown -R {UID}:{UID} {web1.home}/.cache")
    done = play(tmp_path, [web1], tasks_of("ktrial.tuning.facts: {prefixes: [os.id]}"))
    assert done.status == 0, done.text
    assert not (web1.home / ".cache/ktrial").exists()


def test_a_role_leaves_the_agent_there_and_another_keeps_settings(web1: RemoteMachine, tmp_path: Path) -> None:
    settings = f"vars: {{keep_settings: {{{KNOB}: 512}}}}"
    role = "ansible.builtin.import_role: {name: ktrial.tuning.%s}"
    book = tasks_of(role % "agent", f"{role % 'keep'}, {settings}")
    done = play(tmp_path, [web1], book, "--check", "--diff")
    assert (done.status, web1.read(FILE)) == (0, THERE), done.text
    assert f"+{KNOB} = 512\n" in done.text
    assert not (web1.home / ".cache/ktrial").exists()
    assert len(play(tmp_path, [web1], book).names(changed=True)) == 2
    assert (web1.read(FILE), f"{KNOB} = 512" in web1.read(KEPT)) == ("512", True)
    assert len([*(web1.home / ".cache/ktrial/agents").glob("*/keep")]) == 1
    assert play(tmp_path, [web1], book).names(changed=True) == []
    gone = "vars: {keep_state: absent, agent_state: absent}"
    book = tasks_of(f"{role % 'keep'}, {gone}", f"{role % 'agent'}, {gone}")
    assert len(play(tmp_path, [web1], book).names(changed=True)) == 2
    assert (web1.read(FILE), web1.run("find", KEPT.rpartition("/")[0], "-name", "ktrial*")) == (THERE, "")
    assert not (web1.home / ".cache/ktrial").exists()
    assert play(tmp_path, [web1], book).names(changed=True) == []


def test_the_controller_itself_is_a_machine_too(web1: RemoteMachine, tmp_path: Path) -> None:
    words = command(tmp_path, "here ansible_connection=local", tasks_of(APPLY, "ktrial.tuning.revert: {}"), ())
    variables = [f"{name}={value}" for name, value in environment_of(tmp_path).items()]
    text = web1.run("env", *variables, f"XDG_STATE_HOME={tmp_path}", *words)
    assert [(one.what, one.changed) for one in tasks_in(tmp_path)] == [("ok", True), ("ok", True)], text


def playbook_of_the_page(number: int) -> str:
    books = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(books[number])


def test_the_playbook_of_the_documentation(machines: tuple[RemoteMachine, RemoteMachine], tmp_path: Path) -> None:
    book = playbook_of_the_page(0)
    assert len(book.splitlines()) <= 34
    healthy, ill = ("-e", "health_check=true"), ("-e", "health_check=false")
    done = play(tmp_path, machines, book, "--check", "--diff", *healthy)
    assert values(machines) == [THERE, THERE], done.text
    assert "+1024\n" in done.text
    done = play(tmp_path, machines, book, *healthy)
    assert (done.status, values(machines)) == (0, ["1024", "1024"]), done.text
    assert all(f"{KNOB} = 1024" in one.read(KEPT) for one in machines)
    done = play(tmp_path, machines, book, *healthy)
    assert (done.status, done.names(changed=True)) == (0, []), done.text
    done = play(tmp_path, machines, book, *ill)
    assert done.status != 0
    assert done.of("Stop").message == "The service does not answer with these settings."
    assert values(machines) == [THERE, "1024"]
    assert play(tmp_path, machines, tasks_of("ktrial.tuning.revert: {}")).status == 0
    assert values(machines) == [THERE, THERE]


TRIAL = """
name = "backlog"
command = ["sh", "-c", "echo value $(($(cat /proc/sys/net/core/somaxconn) + $$ % 9))"]
metrics = ["value:lower=value ([0-9]+)"]
design = { cap = 7, fixed = true, seed = 5, settle = "0s" }

[arms.control]
[arms.small]
set = { "net.core.somaxconn" = 512 }
"""


def test_the_trial_of_the_documentation_ends_with_a_verdict(web1: RemoteMachine, tmp_path: Path) -> None:
    (tmp_path / "backlog.toml").write_text(TRIAL)
    book = playbook_of_the_page(1).replace("delay: 60", "delay: 1")
    start, fetch = re.findall(r"    - name: (.*)", book)
    done = play(tmp_path, [web1], book)
    assert (done.status, done.of(start).changed) == (0, True), done.text
    last = done.of(fetch).result
    assert (last["state"], last["blocks"], last["next_look_s"]) == ("ended", 7, None)
    assert '"verdict": "better"' in json.dumps(last["result"])
    assert (tmp_path / "web1.db").exists()
    done = play(tmp_path, [web1], book)
    assert [(one.changed, one.result["state"]) for one in done.tasks] == [(False, "ended")] * 2, done.text


def test_a_trial_is_stopped_and_its_settings_are_restored(web1: RemoteMachine, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(TRIAL.replace("backlog", "slow").replace("echo", "sleep 3; echo"))
    words = "store: one.db}, environment: {XDG_STATE_HOME: state}"
    start = f"ktrial.tuning.trial: {{file: slow.toml, {words}"
    stop = f"ktrial.tuning.trial: {{name: slow, state: stopped, {words}"
    done = play(tmp_path, [web1], tasks_of(start, stop, f"{stop}, check_mode: true"))
    assert [one.result.get("state") for one in done.tasks] == ["running", "stopped", None], done.text
    assert web1.read(FILE) == THERE

# SPDX-License-Identifier: Apache-2.0
"""Ways into another machine: sudo, doas, root, jump hosts, shared connections, slow lines, and login shells."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.remote_machine import USER, RemoteMachine, inwards, remote_machine
from tests.support.terminal import Terminal, eventually

KNOB, FILE = "net.core.somaxconn", "/proc/sys/net/core/somaxconn"
THERE = "4000"
#: Programs of the machine that a test may remove or replace.
OWN_PROGRAMS = (
    "mkdir /run/up /run/up/new /run/up/work;"
    "mount -t overlay -o lowerdir=/usr/bin,upperdir=/run/up/new,workdir=/run/up/work overlay /usr/bin"
)


@pytest.fixture(scope="module")
def web1() -> Iterator[RemoteMachine]:
    with remote_machine(more=f"echo {THERE} > {FILE}; {OWN_PROGRAMS}") as machine:
        yield machine


@pytest.fixture(autouse=True)
def nothing_stays(web1: RemoteMachine) -> Iterator[None]:
    yield
    assert eventually(lambda: not web1.processes(), 10), web1.processes()
    assert web1.read(FILE) == THERE


@contextlib.contextmanager
def changed(web1: RemoteMachine, begin: str, end: str) -> Iterator[None]:
    """The machine after a command, until another one."""
    web1.run("sh", "-c", begin)
    try:
        yield
    finally:
        web1.run("sh", "-c", end)


@contextlib.contextmanager
def ssh_options(web1: RemoteMachine, *lines: str) -> Iterator[None]:
    """More lines in the user's configuration, which win."""
    before = web1.ssh_config.read_text()
    web1.ssh_config.write_text("\n".join(["Host *", *lines, before]))
    try:
        yield
    finally:
        web1.ssh_config.write_text(before)


def apply_and_revert(web1: RemoteMachine, host: str | None = None) -> str:
    """Apply and revert a setting; return what was said."""
    said = ""
    for words in (("apply", f"{KNOB}=512", "--for", "1h"), ("revert",)):
        done = web1.ktrial(*words, host=host)
        assert done.returncode == 0, done.stderr
        said += done.stderr
        assert web1.read(FILE) == ("512" if words[0] == "apply" else THERE)
    return said


def password_for_sudo(web1: RemoteMachine) -> contextlib.AbstractContextManager[None]:
    rule = "sed -i s/NOPASSWD:/PASSWD:/ /etc/sudoers"
    return changed(web1, rule, "sed -i s/PASSWD:/NOPASSWD:/ /etc/sudoers")


def typed(web1: RemoteMachine, *words: str) -> Terminal:
    environment = [f"{name}={value}" for name, value in web1.environment().items()]
    return Terminal(["env", *environment, *web1.command(*words)])


def test_sudo_without_a_password_is_asked_once(web1: RemoteMachine) -> None:
    assert apply_and_revert(web1).count("asking sudo there") == 2


def test_sudo_with_a_password_asks_on_the_terminal_here(web1: RemoteMachine) -> None:
    with password_for_sudo(web1):
        terminal = typed(web1, "apply", f"{KNOB}=512", "--for", "1h")
        try:
            for password in ("wrong", "secret"):
                terminal.wait_for("password for sudo on web1: ")
                terminal.said = ""
                terminal.type(f"{password}\n")
            terminal.wait_for("Apply? ")
            terminal.type("y\n")
            assert terminal.end() == 0, terminal.said
        finally:
            terminal.kill()
        assert "secret" not in terminal.said
        assert web1.read(FILE) == "512"
        refused = web1.ktrial("revert")
        assert (refused.returncode, "there is no terminal here" in refused.stderr) == (5, True), refused.stderr
        assert not any("secret" in line for line in web1.processes(""))
    assert web1.ktrial("revert").returncode == 0


@pytest.mark.parametrize("password, status", [("secret", 0), ("wrong", 5)])
def test_a_password_comes_from_an_open_file(web1: RemoteMachine, password: str, status: int) -> None:
    reading, writing = os.pipe()
    os.write(writing, f"{password}\n".encode())
    os.close(writing)
    with password_for_sudo(web1):
        done = subprocess.run(
            web1.command("verify"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            pass_fds=(reading,),
            env={**web1.environment(), "KTRIAL_PASSWORD_FD": str(reading)},
            check=False,
        )
    os.close(reading)
    assert done.returncode == status, done.stderr
    assert ("did not accept the password" in done.stderr) == (status == 5), done.stderr


def test_ctrl_c_at_the_question_changes_nothing(web1: RemoteMachine) -> None:
    with password_for_sudo(web1):
        terminal = typed(web1, "apply", f"{KNOB}=512")
        try:
            terminal.wait_for("password for sudo on web1: ")
            terminal.type("\x03")
            assert terminal.end() == 130, terminal.said
        finally:
            terminal.kill()


def test_doas_is_asked_where_there_is_no_sudo(web1: RemoteMachine) -> None:
    there = f"mv /usr/bin/sudo /usr/bin/kept; echo permit nopass {USER} > /etc/doas.conf; chmod 600 /etc/doas.conf"
    with changed(web1, there, "mv /usr/bin/kept /usr/bin/sudo; rm /etc/doas.conf"):
        assert apply_and_revert(web1).count("asking doas there") == 2
        web1.run("sh", "-c", f"echo permit {USER} > /etc/doas.conf")
        done = web1.ktrial("revert")
        assert (done.returncode, "nopass" in done.stderr) == (5, True), done.stderr


def test_without_sudo_and_doas_the_user_reads_and_cannot_write(web1: RemoteMachine) -> None:
    with changed(
        web1,
        "mv /usr/bin/sudo /usr/bin/kept; mv /usr/bin/doas /usr/bin/kept2",
        "mv /usr/bin/kept /usr/bin/sudo; mv /usr/bin/kept2 /usr/bin/doas",
    ):
        assert web1.ktrial("plan", f"{KNOB}=512").returncode == 0
        assert web1.ktrial("bench", "-n", "1", "--", "true").returncode == 0
        done = web1.ktrial("apply", f"{KNOB}=512")
        assert (done.returncode, "neither sudo nor doas" in done.stderr) == (5, True), done.stderr
        assert "--host ssh:root@NAME" in done.stderr


def test_root_needs_no_question(web1: RemoteMachine) -> None:
    home = web1.run("find", "/root", "-maxdepth", "2")
    assert "asking" not in apply_and_revert(web1, host="ssh:root@web1")
    assert web1.run("find", "/root", "-maxdepth", "2") == home


def test_a_jump_host_leads_there(web1: RemoteMachine) -> None:
    with remote_machine("hop", more=inwards(web1.folder / "socket", 2222)) as hop:
        assert eventually(lambda: ":2222 " in hop.run("ss", "-ltn"))
        lines = [
            "    ProxyJump hop",
            hop.ssh_config.read_text().strip(),
            web1.ssh_config.read_text().strip().replace(f"Port {web1.way.port}", "Port 2222"),
        ]
        config = web1.folder / "jump_config"
        config.write_text("\n".join(["Host web1", *lines]))
        inner = web1.folder / "bin/ssh"
        before = inner.read_text()
        inner.write_text(before.replace(str(web1.ssh_config), str(config)))
        try:
            asked = hop.way.to_bytes
            apply_and_revert(web1)
            assert hop.way.to_bytes > asked
        finally:
            inner.write_text(before)


def test_commands_share_a_connection_of_ssh(web1: RemoteMachine) -> None:
    with ssh_options(web1, f"    ControlPath {web1.folder}/control", "    ControlMaster auto", "    ControlPersist 60"):
        try:
            apply_and_revert(web1)
            assert (web1.folder / "control").exists()
        finally:
            stop = ["ssh", "-O", "exit", "web1"]
            subprocess.run(stop, env=web1.environment(), check=False, capture_output=True)


def test_one_session_of_sshd_is_enough(web1: RemoteMachine) -> None:
    limit = f"echo MaxSessions 1 >> {web1.folder}/sshd_config; pkill -HUP -o sshd"
    with changed(web1, limit, f"sed -i '/MaxSessions 1/d' {web1.folder}/sshd_config; pkill -HUP -o sshd"):
        assert eventually(web1.is_up, 10)
        apply_and_revert(web1)
        assert web1.ktrial("bench", "-n", "1", "--", "true").returncode == 0


@pytest.mark.parametrize("delay_s", [0.01, 0.1])
def test_a_slow_line_that_drops_packets_gives_the_same_answers(web1: RemoteMachine, delay_s: float) -> None:
    def names() -> set[str]:
        return set(json.loads(web1.ktrial("facts", "--json").stdout)["facts"])

    assert web1.ktrial("--host-keep-agent", "facts").returncode == 0
    near = names()
    web1.way.delay_s, web1.way.loss = delay_s, 0.05
    try:
        assert names() == near
        bench = web1.ktrial("bench", "-n", "2", "--json", "--", "sleep", "0.05")
        assert bench.returncode == 0, bench.stderr
        (wall,) = [one for one in json.loads(bench.stdout.splitlines()[-1])["summaries"] if one["outcome"] == "wall"]
        assert wall["n"] == 2
        assert 0.05 <= wall["median"] < 0.15, "the line is part of the measurement"
    finally:
        web1.way.delay_s = web1.way.loss = 0.0
        web1.run("rm", "-r", f"{web1.home}/.cache/ktrial")


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/csh", "/usr/bin/fish"])
def test_login_shells_pass_the_start_on(web1: RemoteMachine, shell: str) -> None:
    end = f"sed -i '/^{USER}:/s,:[^:]*$,:/bin/bash,' /etc/passwd; rm -rf {web1.home}/.config {web1.home}/.local"
    with changed(web1, f"sed -i '/^{USER}:/s,/bin/bash$,{shell},' /etc/passwd", end):
        assert web1.run("getent", "passwd", USER).strip().endswith(shell)
        done = web1.ktrial("plan", f"{KNOB}=512")
        assert done.returncode == 0, done.stderr


def test_a_profile_that_prints_does_not_disturb(web1: RemoteMachine) -> None:
    noise = 'echo "Welcome to web1"; echo; printf "\\033[1mno newline"'
    for file in (".bashrc", ".profile", ".bash_profile"):
        (web1.home / file).write_text(noise)
    try:
        done = web1.ktrial("plan", "--json", f"{KNOB}=512")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["plan"]["steps"]
    finally:
        for file in (".bashrc", ".profile", ".bash_profile"):
            (web1.home / file).unlink()

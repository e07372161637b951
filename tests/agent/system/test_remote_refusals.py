# SPDX-License-Identifier: Apache-2.0
"""What is wrong on the way to another machine, or there: each is one clear message with a next step."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.agent.system.test_remote_ways import OWN_PROGRAMS, changed, ssh_options
from tests.support.long import IS_LONG
from tests.support.remote_machine import UID, USER, RemoteMachine, remote_machine
from tests.support.terminal import eventually

KNOB, FILE = "net.core.somaxconn", "/proc/sys/net/core/somaxconn"
COPY = ".cache/ktrial/agents"


@pytest.fixture(scope="module")
def web1() -> Iterator[RemoteMachine]:
    with remote_machine(more=OWN_PROGRAMS) as machine:
        yield machine


@pytest.fixture(autouse=True)
def nothing_stays(web1: RemoteMachine) -> Iterator[None]:
    before = web1.run("find", str(web1.home))
    yield
    assert eventually(lambda: not web1.processes(), 10), web1.processes()
    assert web1.run("find", str(web1.home)) == before


def refusal(web1: RemoteMachine, *words: str, host: str | None = None, status: int = 1) -> str:
    done = web1.ktrial(*(words or ("facts",)), host=host)
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout == ""
    assert [line[:8] for line in done.stderr.splitlines()].count("ktrial: ") == 1, done.stderr
    assert "  next: " in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize("word", ["ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:a\n"])
def test_a_word_that_is_no_name(web1: RemoteMachine, word: str) -> None:
    assert "not the name of a machine" in refusal(web1, host=word, status=2)


def test_a_machine_that_nobody_knows(web1: RemoteMachine) -> None:
    said = refusal(web1, host="ssh:nobody.invalid")
    assert "cannot connect to nobody.invalid: " in said
    assert "first make `ssh nobody.invalid true` work" in said


def test_a_port_that_nobody_serves(web1: RemoteMachine) -> None:
    with ssh_options(web1, "    Port 1"):
        assert "Connection refused" in refusal(web1)


def test_a_key_of_the_host_that_changed(web1: RemoteMachine) -> None:
    known = web1.folder / "known_hosts"
    before = known.read_text()
    other = (web1.folder / "key.pub").read_text().split()
    known.write_text(f"web1 {other[0]} {other[1]}\n")
    try:
        assert "Host key verification failed" in refusal(web1)
    finally:
        known.write_text(before)


def test_a_key_that_the_machine_does_not_take(web1: RemoteMachine) -> None:
    with ssh_options(web1, f"    IdentityFile {web1.folder}/host_key", "    BatchMode yes"):
        keys = web1.folder / "authorized_keys"
        before = keys.read_text()
        keys.write_text("")
        try:
            assert "cannot connect to web1: remote@127.0.0.1: Permission denied (publickey" in refusal(web1)
        finally:
            keys.write_text(before)


def test_a_full_disk(web1: RemoteMachine) -> None:
    mount = f"mount -t tmpfs -o size=1m,uid={UID},mode=700 tmpfs {web1.home}"
    with changed(web1, mount, f"umount --lazy {web1.home}"):
        said = refusal(web1)
        assert "no folder there can hold and run it" in said
        assert said.count("No space left on device (") == 2
        assert web1.run("find", str(web1.home)).split() == [str(web1.home)]


def test_a_folder_in_memory_serves_where_the_home_is_full(web1: RemoteMachine) -> None:
    runtime = f"mkdir -p /run/user/{UID}; chown {UID} /run/user/{UID}"
    mount = f"mount -t tmpfs -o size=1m,uid={UID},mode=700 tmpfs {web1.home}; {runtime}"
    with changed(web1, mount, f"umount --lazy {web1.home}"):
        done = web1.ktrial("facts", "--json")
        assert done.returncode == 0, done.stderr
        assert web1.run("find", f"/run/user/{UID}").split() == [f"/run/user/{UID}"]
    web1.run("rmdir", f"/run/user/{UID}")


def test_no_program_may_start_anywhere(web1: RemoteMachine) -> None:
    mount = f"mount -t tmpfs -o noexec,uid={UID},mode=700 tmpfs {web1.home}"
    with changed(web1, mount, f"umount --lazy {web1.home}"):
        said = refusal(web1)
        assert said.count("Permission denied") == 3
        assert "without noexec" in said
        assert web1.run("find", str(web1.home)).split() == [str(web1.home)]


def test_an_architecture_without_an_agent(web1: RemoteMachine) -> None:
    other = "printf '#!/bin/sh\\necho riscv64\\n' > /usr/bin/uname"
    fake = f"mv /usr/bin/uname /usr/bin/kept; {other}; chmod 755 /usr/bin/uname"
    with changed(web1, fake, "mv /usr/bin/kept /usr/bin/uname"):
        said = web1.ktrial("facts")
        assert said.returncode == 1
        assert "riscv64" in said.stderr
        assert "guest" not in said.stderr, said.stderr
        assert "  next: " in said.stderr


def test_a_login_that_is_no_shell(web1: RemoteMachine) -> None:
    there = f"sed -i '/^{USER}:/s,/bin/bash$,/usr/sbin/nologin,' /etc/passwd"
    with changed(web1, there, f"sed -i '/^{USER}:/s,:[^:]*$,:/bin/bash,' /etc/passwd"):
        said = refusal(web1)
        assert "its login ended with status 1: This account is currently not available" in said


def test_another_version_that_was_left_is_removed(web1: RemoteMachine) -> None:
    old = f"{web1.home}/{COPY}/{'0' * 64}"
    web1.run("sh", "-c", f"mkdir -p {old}; cp /bin/true {old}/ktrial-agent; chown -R {UID}:{UID} {web1.home}/.cache")
    assert web1.ktrial("facts").returncode == 0
    assert not (web1.home / ".cache/ktrial").exists()
    (web1.home / ".cache").rmdir()


def test_a_copy_that_is_damaged_is_replaced(web1: RemoteMachine) -> None:
    assert web1.ktrial("--host-keep-agent", "facts").returncode == 0
    (copy,) = (web1.home / COPY).glob("*/ktrial-agent")
    copy.write_bytes(copy.read_bytes()[:1000])
    (copy.parent / "keep").unlink()
    assert web1.ktrial("facts").returncode == 0
    assert not (web1.home / ".cache/ktrial").exists()
    (web1.home / ".cache").rmdir()


def test_a_copy_that_stays_is_used_again(web1: RemoteMachine) -> None:
    assert web1.ktrial("--host-keep-agent", "facts").returncode == 0
    (copy,) = (web1.home / COPY).glob("*/ktrial-agent")
    sent = web1.way.to_bytes
    assert web1.ktrial("facts").returncode == 0
    assert web1.way.to_bytes - sent < 100_000
    assert copy.exists()
    web1.run("rm", "-r", f"{web1.home}/.cache")


def test_clocks_that_differ_by_an_hour(web1: RemoteMachine) -> None:
    """Deadlines count on the machine, and times of day are those of the head."""
    library = web1.folder / "late"
    library.mkdir(exist_ok=True)
    (library / "sitecustomize.py").write_text(
        "import time\nreal, real_ns = time.time, time.time_ns\n"
        "time.time = lambda: real() + 3600\ntime.time_ns = lambda: real_ns() + 3600 * 10**9\n"
    )
    late = {"PYTHONPATH": f"{library}:{web1.environment().get('PYTHONPATH', '')}"}
    before = web1.read(FILE)
    done = web1.ktrial("apply", f"{KNOB}=512", "--for", "1h", more=late)
    assert done.returncode == 0, done.stderr
    try:
        (shown,) = json.loads(web1.ktrial("status", "--json", more=late).stdout)["transactions"]
        assert 3_500_000 < shown["left_ms"] <= 3_600_000
    finally:
        assert web1.ktrial("revert", more=late).returncode == 0
    assert web1.read(FILE) == before
    bench = web1.ktrial("bench", "-n", "1", "--", "sleep", "0.05", more=late)
    assert bench.returncode == 0, bench.stderr


@pytest.mark.parametrize("verb", ["bench", "try"])
def test_a_second_head_is_refused_and_the_first_is_named(web1: RemoteMachine, verb: str) -> None:
    words = {
        "bench": ("bench", "-n", "1", "--", "sleep", "8.17"),
        "try": ("try", f"{KNOB}=512", "--no-profile", "--", "sleep", "8.17"),
    }[verb]
    with subprocess.Popen(
        web1.command(*words),
        env=web1.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as first:
        try:
            assert eventually(lambda: bool(web1.processes("sleep 8.17")), 30)
            second = web1.ktrial(*words)
            assert second.returncode == 1, second.stderr
            what = "another measurement" if verb == "bench" else "another trial"
            assert f"{what} runs on web1: " in second.stderr
            assert "head" in second.stderr or "ktrial" in second.stderr.partition("runs on web1: ")[2], second.stderr
        finally:
            first.terminate()
            first.wait(60)
    assert eventually(lambda: not web1.processes("sleep 8.17"), 10)


def test_heads_that_start_and_end_together_do_not_disturb_each_other(web1: RemoteMachine) -> None:
    """One removes its copy while the other one starts from it."""
    end_s = time.monotonic() + (12 if IS_LONG else 4)
    while time.monotonic() < end_s:
        heads = [
            subprocess.Popen(
                web1.command("facts", "--json"),
                env=web1.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        for head in heads:
            _, said = head.communicate(timeout=60)
            assert head.returncode == 0, said
    # The head that created this folder was not the last one.
    with contextlib.suppress(FileNotFoundError):
        (web1.home / ".cache").rmdir()

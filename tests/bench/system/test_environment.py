# SPDX-License-Identifier: Apache-2.0
"""A surrounding that fails: each time one message that names what, why and the next step, and nothing written."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.kit.errors import AgentError
from tests.support.terminal import KTRIAL, eventually
from tests.support.tree import FakeRoot, Ran, add_knobs

SWAPPINESS = Path("/proc/sys/vm/swappiness")


def one_message(ran: Ran, status: int, *words: str) -> None:
    """The command failed with one message that holds these words, and a next step."""
    assert ran.status == status, ran.err
    assert "Traceback" not in ran.err
    messages = [line for line in ran.err.splitlines() if line.startswith("ktrial: ")]
    steps = [line for line in ran.err.splitlines() if line.startswith("  next: ")]
    assert (len(messages), len(steps)) == (1, 1), ran.err
    for word in words:
        assert word in messages[0] + steps[0], ran.err


def run(*argv: str, wrapper: Sequence[str] = ()) -> Ran:
    """One command on this machine, in a process of its own."""
    ran = subprocess.run(
        [*wrapper, *KTRIAL, *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


# The machine's own kernel ---------------------------------------------------------------------------------------------


@pytest.fixture
def swappiness() -> Iterator[str]:
    before = SWAPPINESS.read_text()
    assert before != "61\n"
    yield before
    SWAPPINESS.write_text(before)


@pytest.mark.root
@pytest.mark.usefixtures("real_machine")
class TestRealMachine:
    def test_read_only_proc_sys(self, swappiness: str, tmp_path: Path) -> None:
        mount = 'mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$@"'
        wrapper = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh"]
        state = ["--machine-state", str(tmp_path / "state")]
        for option in ((), ("--keep-going",)):
            ran = run(*state, "apply", "vm.swappiness=61", "--yes", *option, wrapper=wrapper)
            said = " ".join(ran.out.split())
            assert (ran.status, ran.err) == (1, "ktrial: nothing was applied; the reasons are above\n")
            assert "/proc/sys is mounted read-only, as in containers (run ktrial on the host)" in said
            assert SWAPPINESS.read_text() == swappiness
        assert run(*state, "plan", "vm.swappiness=61", wrapper=wrapper).status == 0

    def test_a_missing_capability(self, tmp_path: Path) -> None:
        """As a locked down kernel answers: root, and still not permitted."""
        knob = Path("/proc/sys/kernel/numa_balancing")
        before = knob.read_text()
        wanted = 1 - int(before)
        wrapper = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
        state = ["--machine-state", str(tmp_path / "state")]
        ran = run(*state, "apply", f"kernel.numa_balancing={wanted}", "vm.swappiness=61", "--yes", wrapper=wrapper)
        said = " ".join(ran.out.split())
        assert (ran.status, ran.err) == (1, "")
        assert "Operation not permitted" in said
        assert "next: kernel lockdown" in said
        assert "Nothing was changed" in said
        assert knob.read_text() == before
        assert SWAPPINESS.read_text() != "61\n"

    def test_a_value_that_names_nothing_is_invalid(self, tmp_path: Path) -> None:
        knob = Path("/proc/sys/net/ipv4/tcp_congestion_control")
        before = knob.read_text()
        step = {"kind": "write", "path": str(knob), "new": "nosuch\n", "verify": "exact"}
        plan = {"schema": "ktrial.plan/2", "title": "", "lease": {"kind": "keep"}, "keep_going": False, "steps": [step]}
        argv = [str(find_agent()), "serve", "--role", "root", "--state", str(tmp_path / "state")]
        session = AgentSession(ProcessTransport(argv))
        answer = session.request("apply", plan=plan)
        session.close()
        assert [(step["outcome"], step["errno"]) for step in answer["steps"]] == [("invalid", 2)]
        assert "the value names something that does not exist" in answer["steps"][0]["message"]
        assert knob.read_text() == before

    @pytest.fixture
    def small_disk(self, tmp_path: Path) -> Iterator[Path]:
        """64 KiB of disk with a state folder that was used before."""
        disk = tmp_path / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", disk], check=True)
        try:
            yield disk
        finally:
            subprocess.run(["umount", disk], check=True)

    @pytest.mark.parametrize("used", [False, True], ids=["new", "used-before"])
    def test_a_full_disk(self, small_disk: Path, swappiness: str, used: bool) -> None:
        state = ["--machine-state", str(small_disk / "state")]
        if used:
            assert run(*state, "apply", "vm.swappiness=61", "--yes").status == 0
            assert run(*state, "revert").status == 0
        with contextlib.suppress(OSError), (small_disk / "fill").open("wb", buffering=0) as fill:
            while fill.write(b"x" * 4096):
                pass
        ran = run(*state, "apply", "vm.swappiness=61", "--yes")
        ran.err = "".join(line for line in ran.err.splitlines(True) if not line.startswith("ktrial-agent: "))
        one_message(ran, 1, str(small_disk), "No space left on device", "nothing was changed", "free space")
        assert SWAPPINESS.read_text() == swappiness

    def test_a_disk_that_fills_up_keeps_no_value_from_going_back(self, small_disk: Path, swappiness: str) -> None:
        """The machine can be put right: after making room, nothing is lost."""
        state = ["--machine-state", str(small_disk / "state")]
        assert run(*state, "apply", "vm.swappiness=61", "--yes").status == 0
        with contextlib.suppress(OSError), (small_disk / "fill").open("wb", buffering=0) as fill:
            while fill.write(b"x" * 4096):
                pass
        run(*state, "revert")
        (small_disk / "fill").unlink()
        run(*state, "revert")
        assert SWAPPINESS.read_text() == swappiness
        assert run(*state, "status").out.startswith("Nothing is applied.")

    @pytest.mark.parametrize("used", [False, True], ids=["new", "used-before"])
    def test_a_read_only_disk(self, small_disk: Path, swappiness: str, used: bool) -> None:
        state = ["--machine-state", str(small_disk / "state")]
        if used:
            assert run(*state, "apply", "vm.swappiness=61", "--yes").status == 0
            assert run(*state, "revert").status == 0
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        ran = run(*state, "apply", "vm.swappiness=61", "--yes")
        one_message(ran, 1, str(small_disk), "Read-only file system", "nothing was changed", "writable")
        assert SWAPPINESS.read_text() == swappiness
        assert run(*state, "status").out.startswith("Nothing is applied.")

    def test_a_journal_that_others_could_write_is_not_trusted(self, swappiness: str, tmp_path: Path) -> None:
        state = tmp_path / "state"
        state.mkdir()
        state.chmod(0o777)
        ran = run("--machine-state", str(state), "apply", "vm.swappiness=61", "--yes")
        one_message(ran, 1, str(state), "is writable by others", "nothing was changed")
        assert SWAPPINESS.read_text() == swappiness


# Two at once, and agents that fail ------------------------------------------------------------------------------------


def test_a_second_apply_at_the_same_time_is_busy_and_names_who(root: FakeRoot) -> None:
    assert root.run("apply", "vm.swappiness=10", "--yes").status == 0
    lock = root.folder / "var/lib/ktrial/lock"
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.truncate()
        held.write(f"{os.getpid()}\n")
        held.flush()
        for argv in (("apply", "vm.swappiness=20", "--yes"), ("revert",)):
            one_message(root.run(*argv), 1, f"process {os.getpid()} holds the lock", "try again when it has ended")
            assert root.read("/proc/sys/vm/swappiness") == "10\n"
    assert root.run("revert").status == 0


def root_session(root: FakeRoot) -> AgentSession:
    return AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "root", "--root", str(root.folder)]))


def test_an_agent_killed_between_two_requests(root: FakeRoot) -> None:
    session = root_session(root)
    os.kill(session.hello["pid"], signal.SIGKILL)
    with pytest.raises(AgentError) as caught:
        session.request("status")
    assert caught.value.kind == "lost"
    assert "killed by signal 9" in caught.value.message
    assert "ktrial recover" in str(caught.value.hint)
    session.close()


def test_an_agent_killed_in_the_middle_of_a_transaction(root: FakeRoot) -> None:
    paths = [f"/proc/sys/vm/knob{number}" for number in range(2000)]
    add_knobs(root.folder, "/proc/sys/vm/knob{device}")
    steps = []
    for path in paths:
        root.write(path, "1\n")
        steps.append({"kind": "write", "path": path, "new": "2\n", "verify": "integer"})
    plan = {"schema": "ktrial.plan/2", "title": "", "lease": {"kind": "keep"}, "keep_going": False, "steps": steps}
    argv = [str(find_agent()), "serve", "--role", "root", "--root", str(root.folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as agent:
        assert agent.stdin is not None
        agent.stdin.write(json.dumps({"id": 1, "do": "apply", "plan": plan}).encode() + b"\n")
        agent.stdin.flush()
        assert eventually(lambda: root.read(paths[0]) == "2\n")
        agent.kill()
    assert root.read(paths[-1]) == "1\n"
    one_message(root.run("apply", "vm.swappiness=10", "--yes"), 1, "transaction 1 is unfinished", "recover")
    recovered = root.run("recover")
    assert recovered.status == 0, recovered.out
    assert {root.read(path) for path in paths} == {"1\n"}
    assert root.run("apply", "vm.swappiness=10", "--yes").status == 0


HELLO = '{"id": 1, "ok": {"protocol": 1, "agent": "%s", "role": "root", "pid": 1}}'
PROTOCOL_2 = (
    '{"id": 1, "error": {"kind": "version", "message": "head 0.1.0 speaks protocol 1, agent 9 speaks 2", '
    '"hint": "install the head and the agent from the same release"}}'
)
FAKES = {
    "another-version": (f"read line; echo '{HELLO % '9.9.9'}'; cat >/dev/null", ("version 9.9.9", "rebuild the agent")),
    "another-protocol": (f"read line; echo '{PROTOCOL_2}'; cat >/dev/null", ("speaks protocol 1", "same release")),
    "garbage": ("read line; echo garbage; sleep 60", ("invalid answer", "rebuild the agent")),
    "bytes": (r"read line; printf '\377\376\000\n'; sleep 60", ("invalid answer", "rebuild the agent")),
    "other-json": ("read line; echo '[1, 2]'; sleep 60", ("invalid answer", "rebuild the agent")),
    "wrong-types": ("""read line; echo '{"id": 1, "error": 7}'; sleep 60""", ("invalid answer", "agent")),
    "wrong-id": (
        f"read line; echo '{(HELLO % '0.1.0').replace('1', '77', 1)}'; sleep 60",
        ("another request", "agent"),
    ),
    "half-a-line": ("read line; printf '{\"id\": 1'", ("ended without an answer", "rebuild the agent")),
    "dies": ("exit 3", ("exit status 3", "rebuild the agent")),
    "dies-by-signal": ("kill -SEGV $$", ("killed by signal 11", "rebuild the agent")),
    "silent": ("sleep 60", ("no answer within", "rebuild the agent")),
    "not-a-program": ("", ("cannot start", "rebuild the agent")),
}


@pytest.mark.parametrize("name", FAKES)
@pytest.mark.parametrize("verb", [("plan", "vm.swappiness=10"), ("apply", "vm.swappiness=10", "--yes")])
def test_an_agent_that_is_none(
    root: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, verb: tuple[str, ...]
) -> None:
    script, words = FAKES[name]
    fake = tmp_path / "ktrial-agent"
    fake.write_text(f"#!/bin/sh\n{script}\n" if script else "\x7fELF, and no more")
    fake.chmod(0o755)
    monkeypatch.setattr("ktrial.agent.binary.find_agent", lambda: fake)
    monkeypatch.setattr("ktrial.agent.session._HELLO_LIMIT_S", 0.5)
    before = root.values()
    one_message(root.run(*verb), 1, *words)
    assert root.values() == before


def test_an_agent_lost_in_the_middle_names_recover(
    root: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers all but the apply, and ends there."""
    fake = tmp_path / "ktrial-agent"
    fake.write_text(
        '#!/bin/sh\nwhile read -r line; do case $line in *\'"do":"apply"\'*) exit ;; esac; '
        f'printf "%s\\n" "$line"; done | {find_agent()} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setattr("ktrial.agent.binary.find_agent", lambda: fake)
    one_message(
        root.run("apply", "vm.swappiness=10", "--yes"),
        1,
        "lost the agent during 'apply'",
        "ended without an answer",
        "recover",
    )
    assert root.read("/proc/sys/vm/swappiness") == "60\n"


# Journals -------------------------------------------------------------------------------------------------------------


def journal(root: FakeRoot) -> Path:
    return root.folder / "var/lib/ktrial/transactions/000001.journal"


def applied(root: FakeRoot) -> dict[str, str]:
    before = root.values()
    assert root.run("apply", "vm.swappiness=10", "vm.stat_interval=7", "vm.page-cluster=0", "--yes").status == 0
    assert root.values() != before
    return before


def test_a_truncated_journal_is_recovered(root: FakeRoot) -> None:
    """Cut behind any line from the first write on: an apply that did not finish, whose old values are all there."""
    before = applied(root)
    lines = journal(root).read_bytes().splitlines(keepends=True)
    armed = next(number for number, line in enumerate(lines) if b'"armed"' in line)
    changed = root.values()
    for kept in range(armed + 2, len(lines)):
        for cut in (0, 9, -1):
            journal(root).write_bytes(b"".join(lines[:kept]) + lines[kept][:cut])
            for path, text in changed.items():
                root.write(f"/{path}", text)
            assert "transaction 1 is unfinished" in root.run("status").out
            recovered = root.run("recover")
            assert recovered.status == 0, recovered.out + recovered.err
            assert root.values() == before


def named(root: FakeRoot, *words: str) -> None:
    """It is unfinished: recover ends with 1, nothing is put over it, and status and doctor say what to do."""
    found = root.values()
    recovered = root.run("recover")
    assert (recovered.status, root.values()) == (1, found)
    status = root.run("status")
    assert status.status == 0
    doctor = root.run("doctor")
    one_message(root.run("apply", "vm.vfs_cache_pressure=50", "--yes"), 1, "transaction 1 is unfinished", *words)
    for said in (recovered.out, status.out, doctor.out):
        flat = " ".join(said.split())
        assert "transaction 1 is unfinished" in flat, said
        for word in (*words, "revert --only 1"):
            assert word in flat, said


def resolved(root: FakeRoot, *force: str) -> None:
    """Somebody names it: it is over, and nothing speaks of it any more."""
    root.run("revert", "--only", "1", *force)
    assert root.run("status").out.startswith("Nothing is applied.")
    for verb in ("status", "doctor"):
        assert "unfinished" not in root.run(verb).out
        assert "damaged" not in root.run(verb).out
    assert root.run("recover").status == 0
    assert root.run("apply", "vm.vfs_cache_pressure=50", "--yes").status == 0


def test_a_journal_that_ends_before_the_first_write_is_unfinished(root: FakeRoot) -> None:
    before = applied(root)
    changed = root.values()
    lines = journal(root).read_bytes().splitlines(keepends=True)
    armed = next(number for number, line in enumerate(lines) if b'"armed"' in line)
    journal(root).write_bytes(b"".join(lines[:armed]))
    named(root, "nothing proves that the transaction wrote", "vm/swappiness")
    assert root.values() == changed
    resolved(root, "--force")
    assert root.run("revert").status == 0
    assert root.values() == before


def test_a_corrupt_line_is_named_and_the_rest_goes_back(root: FakeRoot) -> None:
    before = applied(root)
    lines = journal(root).read_bytes().splitlines(keepends=True)
    lost = next(number for number, line in enumerate(lines) if b'"old"' in line and b"stat_interval" in line)
    lines[lost] = lines[lost].replace(b"stat_interval", b"stat_intervaX")
    journal(root).write_bytes(b"".join(lines))
    status = root.run("status")
    assert "damaged: " in status.out
    assert f"{journal(root).name}: line {lost + 1}: " in " ".join(status.out.split()).replace("/ ", "/")
    reverted = root.run("revert")
    assert reverted.status == 1
    said = " ".join(reverted.out.split())
    assert "stat_interval is lost: the journal is damaged" in said
    left = {path for path, text in root.values().items() if before[path] != text}
    assert left == {"proc/sys/vm/stat_interval"}
    named(root, "cannot restore", "vm/stat_interval", "--force")
    resolved(root, "--force")


@pytest.mark.parametrize("verb", ["apply", "revert"])
def test_a_damaged_end_is_asked_about_and_nothing_is_touched(root: FakeRoot, verb: str) -> None:
    """It may be over, and what is there a third party's."""
    applied(root)
    if verb == "revert":
        assert root.run("revert").status == 0
    root.write("/proc/sys/vm/swappiness", "33\n")
    lines = journal(root).read_bytes().splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b"entry", b"entrx", 1)
    journal(root).write_bytes(b"".join(lines))
    found = root.values()
    assert root.run("revert", "--all", "--force").status == 1
    assert root.values() == found
    named(root, f"line {len(lines)} of", "is damaged")
    resolved(root)
    assert root.read("/proc/sys/vm/swappiness") == "33\n"


@pytest.mark.parametrize("what", ["garbage", "binary"])
def test_a_journal_that_says_nothing_is_named_until_somebody_ends_it(root: FakeRoot, what: str) -> None:
    applied(root)
    contents = {"garbage": b"nothing\n" * 9, "binary": bytes(range(256)) * 40}
    journal(root).write_bytes(contents[what])
    for verb in ("status", "recover", "verify", "revert"):
        ran = root.run(verb)
        assert ran.status in {0, 1, 3}, verb
        assert "Traceback" not in ran.err
        assert ran.out + ran.err
    named(root, "lines of", "are damaged")
    resolved(root, "--force")


def test_an_empty_journal_wrote_nothing_and_stops_nothing(root: FakeRoot) -> None:
    """The first line is on the disk before anything is written."""
    applied(root)
    journal(root).write_bytes(b"")
    assert root.run("recover").status == 0
    assert root.run("apply", "vm.swappiness=20", "--yes").status == 0


def test_a_journal_without_its_first_line_is_reverted(root: FakeRoot) -> None:
    before = applied(root)
    text = journal(root).read_bytes()
    journal(root).write_bytes(b"00000000" + text[8:])
    assert root.run("recover").status == 0
    assert root.run("revert").status == 0
    assert root.values() == before
    assert root.run("apply", "vm.swappiness=20", "--yes").status == 0


def test_what_lies_among_the_journals_and_is_none_is_named_and_skipped(root: FakeRoot) -> None:
    before = applied(root)
    os.mkfifo(journal(root).with_name("000007.journal"))
    journal(root).with_name("9.journal").write_bytes(b"stray")
    for verb in ("status", "doctor"):
        said = " ".join(root.run(verb).out.split())
        assert "000007.journal: not a regular file" in said
        assert "9.journal: not the name of a journal" in said
    assert root.run("apply", "vm.vfs_cache_pressure=50", "--yes").status == 0
    assert root.run("recover").status == 0
    assert root.run("revert", "--all").status == 0
    assert root.values() == before

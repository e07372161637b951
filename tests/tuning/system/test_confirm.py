# SPDX-License-Identifier: Apache-2.0
"""`--confirm` and `--for` on a terminal: answers, silence, Ctrl-C, a closed window, and kill -9 of everything."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from tests.support.terminal import KTRIAL, Terminal, eventually
from tests.support.tree import FakeRoot, add_knobs

KNOB = "/proc/sys/vm/swappiness"
#: Longer than any test here: what is put back earlier was not put back by the lease.
LONG = "600s"


@pytest.fixture
def open_terminal(root: FakeRoot) -> Iterator[Callable[..., Terminal]]:
    """Starts an apply on a terminal."""
    terminals = []

    def start(*options: str) -> Terminal:
        terminal = Terminal([*KTRIAL, "--machine-root", str(root.folder), "apply", "vm.swappiness=10", *options])
        terminals.append(terminal)
        return terminal

    yield start
    for terminal in terminals:
        terminal.kill()
    # What a failed test leaves behind must not hold its lease for long.
    root.run("revert", "--all", "--force")


Open = Callable[..., Terminal]


def asked(root: FakeRoot, terminal: Terminal) -> Terminal:
    """The same terminal, where the question stands and the setting is in force."""
    terminal.wait_for("Keep these settings?")
    assert root.read(KNOB) == "10\n"
    return terminal


def test_yes_keeps(root: FakeRoot, open_terminal: Open) -> None:
    terminal = asked(root, open_terminal("--yes", "--confirm", "3s"))
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "Confirmed." in terminal.said
    assert not eventually(lambda: root.read(KNOB) != "10\n", 4.0)
    assert "until reverted or reboot" in root.run("status").out


def test_no_puts_back_at_once(root: FakeRoot, open_terminal: Open) -> None:
    terminal = asked(root, open_terminal("--yes", "--confirm", LONG))
    terminal.type("n\n")
    assert terminal.end() == 1
    assert "Not confirmed." in terminal.said
    assert "1 of 1 restored" in terminal.said
    assert root.read(KNOB) == "60\n"


def test_silence_puts_back(root: FakeRoot, open_terminal: Open) -> None:
    terminal = asked(root, open_terminal("--yes", "--confirm", "2s"))
    assert terminal.end() == 1
    assert "Traceback" not in terminal.said
    assert eventually(lambda: root.read(KNOB) == "60\n")
    assert root.run("status").out.startswith("Nothing is applied.")


def test_ctrl_c_at_the_question_puts_back_at_once(root: FakeRoot, open_terminal: Open) -> None:
    terminal = asked(root, open_terminal("--yes", "--confirm", LONG))
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "1 of 1 restored" in terminal.said
    assert "Traceback" not in terminal.said
    assert root.read(KNOB) == "60\n"


def test_ctrl_c_before_the_apply_writes_nothing(root: FakeRoot, open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for("Apply?")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert root.read(KNOB) == "60\n"
    assert root.run("status").out.startswith("Nothing is applied.\n\nnext  ")


def test_a_closed_window_puts_back(root: FakeRoot, open_terminal: Open) -> None:
    terminal = asked(root, open_terminal("--yes", "--confirm", LONG))
    terminal.close()
    assert terminal.end() == 129
    assert root.read(KNOB) == "60\n"


def test_sigterm_at_the_question_puts_back_at_once(root: FakeRoot, open_terminal: Open) -> None:
    terminal = asked(root, open_terminal("--yes", "--confirm", LONG))
    terminal.process.terminate()
    assert terminal.end() == 143
    assert "1 of 1 restored" in terminal.said
    assert "ktrial: interrupted by SIGTERM" in terminal.said
    assert root.read(KNOB) == "60\n"


@pytest.mark.parametrize("whom", ["head", "agent", "both"])
def test_kill_9_puts_back(root: FakeRoot, open_terminal: Open, whom: str) -> None:
    terminal = asked(root, open_terminal("--yes", "--confirm", "3s"))
    agents = terminal.agents()
    assert agents
    for pid in agents if whom in {"agent", "both"} else []:
        os.kill(pid, signal.SIGKILL)
    if whom in {"head", "both"}:
        terminal.process.kill()
    terminal.end()
    assert "Traceback" not in terminal.said
    assert eventually(lambda: root.read(KNOB) == "60\n")
    assert eventually(lambda: root.run("status").out.startswith("Nothing is applied."))


def test_for_outlives_its_terminal(root: FakeRoot, open_terminal: Open) -> None:
    terminal = open_terminal("--yes", "--for", "2s")
    assert terminal.end() == 0
    terminal.close()
    assert root.read(KNOB) == "10\n"
    assert eventually(lambda: root.read(KNOB) == "60\n")


def test_ctrl_c_while_the_agent_writes_waits_for_it_and_puts_back(root: FakeRoot, open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for("Apply?")
    (agent,) = terminal.agents()
    os.kill(agent, signal.SIGSTOP)
    terminal.type("y\n")
    terminal.wait_for("y\r\n")
    # The request is in the agent's pipe as soon as the head waits for the answer in its own.
    syscall = Path(f"/proc/{terminal.process.pid}/wchan")
    assert eventually(lambda: "pipe" in syscall.read_text())
    terminal.type("\x03")
    terminal.wait_for("waiting for the agent to finish")
    os.kill(agent, signal.SIGCONT)
    assert terminal.end() == 130
    assert "1 of 1 restored" in terminal.said
    assert root.read(KNOB) == "60\n"
    assert root.run("status").out.startswith("Nothing is applied.")


STEPS = 3000


def long_plan(root: FakeRoot) -> dict[str, object]:
    """So many writes that a signal surely comes between two of them."""
    steps = []
    add_knobs(root.folder, "/proc/sys/vm/knob{device}")
    for number in range(STEPS):
        path = f"/proc/sys/vm/knob{number}"
        root.write(path, "1\n")
        steps.append({"kind": "write", "path": path, "new": "2\n", "verify": "integer"})
    lease = {"kind": "keep"}
    return {"schema": "ktrial.plan/2", "title": "long", "lease": lease, "keep_going": False, "steps": steps}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("how", ["serve", "by-hand"])
def test_a_signal_does_not_stop_a_transaction_half_way(root: FakeRoot, how: str, number: signal.Signals) -> None:
    plan = long_plan(root)
    machine = ["--root", str(root.folder)]
    if how == "serve":
        agent = subprocess.Popen(
            [find_agent(), "serve", "--role", "root", *machine], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert agent.stdin is not None
        agent.stdin.write(json.dumps({"id": 1, "do": "apply", "plan": plan}).encode() + b"\n")
        agent.stdin.flush()
    else:
        file = root.folder / "plan.json"
        file.write_text(json.dumps(plan))
        agent = subprocess.Popen([find_agent(), "apply", file, *machine], stdout=subprocess.DEVNULL)
    with agent:
        assert eventually(lambda: root.read("/proc/sys/vm/knob0") == "2\n")
        assert root.read(f"/proc/sys/vm/knob{STEPS - 1}") == "1\n", "the plan is too short for this machine"
        agent.send_signal(number)
        if agent.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                agent.stdin.close()
        agent.wait(60)
    assert {root.read(f"/proc/sys/vm/knob{step}") for step in range(STEPS)} == {"2\n"}
    status = subprocess.run([find_agent(), "status", "--json", *machine], capture_output=True, text=True, check=True)
    assert [item["state"] for item in json.loads(status.stdout)["transactions"]] == ["applied"]

# SPDX-License-Identifier: Apache-2.0
"""Makes plans that the agent carries out by itself, and a root session in which to start them."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.kit.json_bytes import read_bytes

NOBODY = pwd.getpwnam("nobody").pw_uid
SWAPPINESS = "/proc/sys/vm/swappiness"
LIMIT_S = 60.0


def shell(script: str, limit_s: float = 30.0) -> dict[str, Any]:
    """Return a command of a plan."""
    return {
        "label": "sh",
        "exec": {
            "argv": ["/bin/sh", "-c", script],
            "environment": {},
            "directory": "/",
            "limit_s": limit_s,
            "while_connected": True,
        },
    }


def write_arm(path: str, old: str, new: str) -> dict[str, Any]:
    """Return an arm that writes one number."""
    step = {"kind": "write", "path": path, "expect": old, "new": new, "verify": "integer"}
    plan = {"schema": "ktrial.plan/2", "title": "case", "lease": {"kind": "while-session"}, "steps": [step]}
    return {"plan": plan}


def plan_of(
    name: str, token: int, visits: Sequence[Mapping[str, Any]], arms: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """Return a plan for the user nobody that ends within a minute."""
    return {
        "schema": "ktrial.unattended/1",
        "id": name,
        "trial": "test",
        "token": token,
        "uid": NOBODY,
        "deadline_unix_ms": int((time.time() + 60) * 1000),
        "settle_s": 0.0,
        "rest": {"seconds": 0.0, "holds_s": 10.0},
        "facts": ["power.source"],
        "void_suspended_s": 0.1,
        "arms": arms,
        "visits": visits,
        **more,
    }


class Carrying:
    """A root session of this machine with its own state folder."""

    def __init__(self, state: Path, root: Path | None = None) -> None:
        self.state = state
        place = [] if root is None else ["--root", str(root)]
        self._argv = [str(find_agent()), "serve", "--role", "root", *place, "--state", str(state)]
        self.session = self.connect()

    def connect(self) -> AgentSession:
        return AgentSession(ProcessTransport(self._argv))

    def start(self, plan: Mapping[str, Any], sha256: str | None = None) -> dict[str, Any]:
        text = json.dumps(plan)
        digest = hashlib.sha256(text.encode()).hexdigest() if sha256 is None else sha256
        return self.session.request("unattended-start", plan=text, sha256=digest)

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return all complete lines of a log after its plan is over."""
        end, data, start = time.monotonic() + LIMIT_S, b"", 0
        while time.monotonic() < end:
            part = self.session.request("unattended-log", plan=name, **{"from": start})
            data, start = data + read_bytes(part["log"]), part["next"]
            if not part["goes_on"]:
                lines = data.split(b"\n")
                return [json.loads(line) for line in lines[:-1]]
            time.sleep(0.02)
        raise AssertionError("the plan goes on")

    def state_of(self, name: str) -> dict[str, Any]:
        (found,) = [one for one in self.session.request("unattended-status")["plans"] if one["id"] == name]
        return dict(found)

    def worker(self) -> int:
        """Return the process that carries out a plan of this state folder."""
        return workers(self.state)[0]


def workers(state: Path) -> list[int]:
    """Return the processes that carry out plans of this state folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"unattended-run" in words and str(state).encode() in words:
                found.append(int(entry.name))
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def answers(log: Sequence[Mapping[str, Any]], do: str) -> list[dict[str, Any]]:
    """Return the contents of all answers to a request."""
    return [line["ok"] for line in log if line["event"] == "answer" and line["do"] == do and "ok" in line]

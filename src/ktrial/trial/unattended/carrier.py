# SPDX-License-Identifier: Apache-2.0
"""Sends plans to the agent, waits for them, and fetches their logs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

import msgspec

from ktrial.kit.errors import AgentError, Refused
from ktrial.kit.json_bytes import Base64, read_bytes
from ktrial.machine.ports import Clock, Machine
from ktrial.machine.transactions import decode_reply
from ktrial.trial.unattended.log import Line, lines_of
from ktrial.trial.unattended.plan import UnattendedPlan

#: Seconds between two looks at a log; each look wakes the machine during the measurement.
LOOK_EACH_S = 2.0
#: Seconds between two looks at a plan on another machine that takes longer than expected.
_FAR_LOOK_EACH_S = 15.0
_SOONEST_S = 0.1
#: Number of plans that a coordinator may give a machine.
_TOKENS = 1 << 16
#: Start of the line about a visit that is over.
_VISIT_OVER = b'{"event":"visit-ended",'


class PlanState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a plan. `cut-off` means that the agent's process was killed or the machine rebooted."""

    id: str
    trial: str
    token: int
    state: Literal["running", "ended", "cut-off"]
    visits: int
    visits_ended: int
    reason: str | None = None
    message: str | None = None


class PlanStates(msgspec.Struct, frozen=True, kw_only=True):
    """The plans on a machine, the oldest first, and the token of the newest plan that the machine ever had."""

    token: int
    running: str | None
    plans: tuple[PlanState, ...]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a log."""

    log: str | Base64
    next: int
    goes_on: bool
    text: str | Base64 | None = None
    sha256: str | None = None


class Turn(NamedTuple):
    """One step of an unattended trial. The trial pauses as soon as the machine has the plan of the next blocks.

    `fence` distinguishes coordinators: a newer coordinator has a higher fence, and its plans have higher tokens. A live
    trial has no plans; it runs as long as a coordinator holds the lease of the trial's `fleet` with this fence.
    """

    fence: int | None = None
    fleet: str | None = None


class Fetched(NamedTuple):
    """A plan that is over, and its log."""

    plan: UnattendedPlan
    lines: Sequence[Line]


def plan_states(root: Machine) -> PlanStates:
    return decode_reply("unattended-status", root.request("unattended-status"), PlanStates)


def refuse_running(root: Machine, trial: str | None = None) -> None:
    """Raise Refused while the machine carries out a plan; `trial` is the trial to continue."""
    states = plan_states(root)
    if states.running is None:
        return
    running = next((one.trial for one in states.plans if one.id == states.running), states.running)
    if running == trial:
        step = f"wait with `ktrial trial resume {trial} --unattended`, or stop the plan with `ktrial trial stop`"
    else:
        step = "wait until the plan is over, or stop it with `ktrial trial stop`"
    raise Refused(f"the machine is carrying out a plan of the unattended trial {running}", hint=step)


class Carrier:
    """Starts, stops and fetches the plans of one trial on a machine. `root` is a root session there.

    On another machine, ktrial sends nothing while a plan is expected to run; `asleep` keeps the connection open
    meanwhile.
    """

    def __init__(
        self,
        root: Machine,
        clock: Clock,
        trial: str,
        asleep: Callable[[float], AbstractContextManager[None]] | None = None,
        turn: Turn | None = None,
    ) -> None:
        self._root = root
        self._fence = None if turn is None else turn.fence
        self._asleep = asleep
        self._clock = clock
        self._trial = trial

    def next_token(self) -> int:
        """Return the token of the next plan. Raise Refused if a newer coordinator has given this machine a plan."""
        last = plan_states(self._root).token
        if self._fence is None:
            return last + 1
        lowest = self._fence * _TOKENS
        if last >= lowest + _TOKENS:
            raise Refused(
                "another coordinator has taken over this machine since this coordinator began",
                hint="run `ktrial fleet run FILE` with the trial's file to take over again (see `ktrial fleet status`)",
            )
        return max(last + 1, lowest)

    def start(self, plan: UnattendedPlan) -> None:
        """Start a plan. Raise AgentError if the agent refuses it."""
        text = msgspec.json.encode(plan)
        self._root.request("unattended-start", plan=text.decode(), sha256=hashlib.sha256(text).hexdigest())

    def follow(self, plan: UnattendedPlan, expected_s: float, tell: Callable[[int], None]) -> Fetched:
        """Wait until a started plan is over, and return it with its log; `tell` gets the number of finished visits.

        After an interruption, stop the plan, which restores the machine.
        """
        try:
            if self._asleep is not None:
                with self._asleep(expected_s):
                    self._clock.sleep(expected_s)
            return self.fetch(plan.id, tell)
        except AgentError:
            raise  # without a session the head cannot stop the plan, which continues
        except BaseException:
            self.stop()
            raise

    def stop(self) -> str | None:
        """Stop the plan that the machine is carrying out; return its name, or None if there is none."""
        stopped: str | None = self._root.request("unattended-stop")["stopped"]
        return stopped

    def own_plans(self) -> tuple[str, ...]:
        """Return the names of the trial's plans on the machine, the oldest first."""
        return tuple(one.id for one in plan_states(self._root).plans if one.trial == self._trial)

    def all_plans(self) -> frozenset[str]:
        """Return the names of all plans on the machine."""
        return frozenset(one.id for one in plan_states(self._root).plans)

    def fetch(self, name: str, tell: Callable[[int], None] = lambda _: None) -> Fetched:
        """Wait until a plan is over, and return it with its log; `tell` gets the number of finished visits."""
        data, start, nap_s = b"", 0, _SOONEST_S
        part = self._part(name, start, text=True)
        text = read_bytes(part.text or "")
        if hashlib.sha256(text).hexdigest() != part.sha256:
            raise AgentError(
                "lost",
                f"cannot use the agent's copy of plan {name}: it does not match its SHA-256",
                hint="run the same command again",
            )
        while True:
            data, start = data + read_bytes(part.log), part.next
            tell(data.count(_VISIT_OVER))
            if not part.goes_on:
                return Fetched(msgspec.json.decode(text, type=UnattendedPlan), lines_of(data))
            if not part.log:
                self._clock.sleep(nap_s)
                nap_s = min(2 * nap_s, LOOK_EACH_S if self._asleep is None else _FAR_LOOK_EACH_S)
            part = self._part(name, start)

    def _part(self, name: str, start: int, *, text: bool = False) -> _Part:
        fields: dict[str, Any] = {"plan": name, "from": start, **({"text": True} if text else {})}
        return decode_reply("unattended-log", self._root.request("unattended-log", **fields), _Part)

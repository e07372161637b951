# SPDX-License-Identifier: Apache-2.0
"""Disks that fail while an agent works: writes and flushes end with EIO, or the file system becomes read-only.

Writes fail once, or from some moment on. The tests compare the agent's messages with the real state: at once, after the
disk was repaired and mounted again, after a recovery, and after following the agent's advice.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.guests.system.kernels import Kernel
from tests.guests.system.power import KNOBS, Exchanged, FileSystem, Recorded, Told, run
from tests.support.nbd import Image
from tests.support.power_cuts import PREPARE, UNDONE, Tree, differing, in_force, plan, plans

OPERATIONS = ("apply", "revert", "recover")
_LIMIT_S = 3000.0

_TO_READ_ONLY = """
# By hand where nothing is open to be written, else as the kernel does when it must.
read_only() {
    mount -o remount,ro /mnt 2> /dev/null || echo u > /proc/sysrq-trigger
    until grep -q '^/dev/vdb /mnt [a-z0-9]* ro' /proc/mounts; do usleep 5000; done
}
"""
_SCRIPT = (
    PREPARE
    + _TO_READ_ONLY
    + """
# stopped AT NAME WORDS: the same as `killed`, but it is stopped there and goes on once the file system is read-only.
stopped() {
    export KTRIAL_FAULT_KIND=stop KTRIAL_FAULT_AT=$1
    shift
    agent "$@" &
    while ! grep -q '^State:.T' "/proc/$(pidof agent)/status" 2> /dev/null; do
        [ -d "/proc/$!" ] || break
        usleep 5000
    done
    read_only
    kill -CONT $(pidof agent)
    wait
    unset KTRIAL_FAULT_AT
}

# ready OPERATION: how it is before it, and its words.
ready() {
    attach
    administrator
    case $1 in
        apply) words='apply /plan/1' ;;
        revert) agent ready apply /plan/1; words=revert ;;
        recover) killed $((points * 2 / 3)) ready apply /plan/1; words=recover ;;
    esac
    sync
    look before
}

attach
look start
tell start
administrator
export KTRIAL_FAULT_COUNT=/points
agent points apply /plan/1
points=$(cat /points)
agent back revert
unset KTRIAL_FAULT_COUNT
detach
number=0
while [ $number -lt @COUNT@ ]; do
    for operation in apply revert recover; do
        command next $operation
        ready $operation
        @FAIL@
        look after
        if [ $((number % 2)) = 1 ]; then
            agent again recover
            look again
        fi
        @MEND@
        detach
        attach
        agent found status
        look found
        agent recover recover
        agent status status
        look recovered
        agent only revert --only 1
        look only
        agent end revert --all
        look end
        detach
        tell judge
    done
    number=$((number + 1))
done
"""
)
#: How the disk fails, and how it is repaired. A read-only file system is made writable again, or loses its unwritten
#: data.
_EIO = ("command fail; agent reply $words", "command mend")
_READ_ONLY = (
    "stopped $((1 + number * points / @COUNT@)) reply $words",
    "[ $((number / 2 % 2)) = 1 ] || mount -o remount,rw /mnt",
)


@dataclass
class Case:
    """One operation, and which of its writes and flushes fail."""

    operation: str
    failing: range
    wrong: list[str] = field(default_factory=list)
    told: Told | None = field(default=None, repr=False)

    @property
    def said(self) -> str:
        """All messages of the agent before the disk was repaired."""
        assert self.told is not None
        names = [f"{name}.{kind}" for name in ("reply", "again") for kind in ("json", "err")]
        return " ".join(self.told.text(name) for name in names if self.told.has(name))


class _Session:
    """The cases in a guest, one after the other, each on a fresh disk."""

    def __init__(self, system: FileSystem, count: int) -> None:
        self.disk = Exchanged(system.size)
        self.prepared = Recorded(system.made())
        self.disk.image = self.prepared.image
        self.cases: list[Case] = []
        self.tree: Tree = {}
        self._count = count
        self._passed: dict[str, int] = {}
        self._chance = random.Random(count)

    def handle(self, words: str, content: bytes) -> None:
        """Handle a command of the guest."""
        word, _, rest = words.partition(" ")
        if word == "prepared":
            self.prepared = Recorded(Image(self.disk.size, self.disk.image.blocks))
        elif word == "start":
            self.tree = Told(content).tree("start")
        elif word == "next":
            self.disk.image = Image(self.disk.size, self.prepared.image.blocks)
            self.cases.append(Case(rest, self._failing(rest)))
        elif word == "fail":
            self.disk.arm(self.cases[-1].failing)
        elif word == "mend":
            self._passed.setdefault(self.cases[-1].operation, self.disk.passed)
            self.disk.arm(range(0))
        else:
            case = self.cases[-1]
            case.told = Told(content)
            case.wrong = _faults(case, self.tree)

    def _failing(self, operation: str) -> range:
        """Return which writes fail: at first none, to count them; later one, several, or all from one on."""
        if operation not in self._passed:
            return range(0)
        last = self._passed[operation]
        # Many of them are near the end, where the result is decided.
        first = self._chance.choice((self._chance.randint(1, last), last - self._chance.randrange(5)))
        return range(first, first + self._chance.choice((1, 1, 2, 5, 1 << 30, 1 << 30)))


def failed_disks(kernel: Kernel, system: FileSystem, agent: Path, count: int, *, read_only: bool = False) -> list[Case]:
    """Let this many disks fail for each operation, or make them read-only during it; return the cases."""
    session = _Session(system, count)
    fail, mend = _READ_ONLY if read_only else _EIO
    script = _SCRIPT.replace("@FAIL@", fail).replace("@MEND@", mend).replace("@COUNT@", str(count))
    run(kernel, system, agent, script, session.disk, session.handle, plans(1), limit_s=_LIMIT_S)
    return session.cases


def _faults(case: Case, start: Tree) -> list[str]:
    """Return everything that is wrong in a case."""
    told = case.told
    assert told is not None
    wrong = [f"{name} ended with {status}" for name in _TOLD if (status := _status(told, name)) not in {0, 1, 3}]
    wrong += _of_the_reply(case, told)
    wrong += _of_the_mended(case, told, start)
    wrong += _of_the_end(case, told, start)
    return [f"{each}: {case}: {case.said}" for each in wrong]


_TOLD = ("reply", "again", "found", "recover", "status", "end")
_APPLIED = {name: str(step["new"]).strip() for name, step in zip(KNOBS, plan(1)["steps"][1:4], strict=True)}


def _status(told: Told, name: str) -> int:
    return int(told.text(f"{name}.status")) if told.has(f"{name}.status") else 0


def _state(told: Told, name: str) -> str | None:
    """Return the state of the transaction in this reply; None after an error, or if the reply does not contain it."""
    text = told.text(f"{name}.json")
    reply = json.loads(text) if text.strip() else {}
    found = (each["state"] for each in reply.get("transactions", ()) if each["transaction"] == 1)
    return reply.get("state") or next(found, None)


def _said(told: Told, name: str) -> str:
    return told.text(f"{name}.json") + told.text(f"{name}.err") if told.has(f"{name}.json") else ""


def _of_the_reply(case: Case, told: Told) -> list[str]:
    """Return errors in the values in memory, which need no disk and must match the reply."""
    wrong = []
    state = _state(told, "reply")
    is_untouched = re.search("nothing (was|is) changed", _said(told, "reply")) is not None
    before = told.knobs("before")
    after = before if is_untouched else _APPLIED if state == "applied" else KNOBS
    if told.knobs("after") != after:
        wrong.append(f"settings are {told.knobs('after')}")
    if _status(told, "reply") == 0 and state not in {"applied", *UNDONE}:
        wrong.append(f"exit status 0 and the state {state}")
    if told.has("again.json"):
        is_due = _state(told, "again") is not None and "nothing is changed" not in _said(told, "again")
        again = KNOBS if is_due else after
        if told.knobs("again") != again:
            wrong.append(f"settings after recover are {told.knobs('again')}")
    return wrong


def _of_the_mended(case: Case, told: Told, start: Tree) -> list[str]:
    """Return errors on the repaired disk: finished steps must be there, and must match the reply."""
    name = "again" if told.has("again.json") and _state(told, "again") else "reply"
    state = _state(told, name)
    is_put_back = re.search("everything was restored(?!, but the journal)", _said(told, name)) is not None
    if is_put_back and _state(told, "found") not in UNDONE:
        return [f"said that everything was restored, and it is {_state(told, 'found')}"]
    if state not in {"applied", *UNDONE}:
        return []
    wrong = differing(
        "wrong bytes after success", told.tree("found"), in_force(start, 1) if state == "applied" else start
    )
    if _state(told, "found") != state:
        wrong.append(f"said {state}, and it is {_state(told, 'found')}")
    return wrong


def _of_the_end(case: Case, told: Told, start: Tree) -> list[str]:
    """Return errors after one recovery and the advised commands.

    On a writable disk, these must put everything in order.
    """
    wrong = [f"{name}: {_said(told, name)}" for name in ("recover", "status", "end") if _status(told, name)]
    if json.loads(told.text("found.json"))["damaged"]:
        wrong.append("called damaged")
    state = _state(told, "status")
    has_failed = _state(told, "reply") not in {"applied", *UNDONE}
    if state != "applied":
        wrong += differing("wrong bytes once recovered", told.tree("recovered"), start)
        wrong += _other_settings(told, "recovered")
    elif case.operation == "apply" and has_failed:
        if re.search(r"as applied, run `ktrial revert --only 1\b", case.said) is None:
            wrong.append("it stands, and nobody said so")
    else:
        wrong += differing("wrong bytes while applied", told.tree("recovered"), in_force(start, 1))
    if state == "applied" and _status(told, "only"):
        wrong.append(f"revert --only 1: {_said(told, 'only')}")
    for name in ("only", "end"):
        wrong += differing(f"wrong bytes after {name}", told.tree(name), start)
        wrong += _other_settings(told, name)
    return wrong


def _other_settings(told: Told, name: str) -> list[str]:
    return [f"settings are {told.knobs(name)} at {name}"] if told.knobs(name) != KNOBS else []


_LEASE_S = 40
_LEASE = (
    PREPARE
    + _TO_READ_ONLY
    + """
attach
administrator
look start
agent apply apply /plan/leased
look applied
read_only
agent early recover
agent held status
look early
seconds=0
while pidof exe > /dev/null && [ $seconds -lt @LIMIT@ ]; do
    sleep 1
    seconds=$((seconds + 1))
done
look over
agent over status
agent late recover
mount -o remount,rw /mnt
agent recover recover
agent end status
look end
tell judge
detach
"""
)


def ended_lease(kernel: Kernel, system: FileSystem, agent: Path) -> Told:
    """Return a guest's report on a lease whose disk becomes read-only: while it is held, at its end, and afterwards."""
    disk = Exchanged(system.size)
    disk.image = system.made()
    tellings: list[Told] = []

    def handle(words: str, content: bytes) -> None:
        if words == "judge":
            tellings.append(Told(content))

    leased = plan(1) | {"lease": {"kind": "until-confirmed", "seconds": _LEASE_S}}
    script = _LEASE.replace("@LIMIT@", str(3 * _LEASE_S))
    run(kernel, system, agent, script, disk, handle, {"/plan/leased": json.dumps(leased)}, limit_s=_LIMIT_S)
    (told,) = tellings
    return told

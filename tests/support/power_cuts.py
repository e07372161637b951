# SPDX-License-Identifier: Apache-2.0
"""Power cuts: an agent's writes to a disk are recorded, and the power is cut at any moment of the recording.

Any part of the data that no flush has brought to the disk is lost. The rest is mounted in a freshly started machine,
and recovered.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.guests.system.kernels import Kernel
from tests.guests.system.power import KNOBS, Exchanged, FileSystem, Flush, Log, Mark, Recorded, Told, Write, run
from tests.support.nbd import Image

Tree = dict[str, tuple[int, bytes]]

#: Final states of a transaction that leave nothing in force.
UNDONE = frozenset({"rolled-back", "reverted", "gone-with-boot"})
_MADE = "systemd/zram-generator.conf.d"
_LIMIT_S = 3000.0

#: Turns an empty disk into the /etc and /var of a machine.
PREPARE = """
mount -t @TYPE@ -o @OPTIONS@ /dev/vdb /mnt
mkdir -p /mnt/var/lib /mnt/etc/sysctl.d /mnt/etc/systemd /mnt/etc/udev/rules.d
echo vm.swappiness = 33 > /mnt/etc/sysctl.d/90-ktrial.conf
seq 9000 10000 > /mnt/etc/udev/rules.d/60-ktrial.rules
umount /mnt
command prepared
"""

_RECORD = (
    PREPARE
    + """
# step COMMAND: its begin and its end are marked: the latter with how all ended, and what there is then.
step() {
    command begin
    "$@"
    agent status status
    look end
    tell "$1"
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
sync
number=1
round=0
while [ $round -lt @ROUNDS@ ]; do
    at=$((points * (2 * round + 1) / (2 * @ROUNDS@)))
    step agent reply apply /plan/$((number + 1))
    step killed $((at / 2 + 1)) none revert
    step agent reply recover
    step agent reply revert --all
    step killed $at none apply /plan/$((number + 2))
    step killed $((at / 3 + 1)) none recover
    step agent reply recover
    step agent reply apply /plan/$((number + 3))
    step agent reply apply /plan/$((number + 4))
    step agent reply revert
    step agent reply revert --all
    number=$((number + 4))
    round=$((round + 1))
done
detach
"""
)
_RECOVER = """
number=0
while [ $number -lt @COUNT@ ]; do
    command next
    if attach; then
        agent found status
        look found
        agent recover recover
        agent status status
        look recovered
        agent revert revert --all
        look reverted
        detach
    fi
    tell recovered
    number=$((number + 1))
done
"""


def plan(number: int) -> dict[str, Any]:
    """Return a plan with an existing file, settings, a file in a missing folder, and a file of several blocks."""
    first, *others = (
        {"kind": "file", "path": f"/etc/{path}", "holds": holds, "mode": mode}
        for path, (mode, holds, _) in _files(number).items()
    )
    knobs = zip(KNOBS, (10 + number % 20, 200 + number, 3 + number % 4), strict=True)
    settings = [
        {"kind": "write", "path": f"/proc/sys/{name.replace('.', '/')}", "new": f"{new}\n", "verify": "integer"}
        for name, new in knobs
    ]
    return {"schema": "ktrial.plan/2", "title": str(number), "steps": [first, *settings, *others]}


def _files(number: int) -> dict[str, tuple[str, dict[str, Any], str]]:
    """Return, by path, the permission bits, the content of a file in the plan, and the text that results."""
    settings = [("vm/swappiness", number), ("vm/vfs_cache_pressure", 100), ("vm/page-cluster", 0)][: 1 + number % 3]
    devices = range(400)
    rules = [
        {
            "match": {"SUBSYSTEM": "block", "KERNEL": f"sd{device}"},
            "set": [{"attribute": "queue/nr_requests", "value": str(number)}],
        }
        for device in devices
    ]
    return {
        "sysctl.d/90-ktrial.conf": (
            "0640",
            {"sysctl.d": [{"path": f"/proc/sys/{key}", "value": str(value)} for key, value in settings]},
            "".join(f"{key.replace('/', '.')} = {value}\n" for key, value in settings),
        ),
        f"{_MADE}/ktrial.conf": (
            "0644",
            {"zram-generator": [{"device": f"zram{number}"}]},
            f"[zram{number}]\n",
        ),
        "udev/rules.d/60-ktrial.rules": (
            "0600",
            {"udev": rules},
            "".join(
                f'SUBSYSTEM=="block", KERNEL=="sd{device}", ATTR{{queue/nr_requests}}="{number}"\n'
                for device in devices
            ),
        ),
    }


def in_force(start: Tree, number: int) -> Tree:
    """Return the files and folders when this plan is in force."""
    files = {path: (int(mode, 8), text.encode()) for path, (mode, _, text) in _files(number).items()}
    return {**start, _MADE: (0o755, b""), **files}


def states(told: Told, name: str) -> dict[int, str]:
    """Return the state of each transaction in the agent's reply."""
    return {each["transaction"]: each["state"] for each in json.loads(told.text(f"{name}.json"))["transactions"]}


@dataclass
class Recording:
    """The writes in a guest: its disk, the plan of every transaction, and the files before all of them."""

    disk: Recorded
    tree: Tree
    plans: dict[int, int]

    def expected(self, states: dict[int, str]) -> Tree:
        """Return the files and folders for these states of transactions."""
        applied = [number for number, state in states.items() if state == "applied"]
        return in_force(self.tree, self.plans[max(applied)]) if applied else self.tree


def record(kernel: Kernel, system: FileSystem, agent: Path, rounds: int) -> Recording:
    """Apply, revert and recover in a guest, kill some of these commands, and record all writes to its disk."""
    disk = Recorded(system.made())
    starts: list[Told] = []

    def handle(words: str, content: bytes) -> None:
        if words == "prepared":
            disk.restart()
        elif words == "start":
            starts.append(Told(content))
        else:
            disk.log.append(Mark(words, Told(content) if content else None))

    script = _RECORD.replace("@ROUNDS@", str(rounds))
    run(kernel, system, agent, script, disk, handle, plans(4 * rounds + 1), limit_s=_LIMIT_S)
    ends = [entry.told for entry in disk.log if isinstance(entry, Mark) and entry.told is not None]
    assert len(ends) == 11 * rounds
    last = json.loads(ends[-1].text("status.json"))["transactions"]
    recording = Recording(disk, starts[0].tree("start"), {each["transaction"]: int(each["title"]) for each in last})
    for told in ends:
        live = states(told, "status")
        if "unfinished" not in live.values():
            assert told.tree("end") == recording.expected(live)
    return recording


def plans(count: int) -> dict[str, str]:
    """Return files of a guest: plans by number, from 1."""
    return {f"/plan/{number}": json.dumps(plan(number)) for number in range(1, count + 1)}


@dataclass
class Cut:
    """A power cut after a number of entries of a record; `kept` lists the surviving writes since the last flush."""

    position: int
    kept: tuple[int, ...]
    #: States in which each transaction may be after recovery; None if it may be missing.
    allowed: dict[int, set[str | None]]
    image: Image = field(repr=False)


def _possible(log: Log, chance: random.Random) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield positions and surviving writes, each pair once: all, none, all but one, and random parts."""
    flushed = marks = 0
    pending: list[int] = []
    seen = set()
    for position, entry in enumerate(log, 1):
        marks += isinstance(entry, Mark)
        if isinstance(entry, Write):
            pending.append(position - 1)
        elif isinstance(entry, Flush):
            flushed, pending = position, []
        parts = [pending, [], pending[:-1], pending[1:]]
        parts += [[index for index in pending if chance.random() < share] for share in (0.2, 0.5, 0.5, 0.8)]
        for part in map(tuple, parts):
            if (flushed, marks, part) not in seen:
                seen.add((flushed, marks, part))
                yield position, part


def _allowed(log: Log) -> list[dict[int, set[str | None]]]:
    """Return, by position, the states in which each transaction may be after a power cut there and a recovery.

    What a killed agent did may be missing on the disk, until another agent has worked on it.
    """
    known: dict[int, set[str | None]] = {}
    live: dict[int, str] = {}
    found: list[dict[int, set[str | None]]] = []
    begun = 0
    for position, entry in enumerate(log):
        if isinstance(entry, Mark) and entry.told is None:
            begun = position
        elif isinstance(entry, Mark) and entry.told is not None:
            after = states(entry.told, "status")
            changed = {number: state for number, state in after.items() if live.get(number) != state}
            under_way = {
                number: known.get(number, {None}) | UNDONE | ({state} - {"unfinished"})
                for number, state in changed.items()
            }
            found[begun:] = [{**known, **under_way}] * (position - begun)
            sure: dict[int, set[str | None]] = {
                number: {state} for number, state in changed.items() if state != "unfinished"
            }
            known = {**known, **under_way} if entry.words == "killed" else {**known, **under_way, **sure}
            live = after
        found.append(known)
    return found


def cuts(recording: Recording, count: int) -> Iterator[Cut]:
    """Yield this many different cuts over the whole record, in order."""
    log = recording.disk.log
    first = next(index for index, entry in enumerate(log) if isinstance(entry, Mark))
    chance = random.Random(count)
    possible = [each for each in _possible(log, chance) if each[0] > first]
    assert len(possible) >= count, f"the record has {len(possible)} cuts"
    allowed = _allowed(log)
    on_disk = Image(recording.disk.size, recording.disk.start.blocks)
    done = 0
    for position, kept in sorted(chance.sample(possible, count)):
        flushed = max((index for index in range(done, position) if isinstance(log[index], Flush)), default=done)
        _replay(on_disk, log, range(done, flushed))
        done = flushed
        image = Image(on_disk.size, on_disk.blocks)
        _replay(image, log, kept)
        yield Cut(position, kept, allowed[position - 1], image)


def _replay(image: Image, log: Log, which: Iterable[int]) -> None:
    for index in which:
        entry = log[index]
        if isinstance(entry, Write):
            image.write(*entry)


def faults(recording: Recording, cut: Cut, told: Told) -> list[str]:
    """Return everything that is wrong after a cut."""
    if not told.has("found.json"):
        return ["the disk cannot be mounted"]
    commands = ("found", "recover", "status", "revert")
    wrong = [f"{name}: {told.text(f'{name}.err')}" for name in commands if told.text(f"{name}.status") != "0\n"]
    if wrong:
        return wrong
    found, recovered = states(told, "found"), states(told, "status")
    for name in ("found", "status"):
        wrong += [f"called damaged: {each}" for each in json.loads(told.text(f"{name}.json"))["damaged"]]
    if "unfinished" not in found.values():
        wrong += differing("wrong bytes, and nothing is unfinished", told.tree("found"), recording.expected(found))
    wrong += differing("wrong bytes once recovered", told.tree("recovered"), recording.expected(recovered))
    wrong += differing("wrong bytes once reverted", told.tree("reverted"), recording.tree)
    for number, allowed in cut.allowed.items():
        if recovered.get(number) not in allowed:
            wrong.append(f"transaction {number} is {recovered.get(number)} and may be {allowed}")
    if len({told.text(f"{name}.knobs") for name in ("found", "recovered", "reverted")}) != 1:
        wrong.append("settings of another boot were put back")
    return wrong


def differing(what: str, found: Tree, expected: Tree) -> list[str]:
    """Return the places that differ from the expectation as one text; no text if all are equal."""
    places = [path for path in sorted({*found, *expected}) if found.get(path) != expected.get(path)]
    return [f"{what}: {', '.join(places)}"] if places else []


def recover(kernel: Kernel, system: FileSystem, agent: Path, recording: Recording, count: int) -> list[list[str]]:
    """Cut the power this often and recover each time, in one more boot; return the errors of each cut."""
    disk = Exchanged(recording.disk.size)
    coming = cuts(recording, count)
    cut: Cut | None = None
    judged: list[list[str]] = []

    def handle(words: str, content: bytes) -> None:
        nonlocal cut
        if words == "next":
            cut = next(coming)
            disk.image = cut.image
        else:
            assert cut is not None
            judged.append([f"{fault}: {cut}" for fault in faults(recording, cut, Told(content))])

    script = _RECOVER.replace("@COUNT@", str(count))
    run(kernel, system, agent, script, disk, handle, {}, limit_s=_LIMIT_S)
    return judged

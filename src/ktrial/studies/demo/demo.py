# SPDX-License-Identifier: Apache-2.0
"""The trial of `ktrial demo`: four arms with known effects, chosen from what this machine allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Event
from ktrial.kit.errors import KtrialError
from ktrial.kit.mounts import MOUNTS, device_of
from ktrial.machine.ports import Machine
from ktrial.studies.demo.model import COPIUM, EXPECTED, HELP, HURT, PLACEBO, Demo, DemoArmFound, DemoFound, SinglePairs
from ktrial.trial.protocol.file import CONTROL, ArmFile, DesignFile, TrialFile, Value
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.plans.model import Plan
from ktrial.tuning.plans.resolve import make_plan

#: Probability of any false claim in the whole demo.
ALPHA = 0.01
#: The smallest difference that matters. It is large because the demo must end soon on any machine.
MARGIN = "5%"
#: Maximum number of blocks; an arm takes part only until it is decided.
CAP = 40
_SETTLE = "0.1s"
_READ_AHEAD = "queue:read_ahead_kb"
_HUGE_PAGES = "thp:enabled"
_DIRECTORY = "/var/tmp"
_FRESH_MEMORY = "how fast a program gets fresh memory when it requests huge pages for half of it"

Settings = Mapping[str, Value]
Plans = Callable[[Settings], Plan]


class DemoArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm, and the reason for its expected effect; if `why` is empty, the catalog has the reason.

    `also` has other settings to use if those in `set` are already in force.
    """

    set: Settings = {}
    parameters: Mapping[str, Any] = {}
    why: str = ""
    also: tuple[Settings, ...] = ()


class Size(NamedTuple):
    """The size of a demo: seconds per run, the maximum number of blocks and, if given, the seed."""

    run_s: float
    cap: int
    seed: int | None


class Showpiece(msgspec.Struct, frozen=True, kw_only=True):
    """A load, and settings that help it, hurt it, or cannot matter to it. `what` describes what the load measures."""

    what: str
    suite: str
    primary: str
    parameters: Mapping[str, Any] = {}
    control: Settings = {}
    help: DemoArm
    hurt: DemoArm
    copium: tuple[DemoArm, ...]


def _system_copium(where: str) -> tuple[DemoArm, ...]:
    return (
        DemoArm(
            set={"vm.swappiness": "10"},
            also=({"vm.swappiness": "1"},),
        ),
        DemoArm(
            set={"kernel.sched_rr_timeslice_ms": "10"},
            also=({"kernel.sched_rr_timeslice_ms": "50"},),
            why=f"it affects only real-time tasks with the policy SCHED_RR, and {where} is not one",
        ),
    )


_HUGE = Showpiece(
    what=_FRESH_MEMORY,
    suite="agent-pagefault-mixed",
    primary="page-rate",
    parameters={"bytes": 32 << 20},
    control={_HUGE_PAGES: "madvise"},
    help=DemoArm(set={_HUGE_PAGES: "always"}, why="the other half gets huge pages too, so one fault serves many pages"),
    hurt=DemoArm(set={_HUGE_PAGES: "never"}, why="nothing gets huge pages, so each page costs a fault"),
    copium=_system_copium("the load"),
)
_OWN_HUGE = Showpiece(
    what=_FRESH_MEMORY,
    suite="agent-pagefault-mixed",
    primary="page-rate",
    parameters={"bytes": 32 << 20},
    help=DemoArm(parameters={"huge_pages": "always"}, why="the program requests huge pages for all of it"),
    hurt=DemoArm(parameters={"huge_pages": "never"}, why="the program declines huge pages"),
    copium=(
        DemoArm(parameters={"io_priority": 0}, why="the best I/O priority, for a load that reads and writes no file"),
    ),
)
_OWN_BLOCKS = Showpiece(
    what="how fast a program reads a file that is in the page cache, 4 KiB at a time",
    suite="agent-fileio-read-sequential-warm",
    primary="bandwidth",
    parameters={"bytes": 16 << 20, "block_bytes": 4096},
    help=DemoArm(
        parameters={"block_bytes": 65536}, why="it reads 64 KiB at a time, with a sixteenth of the system calls"
    ),
    hurt=DemoArm(
        parameters={"block_bytes": 512}, why="it reads 512 bytes at a time, with eight times the system calls"
    ),
    copium=(DemoArm(parameters={"io_priority": 0}, why="the best I/O priority, for reads that reach no disk"),),
)


def _reading(device: str) -> Showpiece:
    knob = f"{_READ_AHEAD}@{device}"
    return Showpiece(
        what=f"how fast a program reads an uncached file on {device} sequentially",
        suite="agent-fileio-read-sequential-cold",
        primary="bandwidth",
        parameters={"bytes": 32 << 20, "block_bytes": 4096},
        control={knob: "16"},
        help=DemoArm(set={knob: "512"}, why="one disk request fetches 512 KiB"),
        hurt=DemoArm(set={knob: "0"}, why="nothing is read ahead, so each page needs a disk request"),
        copium=_system_copium("the reader"),
    )


def choose_demo(machine: Machine, catalog: Catalog, run_s: float, *, cap: int = CAP, seed: int | None = None) -> Demo:
    """Return a demo of the first showpiece that works in this session.

    The demo's `passed` says why earlier showpieces fail. If no showpiece works, the arms of the demo differ only in
    what the load itself requests.
    """

    def plan(settings: Settings) -> Plan:
        return make_plan(machine, catalog, [f"{knob}={value}" for knob, value in settings.items()])[0]

    passed: list[str] = []
    for one in _showpieces(machine, catalog):
        why_not = _why_not(one, machine, plan)
        if why_not is None:
            copium = _copium(one, plan)
            if copium is not None:
                return _demo(one, copium, plan, tuple(passed), Size(run_s, cap, seed))
            why_not = "no setting is known that surely has no effect here"
        passed.append(f"{', '.join(one.control) or one.what}: {why_not}")
    own = _OWN_HUGE if _has_huge_pages(machine, catalog) else _OWN_BLOCKS
    return _demo(own, own.copium[0], plan, tuple(passed), Size(run_s, cap, seed))


def _showpieces(machine: Machine, catalog: Catalog) -> Sequence[Showpiece]:
    """Return the showpieces that write knobs, those with the clearest effects first."""
    mounts = machine.read([MOUNTS])[MOUNTS]
    device = device_of(_DIRECTORY, (mounts.text if mounts is not None else None) or "") or ""
    queues = observe(machine, [catalog.knobs[_READ_AHEAD]])[_READ_AHEAD].instances
    fitting = [one.label for one in queues if device.rpartition("/")[2].startswith(one.label)]
    return (_HUGE, *(_reading(label) for label in sorted(fitting, key=len)[-1:]))


def _has_huge_pages(machine: Machine, catalog: Catalog) -> bool:
    found = observe(machine, [catalog.knobs[_HUGE_PAGES]])[_HUGE_PAGES].instances
    return bool(found) and "[never]" not in (found[0].reading.text or "[never]")


def _why_not(one: Showpiece, machine: Machine, plan: Plans) -> str | None:
    """Return why this session cannot apply the settings of a showpiece; None if it can."""
    try:
        refused = [refusal for arm in (one.control, one.help.set, one.hurt.set) for refusal in plan(arm).refusals]
    except KtrialError as error:
        return error.message
    if refused:
        return refused[0].reason
    return None if machine.is_root else "needs root"


def _copium(one: Showpiece, plan: Plans) -> DemoArm | None:
    """Return the first copium that changes something here and has a reason why it cannot matter; None without one."""
    for arm in one.copium:
        for settings in (arm.set, *arm.also):
            found = plan(settings)
            why = arm.why or next((change.inert for change in found.changes), None)
            if why and found.changes and not found.refusals:
                return msgspec.structs.replace(arm, set=settings, also=(), why=why)
    return None


def _demo(one: Showpiece, copium: DemoArm, plan: Plans, passed: tuple[str, ...], size: Size) -> Demo:
    arms = {COPIUM: copium, HELP: one.help, HURT: one.hurt}
    file = TrialFile(
        name="demo",
        suite=one.suite,
        parameters={**one.parameters, "duration_s": size.run_s},
        primary=one.primary,
        margin=MARGIN,
        design=DesignFile(
            cap=size.cap,
            alpha=ALPHA,
            settle=_SETTLE,
            time="4min",
            seed=size.seed,
            runs_per_visit=1,
            until_all_decided=True,
        ),
        arms={
            CONTROL: ArmFile(set=one.control),
            PLACEBO: ArmFile(placebo=True),
            **{name: ArmFile(set={**one.control, **arm.set}, parameters=arm.parameters) for name, arm in arms.items()},
        },
    )
    plans = [plan(settings) for arm in file.arms.values() if (settings := arm.set)]
    changes = {change.path: change for found in plans for change in found.changes}
    in_force = plan(one.control).changes if one.control else ()
    return Demo(
        file=file,
        what=one.what,
        why={PLACEBO: "changes nothing", **{name: arm.why for name, arm in arms.items()}},
        paths=tuple(sorted({path for change in changes.values() for path in (change.path, *change.couples)})),
        found={change.address: change.old_text or "" for change in in_force},
        passed=passed,
    )


def found_in(log: Sequence[Event], judgement: Judgement) -> DemoFound:
    """Return the verdicts on the arms, and what single before/after measurements from these runs would have shown."""
    from ktrial.judge.collect_log import collect, pairs_of, visit_scores

    trial = collect(log)
    protocol = trial.protocol
    scores = visit_scores(trial, protocol.primary)
    margin = protocol.outcomes[protocol.primary].margin
    differences = [
        float(one) for arm in (PLACEBO, COPIUM) for one in pairs_of(scores, arm, protocol.control).differences
    ]
    judged = {one.arm: one for one in judgement.judged if one.role == "primary"}
    return DemoFound(
        arms=tuple(
            DemoArmFound(
                arm=arm,
                verdict=judged[arm].verdict,
                effect=judged[arm].effect,
                blocks=judged[arm].blocks,
                as_expected=None if judged[arm].verdict is None else judged[arm].verdict in expected,
            )
            for arm, expected in EXPECTED.items()
        ),
        single=SinglePairs(
            pairs=len(differences),
            apart=sum(abs(one) > math.log1p(margin) for one in differences),
            largest=max(differences, key=abs, default=0.0),
        ),
        margin=margin,
        blocks=judgement.blocks,
        ended=trial.ended is not None,
        refused="; ".join(one.sentence for one in judgement.findings if one.level == "refuse") or None,
    )

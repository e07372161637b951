# SPDX-License-Identifier: Apache-2.0
"""Which sched_ext schedulers a machine has, as arms of one trial against its own scheduler."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ktrial.bench.benchmark import PROGRAM_FOLDERS
from ktrial.bench.suite import Task
from ktrial.judge.model.comparison import Contrast
from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.outcome import Outcome
from ktrial.trial.protocol.file import ArmFile, LoaderMode, SchedExtFile
from ktrial.trial.protocol.protocol import candidates

#: What is measured without --suite and without a command, and what decides.
SUITE, PRIMARY = "schedulers", "agent-wakeup-timer.lateness-p99"
_SCHEDULER = re.compile(r"scx_[a-z0-9_]+")
#: Programs with such names that are not schedulers.
_OTHERS = frozenset(("scx_loader", "scx_show_state", "scx_stats"))


class InstalledScheduler(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler that can be started here, by its program or by scx_loader in a mode."""

    name: str
    program: str
    mode: LoaderMode | None = None

    @property
    def arm(self) -> str:
        return self.name.removeprefix("scx_") + (f"-{self.mode}" if self.mode else "")


def programs_among(paths: Iterable[str]) -> tuple[InstalledScheduler, ...]:
    """Return the schedulers among these paths; if several have one name, only the first."""
    found: dict[str, str] = {}
    for path in paths:
        name = path.rpartition("/")[2]
        if _SCHEDULER.fullmatch(name) and name not in _OTHERS:
            found.setdefault(name, path)
    return tuple(InstalledScheduler(name=name, program=path) for name, path in sorted(found.items()))


def of_loader(names: Iterable[str], modes: Sequence[LoaderMode]) -> tuple[InstalledScheduler, ...]:
    """Return the schedulers of scx_loader, each in these modes."""
    known = sorted({name for name in names if _SCHEDULER.fullmatch(name)})
    return tuple(InstalledScheduler(name=name, program=name, mode=mode) for name in known for mode in modes)


def select_schedulers(found: Sequence[InstalledScheduler], names: Sequence[str]) -> tuple[InstalledScheduler, ...]:
    """Return the schedulers with these names (with or without `scx_`), or all if no name is given. Raise BadInput."""
    if not found:
        raise BadInput(
            "no sched_ext scheduler is installed here",
            hint=f"install the schedulers of your distribution (often called scx-scheds) below {PROGRAM_FOLDERS[0]}",
        )
    known = {one.name.removeprefix("scx_") for one in found}
    wanted = {name.removeprefix("scx_") for name in names} or known
    for name in sorted(wanted - known):
        raise UnknownName("scheduler", name, known, hint=f"installed here: {', '.join(sorted(known))}")
    return tuple(one for one in found if one.name.removeprefix("scx_") in wanted)


def scheduler_arms(own: str, found: Iterable[InstalledScheduler], *, placebo: bool = False) -> dict[str, ArmFile]:
    """Return the control, which is the kernel's own scheduler, and an arm for each other one."""
    arms = {own: ArmFile()} | ({"placebo": ArmFile(placebo=True)} if placebo else {})
    for one in found:
        mode = one.mode or msgspec.UNSET
        arms[one.arm] = ArmFile(sched_ext=SchedExtFile(run=(one.program,), mode=mode))
    return arms


def other_outcomes(tasks: Sequence[Task], around: Sequence[Outcome], primary: str) -> tuple[str, ...]:
    """Return what a scheduler should not spoil: the main outcome of each benchmark, the load's work, and power."""
    main = [one.name for one in candidates(tasks) if one.outcome.headline]
    benchmark = next(task.label for task in tasks if primary.startswith(f"{task.label}."))
    beside = [f"{benchmark}.{one.name}" for one in around if not one.name.startswith("energy.")]
    return tuple(name for name in (*main, *beside) if name != primary)


def best_arm(primary: Iterable[Contrast | OutcomeJudgement], spoiling: Collection[str]) -> str | None:
    """Return the best arm among those that are better and spoil no other outcome; None if there is none."""
    better = [one for one in primary if one.verdict == "better" and one.arm not in spoiling]
    return max(better, key=lambda one: one.effect.estimate if one.effect else 0.0).arm if better else None

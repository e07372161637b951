# SPDX-License-Identifier: Apache-2.0
"""Finds the sched_ext schedulers of a machine, and compares them with the kernel's own in one trial."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ktrial.bench.suite import Task
from ktrial.judge.model.comparison import Contrast
from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.outcome import Outcome
from ktrial.trial.protocol.file import ArmFile, LoaderMode, SchedExtFile
from ktrial.trial.protocol.protocol import candidates

#: The suite without --suite and without a command, and the outcome that decides.
SUITE, PRIMARY = "schedulers", "agent-wakeup-timer.lateness-p99"
_SCHEDULER = re.compile(r"scx_[a-z0-9_]+")
#: Programs with a scheduler's name that are not schedulers.
_OTHERS = frozenset(("scx_loader", "scx_show_state", "scx_stats"))


class InstalledScheduler(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler that can be started here, as a program or by scx_loader in a mode."""

    name: str
    program: str
    mode: LoaderMode | None = None

    @property
    def arm(self) -> str:
        return self.name.removeprefix("scx_") + (f"-{self.mode}" if self.mode else "")


def programs_among(paths: Iterable[str]) -> tuple[InstalledScheduler, ...]:
    """Return the schedulers among these paths; if several have the same name, only the first one."""
    found: dict[str, str] = {}
    for path in paths:
        name = path.rpartition("/")[2]
        if _SCHEDULER.fullmatch(name) and name not in _OTHERS:
            found.setdefault(name, path)
    return tuple(InstalledScheduler(name=name, program=path) for name, path in sorted(found.items()))


def of_loader(names: Iterable[str], modes: Sequence[LoaderMode]) -> tuple[InstalledScheduler, ...]:
    """Return each scheduler of scx_loader in each of the `modes`."""
    known = sorted({name for name in names if _SCHEDULER.fullmatch(name)})
    return tuple(InstalledScheduler(name=name, program=name, mode=mode) for name in known for mode in modes)


def select_schedulers(found: Sequence[InstalledScheduler], names: Sequence[str]) -> tuple[InstalledScheduler, ...]:
    """Return the schedulers with these names (with or without `scx_`), or all if no name is given.

    Raise BadInput for an unknown name.
    """
    if not found:
        raise BadInput(
            "no sched_ext scheduler is installed here",
            hint="install your distribution's package, such as scx-scheds, or put a scheduler into /usr/local/bin",
        )
    known = {one.name.removeprefix("scx_") for one in found}
    wanted = {name.removeprefix("scx_") for name in names} or known
    for name in sorted(wanted - known):
        raise UnknownName("scheduler", name, known, hint=f"use one of: {', '.join(sorted(known))}")
    return tuple(one for one in found if one.name.removeprefix("scx_") in wanted)


def scheduler_arms(own: str, found: Iterable[InstalledScheduler], *, placebo: bool = False) -> dict[str, ArmFile]:
    """Return the control, which is the kernel's own scheduler, and an arm for each other scheduler."""
    arms = {own: ArmFile()} | ({"placebo": ArmFile(placebo=True)} if placebo else {})
    for one in found:
        mode = one.mode or msgspec.UNSET
        arms[one.arm] = ArmFile(sched_ext=SchedExtFile(run=(one.program,), mode=mode))
    return arms


def other_outcomes(tasks: Sequence[Task], around: Sequence[Outcome], primary: str) -> tuple[str, ...]:
    """Return the outcomes that must not get worse, without `primary`.

    These are the main outcome of each benchmark, the load's work, and power.
    """
    main = [one.name for one in candidates(tasks) if one.outcome.headline]
    benchmark = next(task.label for task in tasks if primary.startswith(f"{task.label}."))
    beside = [f"{benchmark}.{one.name}" for one in around if not one.name.startswith("energy.")]
    return tuple(name for name in (*main, *beside) if name != primary)


def best_arm(primary: Iterable[Contrast | OutcomeJudgement], spoiling: Collection[str]) -> str | None:
    """Return the arm with the largest effect among the better arms that are not in `spoiling`; None if there is none.

    An arm in `spoiling` makes another outcome worse.
    """
    better = [one for one in primary if one.verdict == "better" and one.arm not in spoiling]
    return max(better, key=lambda one: one.effect.estimate if one.effect else 0.0).arm if better else None

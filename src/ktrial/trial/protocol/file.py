# SPDX-License-Identifier: Apache-2.0
"""A protocol as people write it, `trial.toml`: what is compared, by what, and when it ends."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.bench.guest_tools import Mode
from ktrial.judge.model.log import Questions, Screen
from ktrial.kit.errors import BadInput, Contradiction, UnknownName
from ktrial.kit.toml import parse_bytes, quoted
from ktrial.kit.units import parse_quantity
from ktrial.machine.gates import parse_gates
from ktrial.trial.arms.builds import check_builds
from ktrial.trial.arms.changes import BuildFile, CommandFile, SchedExtFile, ServiceFile, check_arm_changes
from ktrial.trial.arms.manual import check_manual
from ktrial.trial.guests.kernels import KernelChange, KernelRecipe
from ktrial.trial.guests.model import check_guest_trial
from ktrial.trial.protocol.limits import SafetyLimits, parse_limits
from ktrial.tuning.knobs.address import parse_address

#: Blocks of a trial when nobody says otherwise, by the name of the budget.
BUDGETS = {"quick": 9, "default": 20, "thorough": 40}
CONTROL = "control"
#: Names of arms and trials: they become names of files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,60}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "`ktrial try --dry-run` prints one; docs/trial.md explains each line"
_MOST_RUNS_PER_VISIT = 100
#: Before so many blocks no verdict can fall, whatever they say.
_FEWEST_BLOCKS = 7
_LONGEST_SETTLE_S = 3600.0

Value = bool | int | float | str


class ArmFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration.

    `set` are settings, `profile` is one profile or several, `environment` is added to that of the benchmark,
    `parameters` to its parameters. `commands` are run when the arm comes into force, and undone when it ends; `service`
    is the state of a unit of systemd, `sched_ext` a scheduler that runs meanwhile, `build` what makes the program that
    is measured anew for every visit. A placebo is the control again.
    `manual` says what a person does to bring the arm about; `expect` are the facts by which it is recognised then.
    """

    set: Mapping[str, Value] = {}
    profile: str | tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    parameters: Mapping[str, Any] = {}
    commands: tuple[CommandFile, ...] = ()
    service: ServiceFile | None = None
    sched_ext: SchedExtFile | None = None
    build: BuildFile | None = None
    placebo: bool = False
    manual: str | None = None
    expect: Mapping[str, Value] = {}
    # Of trials in guests: the word that names its kernel or what that has of its own, and words for its command line.
    kernel: str | KernelChange | None = None
    boot: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """What is in force in it, as words of `ktrial plan`: profiles first, so that settings win."""
        profiles = (self.profile,) if isinstance(self.profile, str) else self.profile
        return (*profiles, *(f"{knob}={_told(value)}" for knob, value in self.set.items()))

    @property
    def changes_nothing(self) -> bool:
        """Whether it is the machine as it is found."""
        changed = (self.words, self.environment, self.parameters, self.commands, self.service, self.sched_ext)
        return not (any(changed) or self.build or self.manual or self.kernel or self.boot)


class DesignFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the trial goes on and ends.

    `cap` are blocks; without it the cap is planned, up to `budget` (blocks, or quick, default, thorough).
    `time` ends the trial where no further block would fit into it. `settle` is the wait after every switch.
    Without `runs_per_visit` the noise profile says. `anyway` begins also where the noise hides what `detect` wants.
    With `pool` it goes on to seven blocks at least, as it is to be taken together with those of other machines.
    """

    cap: int | None = None
    budget: int | str = "default"
    time: str | None = None
    alpha: float = 0.05
    seed: int | None = None
    replicate: Literal["run", "boot", "build"] = "run"
    runs_per_visit: int | None = None
    settle: str | None = None
    until_all_decided: bool = False
    extend: bool = False
    # Without a default of its own, so that earlier protocols keep their hash.
    anyway: bool | None = None
    pool: bool | None = None


class GuestFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The guests of a trial whose visits are boots.

    `kernel` is that of all arms which name none, or what all are built of; `boot` are words for the command line of
    all, `modules` are loaded first. In each boot every benchmark runs once for each of so many `workloads`: seeds,
    where it takes one. A boot that takes longer than `limit` has failed.
    """

    mode: Mode = "exact"
    kernel: str | KernelRecipe = "running"
    memory: str = "512MiB"
    cpus: int | None = None
    boot: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    workloads: int = 1
    limit: str = "10min"


class TrialFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial.

    The benchmark is a `suite` (or one benchmark) with `parameters`, or a `command` with `metrics`, of which a run that
    takes longer than `limit` is killed and has failed; with `clean_environment` it gets next to nothing of the
    shell's. All arms have the variables of `environment`, an arm's own go before them. `primary`,
    `secondary` and the keys of `guards` are `benchmark.outcome`, or the outcome alone where that is clear. Margins are
    relative. `baseline` says what the control is: the machine as it is found, or a generated profile. `part` names the
    question that this trial is a part of, and `screen` makes it one that looks for the setting that did it; both are
    written by `ktrial blame`.
    With `guest` the visits are boots of guests, and the arms may be kernels.
    """

    name: str
    suite: str | None = None
    command: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    limit: str | None = None
    parameters: Mapping[str, Any] = {}
    cpus: str | None = None
    primary: str | None = None
    secondary: tuple[str, ...] = ()
    guards: Mapping[str, str | float] = {}
    detect: str | float = "5%"
    margin: str | float | None = None
    margins: Mapping[str, str | float] = {}
    baseline: Literal["found", "stock", "distro"] = "found"
    control: str = CONTROL
    questions: Questions = "control"
    design: DesignFile = DesignFile()
    arms: Mapping[str, ArmFile]
    gates: Mapping[str, Any] = {}
    limits: Mapping[str, Any] = {}
    screen: Screen | None = None
    part: str | None = None
    guest: GuestFile | None = None
    # Without a default of its own, so that earlier protocols keep their hash.
    clean_environment: bool | None = None
    environment: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET

    @property
    def safety(self) -> SafetyLimits:
        """What ends the trial at once."""
        return parse_limits(self.limits)

    @property
    def detect_share(self) -> float:
        """The effect that is worth finding, relative."""
        return share(self.detect, "detect")

    @property
    def budget(self) -> int:
        """The most blocks that may be planned."""
        return BUDGETS[self.design.budget] if isinstance(self.design.budget, str) else self.design.budget

    @property
    def settle_s(self) -> float | None:
        """Seconds to wait after every switch; None for what the settings of the arms want."""
        return None if self.design.settle is None else seconds(self.design.settle, "settle")

    @property
    def limit_s(self) -> float | None:
        """Seconds that a run of the command may take; None for what is usual."""
        return None if self.limit is None else seconds(self.limit, "limit")

    @property
    def time_s(self) -> float | None:
        """Seconds that the trial may take in all."""
        return None if self.design.time is None else seconds(self.design.time, "time")

    @property
    def sha256(self) -> str:
        """What an edit changes: the hash of all that is said here."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


def parse_trial_file(data: bytes, file: str) -> TrialFile:
    """Read a protocol; raises BadInput with the place."""
    found = parse_bytes(data, file, TrialFile, _HINT)
    try:
        check_trial_file(found)
    except BadInput as error:
        raise BadInput(error.message, file=file, hint=error.hint) from None
    return found


def check_trial_file(trial: TrialFile) -> None:
    """Raise BadInput for a protocol that says nothing that can be carried out on any machine."""
    for what, name in (("a trial", trial.name), *(("an arm", name) for name in trial.arms)):
        if not _NAME.fullmatch(name):
            raise BadInput(f"{name!r} is no name for {what}", hint="letters, digits and . _ + -, for example wsf500")
    if (trial.suite is None) == (not trial.command):
        what = "nothing is measured" if trial.suite is None else "both a suite and a command are measured"
        raise BadInput(what, hint='either  suite = "pagefault"  or  command = ["make", "-j4"]')
    if trial.metrics and not trial.command:
        raise BadInput("metrics read the output of a command, and a suite is measured", hint="leave metrics out")
    if trial.limit is not None and not trial.command:
        raise BadInput(
            "limit is of a command's runs, and a suite is measured", hint="benchmarks have limits of their own"
        )
    if trial.limit_s is not None and trial.limit_s <= 0:
        raise BadInput(f"limit = {trial.limit}: no run could end", hint='for example  limit = "5min"')
    _check_numbers(trial)
    _check_arms(trial)
    parse_gates(trial.gates)
    parse_limits(trial.limits)


def _check_numbers(trial: TrialFile) -> None:
    design = trial.design
    if isinstance(design.budget, str) and design.budget not in BUDGETS:
        raise UnknownName("budget", design.budget, BUDGETS, hint=f"{', '.join(BUDGETS)}, or a number of blocks")
    for what, blocks in (("budget", design.budget), ("cap", design.cap)):
        if isinstance(blocks, int) and blocks < _FEWEST_BLOCKS:
            raise BadInput(
                f"{what} = {blocks}: too few blocks for any verdict", hint=f"{_FEWEST_BLOCKS} or more; quick are 9"
            )
    if not trial.detect_share > 0:
        raise BadInput(f"detect = {trial.detect!r}: no effect is not to be found", hint='for example  detect = "5%"')
    for name, value in {"margin": trial.margin or 0.0, **trial.margins, **trial.guards}.items():
        share(value, name)
    if design.runs_per_visit is not None and not 1 <= design.runs_per_visit <= _MOST_RUNS_PER_VISIT:
        raise BadInput(f"runs_per_visit = {design.runs_per_visit}", hint=f"from 1 to {_MOST_RUNS_PER_VISIT}")
    if design.seed is not None and not 0 <= design.seed < 2**63:
        raise BadInput(f"seed = {design.seed}", hint="a whole number from 0 on")
    if (trial.settle_s or 0.0) > _LONGEST_SETTLE_S:
        raise BadInput(f"settle = {design.settle!r} is longer than an hour", hint='for example  settle = "5s"')
    if trial.time_s is not None and trial.time_s <= 0:
        raise BadInput(f"time = {design.time!r} leaves no time for a run", hint='for example  time = "2h"')


def _check_arms(trial: TrialFile) -> None:
    arms = trial.arms
    if trial.control not in arms:
        raise UnknownName(
            "arm", trial.control, arms, hint=f"there is none of the name of the control: [arms.{CONTROL}]"
        )
    if len(arms) < 2:
        raise BadInput("one arm is no trial", hint="[arms.placebo]  placebo = true  looks at the noise alone")
    for name, arm in arms.items():
        for knob in arm.set:
            parse_address(knob)
        for variable in arm.environment:
            if not _VARIABLE.fullmatch(variable):
                raise BadInput(
                    f"arm {name}: {variable!r} is no name of a variable", hint="for example MALLOC_ARENA_MAX"
                )
        check_arm_changes(name, arm.commands, arm.service, arm.sched_ext)
        if arm.placebo and not arm.changes_nothing:
            raise Contradiction(f"arm {name} is a placebo and changes something", hint="leave one of both out")
    check_guest_trial(trial)
    check_manual(trial)
    check_builds(trial)
    _check_different(trial)


def _check_different(trial: TrialFile) -> None:
    seen: dict[bytes, str] = {}
    for name, arm in trial.arms.items():
        if arm.placebo:
            continue
        said = msgspec.json.encode(arm, order="deterministic")
        if said in seen:
            raise Contradiction(
                f"the arms {seen[said]} and {name} are the same: that is a placebo trial",
                hint=f"[arms.{name}]  placebo = true  says so",
            )
        seen[said] = name


def share(value: str | float, what: str) -> float:
    """`5%` or 0.05. Raises BadInput."""
    try:
        number = parse_quantity(value, "percent") / 100 if isinstance(value, str) else float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise BadInput(f"{what} = {value!r} is no share", hint='for example "5%"')
    return number


def seconds(value: str, what: str) -> float:
    """`1s`, `500ms`, `2min`. Raises BadInput."""
    try:
        number = parse_quantity(value, "seconds")
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise BadInput(f"{what} = {value!r} is no time", hint='for example "2s" or "10min"')
    return number


def _told(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def trial_text(trial: TrialFile) -> str:
    """The protocol as a file: what is at its default is left out."""
    document = msgspec.to_builtins(trial)
    defaults = msgspec.to_builtins(TrialFile(name="", arms={}))
    lines = []
    tables = []
    for key, value in document.items():
        if value == defaults.get(key):
            continue
        if key == "arms":
            tables += [_table(f"arms.{_key(name)}", _given(arm, ArmFile())) for name, arm in value.items()]
        elif key == "design":
            tables.append(_table("design", _given(value, DesignFile())))
        elif key == "guest":
            tables.append(_table("guest", _given(value, GuestFile())))
        elif isinstance(value, dict):
            tables.append(_table(key, value))
        else:
            lines.append(f"{key} = {_toml(value)}")
    return "\n".join(["\n".join(lines), *tables]) + "\n"


def _given(value: Mapping[str, Any], default: msgspec.Struct) -> dict[str, Any]:
    defaults = msgspec.to_builtins(default)
    return {key: one for key, one in value.items() if one != defaults[key]}


def _table(name: str, values: Mapping[str, Any]) -> str:
    return "\n".join([f"\n[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in values.items())])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(one)}" for key, one in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return quoted(value)


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else quoted(text)

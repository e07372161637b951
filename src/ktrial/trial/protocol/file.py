# SPDX-License-Identifier: Apache-2.0
"""The protocol file that people write (`trial.toml`): what to compare, how to measure, and when to end."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from ktrial.bench.guest_tools import Mode
from ktrial.judge.model.log import Questions, Race, Screen
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.toml import quoted
from ktrial.kit.units import parse_quantity
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.live import LiveFile

#: Maximum number of blocks of a trial, by the name of its budget.
BUDGETS = {"quick": 9, "default": 20, "thorough": 40}
CONTROL = "control"
#: The name of the measured benchmark if arms have commands of their own.
COMPARED = "command"

Value = bool | int | float | str
ServiceState = Literal["started", "stopped"]
#: The modes of scx_loader; its number for a mode is the position in this list.
LoaderMode = Literal["auto", "gaming", "powersave", "lowlatency", "server"]
LOADER_MODES: tuple[LoaderMode, ...] = get_args(LoaderMode)

_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.\\@-]*\.(service|socket|timer|path)")


class CommandFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`run` makes a change and ends, `undo` reverts it, and `check` has status 0 while the change is in force."""

    run: tuple[str, ...]
    undo: tuple[str, ...]
    check: tuple[str, ...] = ()


class ServiceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wanted state of a systemd unit."""

    name: str
    state: ServiceState


class SchedExtFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sched_ext scheduler: its program, and the prefix of the name that the kernel shows.

    Without `ops`, the prefix is the program's name without `scx_`. With `mode`, scx_loader starts the scheduler in this
    mode.
    """

    run: tuple[str, ...]
    ops: str | None = None
    # Unset by default, so that earlier protocols keep their hash.
    mode: LoaderMode | msgspec.UnsetType = msgspec.UNSET

    @property
    def name(self) -> str:
        """The name that the kernel shows, or its prefix."""
        return self.ops or self.run[0].rpartition("/")[2].removeprefix("scx_")

    @property
    def text(self) -> str:
        """The command that starts the scheduler, and the mode for scx_loader, if any."""
        return f"{shlex.join(self.run)}, mode {self.mode} of scx_loader" if self.mode else shlex.join(self.run)


class BuildFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to build the arm's program for every visit: a command, and the artefact that it writes."""

    run: tuple[str, ...]
    artefact: str


def check_arm_changes(
    arm: str, commands: Sequence[CommandFile], service: ServiceFile | None, sched_ext: SchedExtFile | None
) -> None:
    """Raise BadInput for changes that are incomplete or contradict each other."""
    for command in commands:
        for what, words in (("run", command.run), ("undo", command.undo)):
            if not words or not words[0]:
                raise BadInput(
                    f"arm {arm}: a command lacks `{what}`",
                    hint='for example  run = ["gsettings", "set", …], undo = ["gsettings", "reset", …] (no shell)',
                )
        if command.check and not command.check[0]:
            raise BadInput(f"arm {arm}: a check lacks a program", hint="name its program, or remove the check")
    if sched_ext is not None and not (sched_ext.run and sched_ext.run[0] and sched_ext.name):
        raise BadInput(f"arm {arm}: sched_ext lacks a program", hint='for example  sched_ext = { run = ["scx_lavd"] }')
    if sched_ext is not None and sched_ext.mode and len(sched_ext.run) > 1:
        raise BadInput(
            f"arm {arm}: cannot combine `mode` with options in `run`: scx_loader chooses the options of a mode",
            hint="remove `mode`, or the options from `run`",
        )
    if service is not None and not _UNIT.fullmatch(service.name):
        raise BadInput(
            f"arm {arm}: {service.name!r} is not the name of a service, socket, timer or path of systemd",
            hint="for example irqbalance.service",
        )


class ArmFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration of a trial.

    `set` contains settings, `profile` one profile or several. `environment` and `parameters` extend the variables and
    parameters of the benchmark. `command` and `prepare` replace the same keys of the trial.

    `commands` run when ktrial puts the arm in force, and their undo commands when it leaves the arm. `service` is the
    state of a systemd unit and `sched_ext` a scheduler, both while the arm is in force. `build` builds the measured
    program for every visit. A placebo changes nothing. `manual` tells a person how to set up the arm; `expect` contains
    the facts that then identify the arm. `kernel` names the arm's kernel, or in guests the changes of the kernel, and
    `boot` contains kernel arguments; without guests, ktrial boots this machine with both.
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
    kernel: str | KernelChange | None = None
    boot: tuple[str, ...] = ()
    # Unset by default, so that earlier protocols keep their hash.
    command: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    prepare: tuple[tuple[str, ...], ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def words(self) -> tuple[str, ...]:
        """Arguments of `ktrial plan` for this arm: profiles first, because later arguments override earlier ones."""
        profiles = (self.profile,) if isinstance(self.profile, str) else self.profile
        return (*profiles, *(f"{knob}={_value_text(value)}" for knob, value in self.set.items()))

    @property
    def changes_nothing(self) -> bool:
        changed = (self.words, self.environment, self.parameters, self.commands, self.service, self.sched_ext)
        measured = bool(self.command or self.prepare)
        return not (any(changed) or measured or self.build or self.manual or self.kernel or self.boot)


class DesignFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the trial proceeds and when it ends.

    `cap` is the maximum number of blocks. Without `cap`, ktrial plans it, up to `budget` (blocks, or quick, default,
    thorough). `time` ends the trial if no further block would fit into that time. `settle` is the wait before every
    visit. Without `runs_per_visit` the noise profile decides the number of runs. `anyway` starts the trial even if the
    noise hides an effect of the size `detect`. With `pool` the trial makes at least seven blocks, to be pooled with
    trials of other machines. With `fixed` it makes all its blocks, even after a verdict.
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
    # Null by default, so that earlier protocols keep their hash.
    anyway: bool | None = None
    pool: bool | None = None
    fixed: Literal[True] | None = None


class CampaignFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A campaign: `of` trials of this `name` decide one after the other, and share one error rate."""

    name: str
    of: int


class GuestFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The guests of a trial whose visits are boots.

    `kernel` is the kernel of arms that name none, or the recipe for all arms. `boot` contains kernel arguments for
    every boot. The guest loads `modules` first. In each boot every benchmark runs once for each of the `workloads`,
    which are seeds if the benchmark takes a seed. A boot that takes longer than `limit` has failed.
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
    """A trial as a person writes it.

    It measures a `suite` (or one benchmark) with `parameters`, or a `command` with `metrics`. ktrial kills a run of the
    command that takes longer than `limit`; that run has failed. With `clean_environment` the command gets only basic
    variables of the shell. The commands of `prepare` run before each run of the command; before the first block, each
    arm has `warm_ups` runs. With `ignore_failure` the exit status of the command does not matter. All arms have the
    variables of `environment`; an arm's own variables override them. `primary`, `secondary` and the keys of `guards`
    are `benchmark.outcome`, or the outcome alone if that is unique. Margins are relative. `baseline` describes the
    control: the unchanged machine, or a generated profile. The trials of a `campaign` share one error rate.
    `ktrial blame`, `search` and `tune` write `part`, the question to which this trial belongs. `ktrial blame` also
    writes `screen`, which makes the trial look for the responsible setting. `ktrial search` writes `race`, which makes
    the trial choose from many arms, and `front`: secondary outcomes that count like the primary outcome. With `guest`
    the visits are boots of guests, and the arms may be kernels. The machine `load_from` sends the load to the server of
    each benchmark, at `load_address`. With `live` the runs are periods of live work, and the trial measures no suite
    and no command.
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
    # Null by default, so that earlier protocols keep their hash.
    clean_environment: bool | None = None
    environment: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET
    prepare: tuple[tuple[str, ...], ...] | msgspec.UnsetType = msgspec.UNSET
    warm_ups: int | msgspec.UnsetType = msgspec.UNSET
    ignore_failure: bool | msgspec.UnsetType = msgspec.UNSET
    campaign: CampaignFile | msgspec.UnsetType = msgspec.UNSET
    load_from: str | msgspec.UnsetType = msgspec.UNSET
    load_address: str | msgspec.UnsetType = msgspec.UNSET
    live: LiveFile | msgspec.UnsetType = msgspec.UNSET
    race: Race | msgspec.UnsetType = msgspec.UNSET
    front: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def full_arms(self) -> dict[str, ArmFile]:
        """The arms with the trial's environment; a placebo gets the settings of the control.

        If one arm measures a command of its own, each arm has a command.
        """
        common = self.environment or {}
        full = {name: self.arms[self.control] if arm.placebo else arm for name, arm in self.arms.items()}
        full = {
            name: msgspec.structs.replace(arm, environment={**common, **arm.environment}) for name, arm in full.items()
        }
        if not self.compares_commands:
            return full
        return {
            name: msgspec.structs.replace(
                arm, command=arm.command or self.command, prepare=arm.prepare or self.prepare or ()
            )
            for name, arm in full.items()
        }

    @property
    def compares_commands(self) -> bool:
        """Whether the arms measure commands of their own."""
        return any(arm.command or arm.prepare for arm in self.arms.values())

    @property
    def is_blind(self) -> bool:
        """Whether the effects of the arms must stay hidden until the trial is over."""
        return bool(self.live and self.live.blind)

    @property
    def compares_schedulers(self) -> bool:
        """Whether every arm but the control has a sched_ext scheduler, or is a placebo."""
        others = [arm for name, arm in self.arms.items() if name != self.control]
        return any(arm.sched_ext for arm in others) and all(arm.sched_ext or arm.placebo for arm in others)

    @property
    def safety(self) -> SafetyLimits:
        return parse_limits(self.limits)

    @property
    def detect_share(self) -> float:
        """The smallest effect that is worth finding, as a share."""
        return share(self.detect, "detect")

    @property
    def budget(self) -> int:
        return BUDGETS[self.design.budget] if isinstance(self.design.budget, str) else self.design.budget

    @property
    def settle_s(self) -> float | None:
        """Seconds to wait before every visit; None for the time that the arms' settings need."""
        return None if self.design.settle is None else seconds(self.design.settle, "settle")

    @property
    def limit_s(self) -> float | None:
        """Time limit of a run of the command; None for the default."""
        return None if self.limit is None else seconds(self.limit, "limit")

    @property
    def time_s(self) -> float | None:
        return None if self.design.time is None else seconds(self.design.time, "time")

    @property
    def sha256(self) -> str:
        """The hash of all values in the file; comments do not change it."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


#: The dimension of each limit, with an example.
_LIMITS = {"temperature": ("celsius", "95C"), "memory_pressure": ("percent", "40%")}


class SafetyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that end a trial; null means no limit.

    `memory_pressure_share` is the share of time in which all tasks wait for memory.
    """

    temperature_c: float | None = None
    memory_pressure_share: float | None = None

    @property
    def none(self) -> bool:
        return self.temperature_c is None and self.memory_pressure_share is None

    def passed(self, temperature_c: float | None, pressure_share: float | None) -> str | None:
        """Return which value exceeds which limit; None if no known value exceeds a limit."""
        if _is_above(temperature_c, self.temperature_c):
            return f"the temperature is {temperature_c:.1f} °C (limit {self.temperature_c:g} °C)"
        if _is_above(pressure_share, self.memory_pressure_share):
            limit = 100 * (self.memory_pressure_share or 0.0)
            return f"all tasks waited for memory {100 * (pressure_share or 0.0):.0f} % of the time (limit {limit:g} %)"
        return None


def _is_above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def parse_limits(table: Mapping[str, Any]) -> SafetyLimits:
    """Parse `[limits]`. Raise BadInput for an unknown limit or an impossible value."""
    found: dict[str, float] = {}
    for name, value in table.items():
        if name not in _LIMITS:
            raise UnknownName("limit", name, _LIMITS, hint=f"use one of: {', '.join(_LIMITS)}")
        dimension, example = _LIMITS[name]
        try:
            number = parse_quantity(value, dimension) if isinstance(value, str) else math.nan
        except ValueError:
            number = math.nan
        if not number > 0 or (dimension == "percent" and number > 100):
            raise BadInput(f"limits: cannot read {name} = {value!r}", hint=f'for example  {name} = "{example}"')
        found[name] = number
    pressure = found.get("memory_pressure")
    return SafetyLimits(
        temperature_c=found.get("temperature"),
        memory_pressure_share=None if pressure is None else pressure / 100,
    )


def share(value: str | float, what: str) -> float:
    """Return a percentage such as `5%` or 0.05 as a number. Raise BadInput for anything else."""
    try:
        number = parse_quantity(value, "percent") / 100 if isinstance(value, str) else float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise BadInput(f"{what}: expected a percentage of 0 or more, got {value!r}", hint='for example "5%"')
    return number


def full_names(words: Sequence[str], outcomes: Sequence[str]) -> tuple[str, ...]:
    """Return the full name (`benchmark.outcome`) of each word; each must name one of the outcomes."""
    return tuple(
        word if word in outcomes else next(one for one in outcomes if one.endswith(f".{word}")) for word in words
    )


def seconds(value: str, what: str) -> float:
    """Return a duration such as `1s`, `500ms` or `2min` in seconds. Raise BadInput for anything else."""
    try:
        number = parse_quantity(value, "seconds")
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise BadInput(f"{what}: expected a duration, got {value!r}", hint='for example "2s" or "10min"')
    return number


def _value_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def trial_text(trial: TrialFile) -> str:
    """Return the protocol as TOML, without defaults."""
    document = msgspec.to_builtins(trial)
    defaults = msgspec.to_builtins(TrialFile(name="", arms={}))
    lines = []
    tables = []
    for key, value in document.items():
        if value == defaults.get(key):
            continue
        if key == "arms":
            tables += [_table(f"arms.{_key(name)}", _changed_fields(arm, ArmFile())) for name, arm in value.items()]
        elif key == "design":
            tables.append(_table("design", _changed_fields(value, DesignFile())))
        elif key == "guest":
            tables.append(_table("guest", _changed_fields(value, GuestFile())))
        elif key == "live":
            tables.append(_table("live", _changed_fields(value, LiveFile())))
        elif isinstance(value, dict):
            tables.append(_table(key, value))
        else:
            lines.append(f"{key} = {_toml(value)}")
    return "\n".join(["\n".join(lines), *tables]) + "\n"


def _changed_fields(value: Mapping[str, Any], default: msgspec.Struct) -> dict[str, Any]:
    defaults = msgspec.to_builtins(default)
    return {key: one for key, one in value.items() if one != defaults.get(key)}


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

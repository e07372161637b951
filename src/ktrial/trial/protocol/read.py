# SPDX-License-Identifier: Apache-2.0
"""Reads and checks trial files."""

from __future__ import annotations

import re

import msgspec

from ktrial.bench.command_benchmark import MOST_WARM_UPS
from ktrial.kit.errors import BadInput, Contradiction, UnknownName
from ktrial.kit.toml import locate, parse_bytes
from ktrial.machine.gates import parse_gates
from ktrial.trial.arms.boot_arms import boots_this_machine, check_boot_arms
from ktrial.trial.arms.builds import check_builds
from ktrial.trial.arms.manual import check_manual
from ktrial.trial.guests.model import check_guest_trial
from ktrial.trial.protocol.campaign import check_campaign
from ktrial.trial.protocol.file import BUDGETS, ArmFile, TrialFile, check_arm_changes, parse_limits, share
from ktrial.trial.protocol.live import live_faults
from ktrial.tuning.knobs.address import parse_address

#: Names of arms and trials, which become file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,60}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "read docs/trial.md, or the example that `ktrial try vm.swappiness=10 --dry-run` prints"
_MOST_RUNS_PER_VISIT = 100
#: Fewer blocks cannot give any verdict.
_FEWEST_BLOCKS = 7
_LONGEST_SETTLE_S = 3600.0


def parse_trial_file(data: bytes, file: str) -> TrialFile:
    """Parse a protocol. Errors name the file."""
    found = parse_bytes(data, file, TrialFile, _HINT)
    for key, fault in live_faults(found.live) if found.live else ():
        line, column = locate(data.decode(), f"$.live.{key}", "")
        raise BadInput(fault.message, file=file, line=line, column=column, hint=fault.hint)
    try:
        check_trial_file(found)
    except BadInput as error:
        raise BadInput(error.message, file=file, hint=error.hint) from None
    return found


def check_trial_file(trial: TrialFile) -> None:
    """Raise BadInput for a protocol that is invalid on every machine."""
    for what, name in (("a trial", trial.name), *(("an arm", name) for name in trial.arms)):
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"{name!r} is not a name for {what}",
                hint="use at most 61 letters, digits and . _ + -, beginning with a letter or digit",
            )
    if trial.live:
        _check_live(trial)
    elif (trial.suite is None) == (not trial.command):
        what = "measures nothing" if trial.suite is None else "measures both a suite and a command"
        raise BadInput(f"the trial {what}", hint='write either  suite = "pagefault"  or  command = ["make", "-j4"]')
    if trial.metrics and not trial.command:
        raise BadInput(
            "`metrics` read the output of a command, but this trial has no command",
            hint="move `metrics` to [live]"
            if trial.live
            else "leave out the metrics, or replace the suite with a command",
        )
    if trial.limit is not None and not trial.command:
        raise BadInput(
            "`limit` applies to runs of a command, but this trial has no command",
            hint="remove `limit`",
        )
    if trial.prepare and not trial.command:
        raise BadInput("`prepare` is for a command, but this trial has no command", hint="remove `prepare`")
    if not all(step and step[0] for step in trial.prepare or ()):
        raise BadInput("`prepare` contains an empty command", hint='for example  prepare = [["make", "clean"]]')
    if trial.limit_s is not None and trial.limit_s <= 0:
        raise BadInput(f"limit = {trial.limit} leaves no time for a run", hint='for example  limit = "5min"')
    _check_front(trial)
    _check_own_runs(trial)
    _check_load(trial)
    check_campaign(trial)
    _check_numbers(trial)
    _check_arms(trial)
    parse_gates(trial.gates)
    parse_limits(trial.limits)


def _check_front(trial: TrialFile) -> None:
    if other := [name for name in trial.front or () if name not in trial.secondary]:
        raise BadInput(f"front: {other[0]} is not a secondary outcome", hint=f"add {other[0]} to `secondary`")


def _check_numbers(trial: TrialFile) -> None:
    design = trial.design
    if isinstance(design.budget, str) and design.budget not in BUDGETS:
        raise UnknownName("budget", design.budget, BUDGETS, hint=f"use {', '.join(BUDGETS)} or a number of blocks")
    for what, blocks in (("budget", design.budget), ("cap", design.cap)):
        if isinstance(blocks, int) and blocks < _FEWEST_BLOCKS and not trial.race:
            raise BadInput(
                f"{what} = {blocks}: too few blocks for any verdict",
                hint=f"use {_FEWEST_BLOCKS} blocks or more; the budget quick has 9",
            )
    if not trial.detect_share > 0:
        raise BadInput(
            f"detect: expected an effect above zero, got {trial.detect!r}", hint='for example  detect = "5%"'
        )
    for name, value in {"margin": trial.margin or 0.0, **trial.margins, **trial.guards}.items():
        share(value, name)
    if design.runs_per_visit is not None and not 1 <= design.runs_per_visit <= _MOST_RUNS_PER_VISIT:
        expected = f"expected 1 to {_MOST_RUNS_PER_VISIT}, got {design.runs_per_visit}"
        raise BadInput(f"runs_per_visit: {expected}", hint="for example  runs_per_visit = 3")
    if design.seed is not None and not 0 <= design.seed < 2**63:
        raise BadInput(f"seed: expected 0 to 2^63 - 1, got {design.seed}", hint="remove `seed`; ktrial then draws one")
    if (trial.settle_s or 0.0) > _LONGEST_SETTLE_S:
        raise BadInput(f"settle = {design.settle!r} is longer than an hour", hint='for example  settle = "5s"')
    if trial.time_s is not None and trial.time_s <= 0:
        raise BadInput(f"time = {design.time!r} leaves no time for a run", hint='for example  time = "2h"')


def _check_arms(trial: TrialFile) -> None:
    arms = trial.arms
    if trial.control not in arms:
        raise UnknownName(
            "arm", trial.control, arms, hint=f"add a table [arms.{trial.control}], or name another control"
        )
    if len(arms) < 2:
        raise BadInput(
            "a trial needs at least two arms", hint="add  [arms.placebo]  placebo = true  to measure the noise"
        )
    boots = boots_this_machine(trial)
    for name, arm in arms.items():
        for knob in arm.set:
            parse_address(knob)
        for variable in arm.environment:
            if not _VARIABLE.fullmatch(variable):
                raise BadInput(
                    f"arm {name}: {variable!r} in `environment` is not a variable name",
                    hint="for example MALLOC_ARENA_MAX",
                )
        check_arm_changes(name, arm.commands, arm.service, arm.sched_ext)
        _check_own_command(trial, name, arm)
        # ktrial itself has written `manual` into each arm of a trial that boots this machine.
        changed = msgspec.structs.replace(arm, manual=None) if boots else arm
        if arm.placebo and not changed.changes_nothing:
            raise Contradiction(f"arm {name}: a placebo cannot change anything", hint="remove `placebo` or the changes")
    check_guest_trial(trial)
    if boots:
        check_boot_arms(trial)
    else:
        check_manual(trial)
    check_builds(trial)
    _check_different(trial)


def _check_own_runs(trial: TrialFile) -> None:
    if trial.warm_ups and not 0 <= trial.warm_ups <= MOST_WARM_UPS:
        raise BadInput(f"warm_ups: expected 0 to {MOST_WARM_UPS}, got {trial.warm_ups}", hint="remove `warm_ups`")
    if (trial.warm_ups or trial.ignore_failure) and not trial.compares_commands:
        raise BadInput(
            "warm_ups and ignore_failure apply to commands of arms, but no arm has its own command",
            hint="remove warm_ups and ignore_failure, or give an arm a `command`",
        )


def _check_load(trial: TrialFile) -> None:
    if not trial.load_from:
        if trial.load_address:
            raise BadInput("load_address requires load_from", hint='add  load_from = "ssh:NAME"')
        return
    named = {
        "a command": bool(trial.command),
        "guests": trial.guest is not None,
        "boots of this machine": boots_this_machine(trial),
    }
    if culprit := next((what for what, is_there in named.items() if is_there), None):
        raise BadInput(f"cannot combine load_from with {culprit}", hint="leave out load_from")


def _check_live(trial: TrialFile) -> None:
    """Raise BadInput for a live trial that is also another kind of trial."""
    for _, fault in live_faults(trial.live) if trial.live else ():
        raise fault
    design = trial.design
    named = {
        "suite": trial.suite is not None,
        "command": bool(trial.command),
        "parameters": bool(trial.parameters),
        "cpus": trial.cpus is not None,
        "environment": bool(trial.environment),
        "clean_environment": bool(trial.clean_environment),
        "guest": trial.guest is not None,
        "gates": bool(trial.gates),
        "[design] settle": design.settle is not None,
        "[design] time": design.time is not None,
        "[design] runs_per_visit": design.runs_per_visit is not None,
        "[design] replicate": design.replicate != "run",
        "load_from": bool(trial.load_from),
    }
    if culprit := next((what for what, is_there in named.items() if is_there), None):
        instead = {"[design] settle": "use `washout` in [live] instead", "[design] time": "use `for` in [live] instead"}
        hint = instead.get(culprit, f"remove {culprit} or [live]")
        raise BadInput(f"cannot combine [live] with {culprit}", hint=hint)
    if (
        trial.live
        and trial.live.stay
        and not all(one.placebo for name, one in trial.arms.items() if name != trial.control)
    ):
        raise BadInput(
            "[live] stay requires `placebo = true` in every arm except the control",
            hint="mark every other arm as a placebo, or remove stay",
        )
    for name, arm in trial.arms.items():
        plain = msgspec.structs.replace(arm, set={}, profile=(), commands=(), service=None, sched_ext=None)
        if not plain.changes_nothing or arm.expect or arm.environment:
            raise BadInput(
                f"arm {name} makes a change that a live trial cannot switch while the work goes on",
                hint="use only set, profile, service, sched_ext and commands in this arm",
            )


def _check_own_command(trial: TrialFile, name: str, arm: ArmFile) -> None:
    if (arm.command or arm.prepare) and not trial.command:
        what = "command" if arm.command else "`prepare`"
        raise BadInput(
            f"arm {name} has its own {what}, but this trial measures a suite",
            hint=f"remove the arm's {what}, or replace the trial's `suite` with a `command`",
        )
    if arm.command and (trial.guest is not None or arm.build is not None):
        what = "guests" if trial.guest is not None else "a build"
        raise BadInput(f"arm {name}: cannot combine `command` with {what}", hint="remove the arm's `command`")
    if not all(step and step[0] for step in ((arm.command,) if arm.command else ()) + (arm.prepare or ())):
        raise BadInput(f"arm {name}: a command is empty", hint='for example  command = ["make", "-j4"]')


def _check_different(trial: TrialFile) -> None:
    seen: dict[bytes, str] = {}
    for name, arm in trial.arms.items():
        if arm.placebo:
            continue
        said = msgspec.json.encode(arm, order="deterministic")
        if said in seen:
            raise Contradiction(
                f"arms {seen[said]} and {name} are the same",
                hint=f"add  placebo = true  to [arms.{name}]" if arm.changes_nothing else f"remove arm {name}",
            )
        seen[said] = name

# SPDX-License-Identifier: Apache-2.0
"""The file of a fleet's trial: a trial file with a table `[fleet]`."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ktrial.judge.stats.critical import LOOKS
from ktrial.kit.errors import BadInput
from ktrial.kit.toml import parse_bytes
from ktrial.live.parse import parse_metrics
from ktrial.trial.protocol.file import ArmFile, TrialFile, seconds
from ktrial.trial.protocol.live import LiveFile
from ktrial.trial.protocol.read import check_trial_file

Design = Literal["within", "pairs", "stepped"]
_HINT = "read docs/fleets.md, which explains each line"
_SHARE = re.compile(r"([1-9][0-9]?|100)%")
_MOST_ERROR = 0.2
#: A placeholder in a metric, for the machine's name in the inventory or for one of its variables.
PLACE = re.compile(r"\{(host|inventory\.[A-Za-z_][A-Za-z0-9_]*)\}")
#: On a machine that measures only one arm, the arm's second name.
AGAIN = "again"


class FleetTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the machines of a fleet take part.

    In the design `within`, each machine measures all arms, in `blocks` blocks. In `pairs`, machines with equal facts in
    `match` form pairs; if `near` names a numeric fact, the machines of a pair have close values of this fact. A coin
    decides which machine of a pair gets the arm, and each machine measures only its own arm. In `stepped`, all machines
    are measured in every period, and in each period one more wave has the arm; chance decides the order.

    `waves` contains the sizes of groups of machines, as numbers or as shares of all; the last size repeats. At most
    `at_once` machines measure at the same time. `guard_error` is the chance that the guards stop a harmless trial.
    ktrial waits for an unreachable machine for `patience`. The report also shows the effect for each value of the facts
    in `subgroups`.
    """

    design: Design = "within"
    blocks: int = 7
    waves: tuple[int | str, ...] = (1, "25%", "100%")
    at_once: int | None = None
    match: tuple[str, ...] = ("cpu.model", "cpu.threads", "kernel.release")
    near: str | None = None
    subgroups: tuple[str, ...] = ()
    guard_error: float = 0.05
    patience: str = "30min"

    @property
    def patience_s(self) -> float:
        return seconds(self.patience, "patience")

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that this table names."""
        paired = (*self.match, *([self.near] if self.near else ())) if self.design == "pairs" else ()
        return tuple(dict.fromkeys((*paired, *self.subgroups)))


class FleetTrial(TrialFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial file with a table `[fleet]`."""

    fleet: FleetTable = FleetTable()

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that the trial names, in its table and as variables of the inventory in its metrics."""
        specs = self.live.metrics if self.live else ()
        named = (one for spec in specs for one in PLACE.findall(spec) if one != "host")
        return tuple(dict.fromkeys((*self.fleet.facts, *named)))

    def for_machine(self, name: str, seed: int, arm: str | None) -> TrialFile:
        """Return the trial that a machine carries out. The trial always runs all its blocks, even after a verdict.

        If the machine measures only one `arm`, that arm is the control and, under another name, also a placebo.
        """
        design = msgspec.structs.replace(
            self.design, cap=self.fleet.blocks, seed=seed, fixed=True, pool=True, extend=False
        )
        fields = {field: getattr(self, field) for field in TrialFile.__struct_fields__}
        more: dict[str, object] = {"name": name, "design": design}
        if arm is not None:
            more |= {"control": arm, "arms": {arm: self.arms[arm], AGAIN: ArmFile(placebo=True)}}
        return TrialFile(**{**fields, **more})


def parse_fleet_trial(data: bytes, file: str) -> FleetTrial:
    """Parse the file of a fleet's trial. Errors name the file."""
    found = parse_bytes(data, file, FleetTrial, _HINT)
    try:
        check_trial_file(found)
        _check(found)
    except BadInput as error:
        raise BadInput(error.message, file=file, hint=error.hint) from None
    return found


def wave_sizes(table: FleetTable, machines: int) -> tuple[int, ...]:
    """Return the number of machines in each wave; each machine is in exactly one wave."""
    sizes: list[int] = []
    left = machines
    while left:
        word = table.waves[min(len(sizes), len(table.waves) - 1)]
        size = word if isinstance(word, int) else -(-machines * int(word.rstrip("%")) // 100)
        sizes.append(min(left, size))
        left -= sizes[-1]
    return tuple(sizes)


def _check(trial: FleetTrial) -> None:
    table = trial.fleet
    if trial.live:
        _check_live(trial.live, table)
    used = ["guest"] if trial.guest is not None else []
    used += [key for key in ("kernel", "boot", "manual") if any(getattr(arm, key) for arm in trial.arms.values())]
    if used:
        named = " and ".join(f"`{key}`" for key in used)
        raise BadInput(
            f"a trial on a fleet cannot boot machines or set them up by hand, but the file has {named}",
            hint=f"remove {named}, or use `ktrial trial run` on one machine",
        )
    if table.blocks not in LOOKS:
        raise BadInput(
            f"fleet: blocks = {table.blocks} allows no verdict", hint=f"use one of: {', '.join(map(str, LOOKS))}"
        )
    if not table.waves or not all(_is_size(one) for one in table.waves):
        raise BadInput(
            f"fleet: cannot read waves = {list(table.waves)}",
            hint='write numbers of machines or shares of all, for example  waves = [1, "25%", "100%"]',
        )
    if table.at_once is not None and table.at_once < 1:
        raise BadInput(f"fleet: expected at_once of 1 or more, got {table.at_once}", hint="for example  at_once = 4")
    if not 0 < table.guard_error <= _MOST_ERROR:
        raise BadInput(
            f"fleet: expected guard_error above 0 and at most {_MOST_ERROR:g}, got {table.guard_error:g}",
            hint="for example  guard_error = 0.05",
        )
    if not table.patience_s > 0:
        raise BadInput(
            f"fleet: expected patience above 0, got {table.patience!r}", hint='for example  patience = "30min"'
        )
    if table.design != "within" and len(trial.arms) != 2:
        raise BadInput(
            f"fleet: the design {table.design!r} compares only one arm with the control",
            hint='keep two arms, or use  design = "within"',
        )
    if table.design == "pairs" and not table.match:
        raise BadInput("fleet: the design 'pairs' needs facts in `match`", hint='for example  match = ["cpu.model"]')


def _check_live(live: LiveFile, table: FleetTable) -> None:
    if table.design == "pairs" and table.at_once is not None and table.at_once % 2:
        raise BadInput(
            f"fleet: at_once = {table.at_once} separates a pair, but both machines must be watched at the same time",
            hint="use an even number",
        )
    for key in ("rate", "blind", "covariates", "for_", "quiet", "switches", "stay"):
        if getattr(live, key):
            raise BadInput(
                f"fleet: `{key.rstrip('_')}` of [live] works only on one machine",
                hint="remove this line, or use `ktrial live --host` on one machine",
            )
    parse_metrics([PLACE.sub("host", one) for one in live.metrics])
    if live.period is None:
        raise BadInput(
            "fleet: [live] has no period, which a trial on a fleet needs", hint='for example  period = "5min"'
        )


def _is_size(word: int | str) -> bool:
    return word > 0 if isinstance(word, int) else _SHARE.fullmatch(word) is not None

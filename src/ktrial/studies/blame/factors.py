# SPDX-License-Identifier: Apache-2.0
"""Turns the user's words into factors: settings that ktrial can switch on and off one by one on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ktrial.kernels.request import parse_set
from ktrial.kit.errors import BadInput, Contradiction, Refused
from ktrial.studies.blame.model import BlameQuestion, Factor
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.record import ArmSettings
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.plans.model import Change, Plan, ZramStep

_FEWEST = 2
_MOST = 127
#: Maximum number of sets of symbols: every combination is built, which is 16 kernels.
_MOST_SYMBOLS = 4
_LONGEST = 60


def factors_of(
    plan: Plan,
    knobs: Mapping[str, Knob],
    environment: Mapping[str, str],
    boots: Sequence[str] = (),
    symbols: Sequence[str] = (),
) -> tuple[Factor, ...]:
    """Return a factor for each changed knob, each environment variable, and each item of `boots` and `symbols`.

    All instances of a knob are one factor. Knobs that the kernel changes together are one factor too, because none of
    them keeps its value when ktrial switches it alone. A zram device is one factor, because it is set up as a whole.
    Raise BadInput if there are fewer than two factors, or too many.
    """
    groups: list[list[Change]] = []
    for change in plan.changes:
        near = [group for group in groups if any(_belong(change, other, knobs) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(one for group in near for one in group), change])
    made = [
        Factor(
            name=" + ".join(dict.fromkeys(one.knob for one in group)),
            set={one.address: one.new_text for one in group},
        )
        for group in groups
    ]
    made += [] if plan.zram is None else [_device(plan.zram)]
    made += [Factor(name=name, environment={name: value}) for name, value in environment.items()]
    _refuse_twice([word for text in boots for word in text.split()])
    made += [Factor(name=f"boot:{text}", boot=tuple(text.split())) for text in boots]
    made += symbol_factors(symbols)
    if len(made) < _FEWEST:
        if not made:
            raise BadInput(
                "nothing to blame: no setting changes anything here",
                hint="run `ktrial plan` with the same settings to see why",
            )
        command = "ktrial kernel trial" if made[0].boot or made[0].symbols else "ktrial try"
        raise BadInput(
            f"cannot blame a single setting: only {made[0].name} changes anything here",
            hint=f"name more settings, or test {made[0].name} with `{command}`",
        )
    if len(made) > _MOST:
        raise BadInput(
            f"{len(made)} settings are too many (maximum {_MOST})", hint="name fewer settings, or part of the profile"
        )
    return tuple(made)


def symbol_factors(symbols: Sequence[str]) -> list[Factor]:
    """Return a factor for each text in `symbols`, which may set several symbols, as in `A=y B=n`.

    Raise BadInput for too many texts, and Contradiction if a symbol appears twice.
    """
    if len(symbols) > _MOST_SYMBOLS:
        raise BadInput(
            f"{len(symbols)} --set options are too many (maximum {_MOST_SYMBOLS}): they need up to "
            f"{2 ** len(symbols)} kernels",
            hint="switch several symbols together with --set 'A=y B=n', or use tiers of `ktrial ladder --tree`",
        )
    found = []
    for text in symbols:
        wishes = [parse_set(word) for word in text.split()]
        found.append(Factor(name=f"kconfig:{text}", symbols={wish.symbol: wish.value for wish in wishes}))
    names = [name for one in found for name in one.symbols]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Contradiction(
            f"--set names {twice} twice", hint=f"name {twice} once, or compare its values with `ktrial kernel trial`"
        )
    return found


def combinations_of(symbols: Sequence[str], template: TrialFile) -> TrialFile:
    """Return a trial with every kernel that a blame of these symbols may need, for planning only."""
    factors = symbol_factors(symbols)
    arms = {"control": ArmFile()}
    for number in range(1, 2 ** len(factors)):
        chosen = [one for place, one in enumerate(factors) if number >> place & 1]
        together = {name: value for one in chosen for name, value in one.symbols.items()}
        name = "+".join(together)
        arms[name if len(name) <= _LONGEST else f"set-{number}"] = ArmFile(kernel=KernelChange(set=together))
    return msgspec.structs.replace(template, arms=arms)


def _refuse_twice(words: Sequence[str]) -> None:
    """Raise Contradiction if a boot parameter appears twice: the kernel would use only the last one."""
    for at, word in enumerate(words):
        name = word.partition("=")[0]
        if name in (other.partition("=")[0] for other in words[:at]):
            raise Contradiction(
                f"--boot names {name} twice", hint=f"name {name} once, or compare its values with `ktrial kernel trial`"
            )


def _device(step: ZramStep) -> Factor:
    settings = {"zram:comp_algorithm": step.algorithm, "zram:disksize": step.size_bytes}
    chosen = {name: value for name, value in settings.items() if value is not None}
    where = f"@{step.device}" if step.device is not None else ""
    return Factor(name=" + ".join(chosen), set={f"{name}{where}": value for name, value in chosen.items()})


def _belong(one: Change, other: Change, knobs: Mapping[str, Knob]) -> bool:
    if one.knob == other.knob:
        return True
    pairs = ((one.knob, other.knob), (other.knob, one.knob))
    return any(first in knobs and second in knobs[first].couples for first, second in pairs)


def left_out_of(plan: Plan) -> dict[str, str]:
    """Return the settings that cannot be responsible, by address, with the reason: in force already, or refused."""
    in_force = {change.address: "in force already" for change in plan.same}
    return in_force | {refusal.address: refusal.reason for refusal in plan.refusals}


def check_combinations(question: BlameQuestion, file: TrialFile, arms: Mapping[str, ArmSettings]) -> None:
    """Raise Refused if a combination of factors sets a value differently from the whole set."""
    for name, arm in file.arms.items():
        for address, wanted in arm.set.items():
            is_device = address.startswith("zram:")
            found = arms[name].changes.get("zram" if is_device else address)
            if found == wanted or (is_device and found is not None):
                continue
            owner = next(one.name for one in question.factors if address in one.set)
            others = ", ".join(one.name for one in question.factors if not set(one.set) & set(arm.set))
            result = f"the value would be {found}" if found else "nothing would change"
            why = arms[name].refused.get(address) or result
            raise Refused(
                f"cannot switch {owner} separately: {address} = {wanted} without {others or 'the others'} fails,"
                f" because {why}",
                hint=f"leave out {owner}, or test all settings together with `ktrial try`",
            )


def whole(words_arm: ArmFile, template: TrialFile) -> TrialFile:
    """Return a trial of `words_arm` against a control without settings, for planning only."""
    return msgspec.structs.replace(template, arms={"control": ArmFile(), "all": words_arm})

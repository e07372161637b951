# SPDX-License-Identifier: Apache-2.0
"""From what a person names to factors that can be switched on and off one by one on this machine."""

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

#: Below this there is no choice.
_FEWEST = 2
_MOST = 127
#: Of so many sets of symbols every combination is built: 16 kernels.
_MOST_SYMBOLS = 4
_LONGEST = 60


def factors_of(
    plan: Plan,
    knobs: Mapping[str, Knob],
    environment: Mapping[str, str],
    boots: Sequence[str] = (),
    symbols: Sequence[str] = (),
) -> tuple[Factor, ...]:
    """Each knob that the plan changes, all its instances together, each variable, each of `boots` and of `symbols`.

    Knobs that the kernel changes with each other are one factor: switched one by one, neither keeps its value. So is a
    zram device, which is set up as a whole.
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
        told = f"only {made[0].name} changes anything here" if made else "nothing of it changes anything here"
        raise BadInput(f"{told}: there is nobody else to blame", hint="`ktrial try` tells what it does")
    if len(made) > _MOST:
        raise BadInput(f"{len(made)} settings are more than {_MOST}", hint="name fewer, or a part of the profile")
    return tuple(made)


def symbol_factors(symbols: Sequence[str]) -> list[Factor]:
    """Return each of `--set`, of one symbol or several. Raises where they cannot be switched one by one."""
    if len(symbols) > _MOST_SYMBOLS:
        raise BadInput(
            f"{len(symbols)} times --set: up to {2 ** len(symbols)} kernels would have to be built",
            hint=f"{_MOST_SYMBOLS} at most; several symbols in one --set 'A=y B=n' are switched as one, and "
            "`ktrial ladder --tree` takes a tier for each",
        )
    found = []
    for text in symbols:
        wishes = [parse_set(word) for word in text.split()]
        found.append(Factor(name=f"kconfig:{text}", symbols={wish.symbol: wish.value for wish in wishes}))
    names = [name for one in found for name in one.symbols]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Contradiction(f"--set says {twice} twice", hint="one value of each; `ktrial kernel trial` tries several")
    return found


def combinations_of(symbols: Sequence[str], template: TrialFile) -> TrialFile:
    """Return a trial with every kernel that a blame of these may need: for planning only."""
    factors = symbol_factors(symbols)
    arms = {"control": ArmFile()}
    for number in range(1, 2 ** len(factors)):
        chosen = [one for place, one in enumerate(factors) if number >> place & 1]
        together = {name: value for one in chosen for name, value in one.symbols.items()}
        name = "+".join(together)
        arms[name if len(name) <= _LONGEST else f"set-{number}"] = ArmFile(kernel=KernelChange(set=together))
    return msgspec.structs.replace(template, arms=arms)


def _refuse_twice(words: Sequence[str]) -> None:
    """Raise where the last of two words would win, whichever of them is on."""
    for at, word in enumerate(words):
        name = word.partition("=")[0]
        if name in (other.partition("=")[0] for other in words[:at]):
            raise Contradiction(
                f"--boot says {name} twice", hint="one value of each; `ktrial kernel trial` tries several"
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
    """Return what is named and cannot have done it: it is in force already, or cannot be set here."""
    told = {change.address: "in force already" for change in plan.same}
    return told | {refusal.address: refusal.reason for refusal in plan.refusals}


def check_combinations(question: BlameQuestion, file: TrialFile, arms: Mapping[str, ArmSettings]) -> None:
    """Raise Refused if some combination of factors does not come to what each of them comes to in the whole set."""
    for name, arm in file.arms.items():
        for address, wanted in arm.set.items():
            is_device = address.startswith("zram:")
            found = arms[name].changes.get("zram" if is_device else address)
            if found == wanted or (is_device and found is not None):
                continue
            owner = next(one.name for one in question.factors if address in one.set)
            others = ", ".join(one.name for one in question.factors if not set(one.set) & set(arm.set))
            why = arms[name].refused.get(address) or (f"it would be {found}" if found else "it would change nothing")
            raise Refused(
                f"{owner} cannot be combined freely: without {others or 'the others'}, {address} = {wanted}: {why}",
                hint="leave it out here, and try it by itself: `ktrial try`",
            )


def whole(words_arm: ArmFile, template: TrialFile) -> TrialFile:
    """Return a trial whose one arm is all that was named: for planning only."""
    return msgspec.structs.replace(template, arms={"control": ArmFile(), "all": words_arm})

# SPDX-License-Identifier: Apache-2.0
"""Builds the kernels that the arms of a guest trial name, after checking all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ktrial.kit.errors import Contradiction, KtrialError, Refused
from ktrial.trial.guests.model import kernel_of
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import TrialFile
from ktrial.tuning.plans.model import Change, Plan, Refusal

#: Prefix of Kconfig symbols among the knobs.
_SYMBOL = "kconfig:"
#: Hint for kernels whose difference an exact guest cannot measure.
UNLIKE_HINT = (
    'add --mode kvm (in a protocol: mode = "kvm"), because an exact guest counts instructions, not what they cost'
)
_STANDS = {"on": "y", "off": "n"}


class KernelPlan(NamedTuple):
    """A kernel that ktrial can build.

    `key` changes if any input of the build changes. `image` is the path of its image if it is built already.
    `compiled` contains the properties of the compilation that an exact guest cannot measure.
    """

    recipe: KernelRecipe
    version: str
    key: str
    compiled: Mapping[str, str]
    image: str | None = None
    symbols: Mapping[str, str] = {}


class KernelBuilder(Protocol):
    """Builds each kernel once."""

    def plan(self, recipe: KernelRecipe) -> KernelPlan:
        """Open, patch and configure the sources. Raise an error if a step fails."""

    def check_room(self, plans: Sequence[KernelPlan]) -> None:
        """Raise Refused if there is too little disk space or memory to build these kernels."""

    def build(self, plan: KernelPlan) -> str: ...


#: Returns the word for the kernel of every arm.
KernelWords = Callable[[TrialFile], Mapping[str, str]]


def kernel_words(file: TrialFile, workshop: KernelBuilder, say: Callable[[str], None]) -> dict[str, str]:
    """Build the kernels that are missing. Return the word that names each arm's kernel.

    Raise Contradiction if two arms get the same kernel, unless the trial is a `part` of a blame or search.
    """
    plans = planned_kernels(file, workshop)
    if file.part is None:
        refuse_same(file, plans)
    images = built_images(plans, workshop, say)
    words = {}
    for name, arm in file.full_arms.items():
        kernel = kernel_of(file, arm)
        words[name] = kernel if isinstance(kernel, str) else images[plans[name].key]
    return words


def planned_kernels(file: TrialFile, workshop: KernelBuilder) -> dict[str, KernelPlan]:
    """Return a plan for each arm whose kernel ktrial builds. An error names the arm of the impossible kernel."""
    found: dict[str, KernelPlan] = {}
    for name, arm in file.full_arms.items():
        kernel = kernel_of(file, arm)
        if isinstance(kernel, KernelRecipe):
            try:
                found[name] = workshop.plan(kernel)
            except KtrialError as error:
                error.message = f"arm {name}: {error.message}"
                raise
    if file.guest is not None and file.guest.mode == "exact":
        _refuse_compiled(found)
    return found


def refuse_same(file: TrialFile, plans: Mapping[str, KernelPlan]) -> None:
    """Raise Contradiction if arms request different kernels but get the same kernel."""
    by_key: dict[str, str] = {}
    for name, plan in plans.items():
        other = by_key.setdefault(plan.key, name)
        asked = file.arms[name].kernel
        changes_nothing = isinstance(asked, KernelChange) and file.arms[other].kernel is None
        if plans[other].recipe != plan.recipe or changes_nothing:
            raise Contradiction(
                f"arms {other} and {name} ask for different kernels, but get the same kernel",
                hint=f"remove arm {name}, or ask for an option that arm {other} lacks",
            )


def built_images(
    plans: Mapping[str, KernelPlan], workshop: KernelBuilder, say: Callable[[str], None]
) -> dict[str, str]:
    """Build the missing kernels one by one. Return the paths of all images by key."""
    found = {plan.key: plan.image for plan in plans.values() if plan.image is not None}
    missing: dict[str, tuple[str, KernelPlan]] = {}
    for name, plan in plans.items():
        if plan.key not in found:
            missing.setdefault(plan.key, (name, plan))
    workshop.check_room([plan for _, plan in missing.values()])
    for number, (key, (name, plan)) in enumerate(missing.items(), start=1):
        say(f"building the kernel of arm {name}, {number} of {len(missing)}")
        found[key] = workshop.build(plan)
    return found


def _refuse_compiled(plans: Mapping[str, KernelPlan]) -> None:
    """Raise Refused if two kernels would differ in a property that an exact guest cannot measure."""
    first = next(iter(plans), None)
    for name, plan in plans.items():
        for what, value in plan.compiled.items():
            if first is not None and (usual := plans[first].compiled[what]) != value:
                raise Refused(
                    f"cannot compare arms {first} and {name} in exact guests: their kernels will differ in their "
                    f"{what} ({usual}, {value})",
                    hint=UNLIKE_HINT,
                )


def as_built(plan: Plan, symbols: Mapping[str, str] | None) -> Plan:
    """Return the plan for a kernel that was built with `symbols`.

    A requested Kconfig symbol that this kernel already has counts as in force, not as refused.
    """
    if symbols is None:
        return plan
    same = [_in_force(one) for one in plan.refusals if _is_built_in(one, symbols)]
    refusals = tuple(one for one in plan.refusals if not _is_built_in(one, symbols))
    return msgspec.structs.replace(plan, same=(*plan.same, *same), refusals=refusals)


def _is_built_in(refusal: Refusal, symbols: Mapping[str, str]) -> bool:
    if not refusal.knob.startswith(_SYMBOL):
        return False
    return symbols.get(refusal.knob.removeprefix(_SYMBOL), "n") == _STANDS.get(refusal.value, refusal.value)


def _in_force(refusal: Refusal) -> Change:
    value = _STANDS.get(refusal.value, refusal.value)
    return Change(
        knob=refusal.knob,
        address=refusal.address,
        path="",
        rule="plain",
        new_text=value,
        old_text=value,
        old=None,
        couples=(),
        effective=None,
        why=None,
        origin=refusal.origin,
        risk="safe",
    )

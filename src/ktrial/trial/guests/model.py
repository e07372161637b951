# SPDX-License-Identifier: Apache-2.0
"""Trials in guests: each visit boots a guest with a kernel, kernel arguments and settings.

An arm names its kernel by a word, or ktrial builds the kernel from sources with the arm's own changes.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from ktrial.bench.guest_tools import GuestPlace, Mode, Shape
from ktrial.kernels.request import parse_set
from ktrial.kernels.source import parse_patch
from ktrial.kit.errors import BadInput, Contradiction
from ktrial.kit.units import parse_quantity, show_bytes
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe

if TYPE_CHECKING:
    from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile

_TREE = 'add --tree TREE (in a protocol:  [guest.kernel]  tree = "linux.tar.xz")'

Kernel = str | KernelRecipe


def kernel_of(trial: TrialFile, arm: ArmFile) -> Kernel:
    """Return the name of an arm's kernel, or the recipe to build it. Raise BadInput if nothing names the sources."""
    assert trial.guest is not None, "only trials in guests have kernels"
    usual, own = trial.guest.kernel, arm.kernel
    if not isinstance(own, KernelChange):
        return usual if own is None else own
    if isinstance(usual, KernelRecipe):
        return usual.with_change(own)
    if own.tree is None:
        raise BadInput("cannot build a kernel: nothing names its sources", hint=_TREE)
    return KernelRecipe(tree=own.tree).with_change(own)


def check_kernel(where: str, kernel: KernelRecipe | KernelChange) -> None:
    try:
        for symbol, value in kernel.set.items():
            parse_set(f"{symbol}={value}")
        for patch in kernel.patches:
            parse_patch(patch)
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", hint=error.hint) from None


LEAST_MEMORY_BYTES, MOST_CPUS = 64 << 20, 64
#: Maximum number of seeds in one boot. More would be one long run.
MOST_WORKLOADS = 100
_PERTURBATION = "ktrial.visit"
#: Fields that only arms of trials on a machine can have.
_ELSEWHERE = ("environment", "commands", "service", "sched_ext", "build", "manual", "expect")


def check_guest_trial(trial: TrialFile) -> None:
    """Raise BadInput if a guest trial uses features that guests lack, or describes an impossible guest."""
    guest = trial.guest
    if guest is None:
        return
    _refuse_of_machines(trial)
    for name, arm in trial.arms.items():
        for field in _ELSEWHERE:
            if getattr(arm, field):
                raise Contradiction(
                    f"arm {name}: an arm in a guest cannot have `{field}`",
                    hint=f"remove `{field}`; only kernel, boot, set, profile and parameters are allowed",
                )
        _check_words(f"arm {name}", arm.boot)
        if isinstance(arm.kernel, KernelChange):
            check_kernel(f"arm {name}", arm.kernel)
            kernel_of(trial, arm)
    _check_words("[guest]", guest.boot)
    if isinstance(guest.kernel, KernelRecipe):
        check_kernel("[guest]", guest.kernel)
    if not 1 <= guest.workloads <= MOST_WORKLOADS:
        raise BadInput(
            f"workloads: expected 1 to {MOST_WORKLOADS}, got {guest.workloads}", hint="for example  workloads = 3"
        )
    shape_of(guest)


def _refuse_of_machines(trial: TrialFile) -> None:
    if trial.command or trial.environment or trial.gates or trial.limits or trial.cpus is not None:
        told = {name: getattr(trial, name) for name in ("command", "environment", "gates", "limits")}
        found = next((name for name, value in told.items() if value), "cpus")
        hint = f"remove `{found}`, or measure on this machine instead of in guests"
        raise Contradiction(f"a trial in guests cannot have `{found}`", hint=hint)
    if trial.design.time is not None:
        raise Contradiction("a trial in guests cannot have `time`", hint="use `cap` to limit the blocks")
    design = trial.design
    named = {
        'replicate = "build"': design.replicate == "build",
        "runs_per_visit": design.runs_per_visit is not None,
        "settle": design.settle is not None,
    }
    if culprit := next((what for what, is_there in named.items() if is_there), None):
        raise Contradiction(
            f"cannot combine [guest] with {culprit}",
            hint=f"remove {culprit}; every visit is a boot, and `workloads` in [guest] sets its runs",
        )


def _check_words(where: str, words: tuple[str, ...]) -> None:
    for word in words:
        if not word or not word.isprintable() or word.split() != [word] or word.startswith(_PERTURBATION):
            is_own = word.startswith(_PERTURBATION)
            raise BadInput(
                f"{where}: {word!r} is not a kernel argument for a guest: "
                f"{'ktrial sets it itself' if is_own else 'expected one word'}",
                hint="remove this argument" if is_own else 'for example  boot = ["preempt=full"]',
            )


def shape_of(guest: GuestFile) -> Shape:
    """Return the virtual machine that all arms use. Raise BadInput if it is impossible."""
    try:
        memory_bytes = int(parse_quantity(guest.memory, "bytes"))
    except ValueError as error:
        raise BadInput(f"memory = {guest.memory!r}: {error}", hint='for example "512MiB"') from None
    if memory_bytes < LEAST_MEMORY_BYTES:
        raise BadInput(
            f"memory = {guest.memory!r}: a guest needs at least {show_bytes(LEAST_MEMORY_BYTES)}",
            hint=f'write  memory = "{LEAST_MEMORY_BYTES >> 20}MiB"',
        )
    mode: Mode = guest.mode
    cpus = guest.cpus or (1 if mode == "exact" else 2)
    if not 1 <= cpus <= MOST_CPUS:
        raise BadInput(f"cpus: expected 1 to {MOST_CPUS}, got {cpus}", hint="for example  cpus = 2")
    if mode == "exact" and cpus != 1:
        raise BadInput(
            f"cpus = {cpus}: an exact guest has one CPU",
            hint="leave out cpus: the emulator runs one CPU at a time, and several CPUs would measure nothing",
        )
    return Shape(mode=mode, memory_bytes=memory_bytes, cpus=cpus)


def place_of(
    trial: TrialFile, arm: ArmFile, kernel: str, *, disk: bool, limit_s: float, tools: tuple[str, ...] = ()
) -> GuestPlace:
    """Return the place at which an arm's visits run; `kernel` names the arm's kernel."""
    guest = trial.guest
    assert guest is not None, "only trials in guests have places"
    return GuestPlace(
        kernel=kernel,
        shape=msgspec.structs.replace(shape_of(guest), append=(*guest.boot, *arm.boot)),
        modules=guest.modules,
        disk=disk,
        limit_s=limit_s,
        tools=tools,
    )


def perturbation(seed: int, block: int, arm: str) -> str:
    """Return a meaningless kernel argument: different for every visit, always of the same length.

    In an exact guest, two boots of an arm differ only because of this argument. How much they differ is the noise.
    """
    digest = hashlib.sha256(f"{seed} {block} {arm}".encode()).hexdigest()
    return f"{_PERTURBATION}={digest[:12]}"

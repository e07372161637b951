# SPDX-License-Identifier: Apache-2.0
"""The kernels of a trial in guests: named by a word, or built of sources, each arm with changes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrial.kernels.request import parse_set
from ktrial.kernels.source import parse_patch
from ktrial.kit.errors import BadInput
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe

if TYPE_CHECKING:
    from ktrial.trial.protocol.file import ArmFile, TrialFile

_TREE = '[guest.kernel]  tree = "linux.tar.xz"'


Kernel = str | KernelRecipe


def kernel_of(trial: TrialFile, arm: ArmFile) -> Kernel:
    """The word that names the arm's kernel, or what it is built of. Raises BadInput where nothing says from what."""
    assert trial.guest is not None, "only trials in guests have kernels"
    usual, own = trial.guest.kernel, arm.kernel
    if not isinstance(own, KernelChange):
        return usual if own is None else own
    if isinstance(usual, KernelRecipe):
        return usual.with_change(own)
    if own.tree is None:
        raise BadInput("a kernel is to be built, and nothing says of which sources", hint=_TREE)
    return KernelRecipe(tree=own.tree).with_change(own)


def check_kernel(where: str, kernel: KernelRecipe | KernelChange) -> None:
    """Raise BadInput for a symbol or a patch that is none."""
    try:
        for symbol, value in kernel.set.items():
            parse_set(f"{symbol}={value}")
        for patch in kernel.patches:
            parse_patch(patch)
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", hint=error.hint) from None

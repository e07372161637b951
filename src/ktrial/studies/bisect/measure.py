# SPDX-License-Identifier: Apache-2.0
"""Measures commits in exact guests. Each commit is built once, and its boots differ only in a dummy boot parameter.

The last line of the program's output is the value: a plain number, or a result in the agent's reply to a load.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import msgspec

from ktrial.bench.guest_tools import GuestRun
from ktrial.kit.commits import Untellable
from ktrial.kit.errors import BadRun, UnreadableOutput
from ktrial.kit.json_strict import decode_as

_LAST_LINE = "the program's last line"


class _Ok(msgspec.Struct, frozen=True):
    results: dict[str, object]


class _NumberReply(msgspec.Struct, frozen=True):
    ok: _Ok


def read_number(output: bytes, outcome: str) -> float:
    """Return the number in the last line of a program's output.

    If the line is an agent's reply to a load, return the result `outcome` of this reply.

    Raise BadRun if there is no such number.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else b""
    shown = last[:60].decode(errors="replace")
    value: object = None
    try:
        value = float(last)
    except ValueError:
        try:
            results = decode_as(last, _NumberReply).ok.results
        except msgspec.DecodeError:
            raise UnreadableOutput(_LAST_LINE, None, shown, "a number or an agent's reply to a load") from None
        if outcome not in results:
            has = f"only the results {', '.join(results)}" if results else "no results"
            raise BadRun(f"cannot read {outcome}: {_LAST_LINE} has {has}") from None
        value = results[outcome]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnreadableOutput(_LAST_LINE, None, shown, f"a finite number for {outcome}")
    return float(value)


#: Returns the kernel of a commit, or raises Untellable.
Image = Callable[[str], bytes]
#: Boots a kernel with one more word on its command line. If the last argument is true, it boots twice, and both runs
#: must be identical.
Boot = Callable[[bytes, str, bool], GuestRun]


class BisectMeasure:
    """Measures `outcome` of commits. Repeats the first boot of each kernel, to check that the guest is exact."""

    def __init__(self, outcome: str, image: Image, boot: Boot, seed: int) -> None:
        self._outcome = outcome
        self._image = image
        self._boot = boot
        self._seed = seed

    def __call__(self, commit: str, run: int) -> float:
        found = self._boot(self._image(commit), perturbation(self._seed, commit, run), run == 1)
        if found.failure is not None:
            raise Untellable(f"{commit[:12]}: {found.failure}")
        if found.exit_status != 0:
            errors = found.stderr.decode(errors="replace").strip()[-200:]
            raise Untellable(
                f"{commit[:12]}: the program exited with status {found.exit_status} ({errors or 'no error output'})"
            )
        try:
            return read_number(found.stdout, self._outcome)
        except BadRun as error:
            raise Untellable(f"{commit[:12]}: {error.message}") from None


def perturbation(seed: int, commit: str, run: int) -> str:
    """Return a dummy boot parameter, different for each boot but always of the same length."""
    digest = hashlib.sha256(f"{seed} {commit} {run}".encode()).hexdigest()
    return f"ktrial.visit={digest[:12]}"

# SPDX-License-Identifier: Apache-2.0
"""What is kept from run to run, in `covered.toml`: when each function was covered last, and why mutants survived."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable
from datetime import date
from pathlib import Path

import msgspec

from mutation.listed import ROOT
from mutation.mutant import Fate, Fates, Mutant

KEPT = ROOT / "mutation" / "covered.toml"
EQUIVALENT = "equivalent: "
ACCEPTED = "accepted: "
_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# When the mutants of each function were run last, of how many, and how many of them the tests caught; then the mutants
# that survive. Written by `python -m mutation … --record`; people write each `why`: "equivalent: …" where no behaviour
# changes, "accepted: …" where it does.
"""


class Covered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last run of a function's mutants."""

    on: date
    drawn: int
    caught: int


class Survivor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant that the tests do not notice, and why that is right."""

    mutant: str
    why: str

    @property
    def is_equivalent(self) -> bool:
        return self.why.startswith(EQUIVALENT)

    @property
    def is_explained(self) -> bool:
        return any(self.why.startswith(kind) and self.why != kind for kind in (EQUIVALENT, ACCEPTED))


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    covered: dict[str, Covered] = {}
    survivor: tuple[Survivor, ...] = ()

    @property
    def equivalent(self) -> set[str]:
        return {one.mutant for one in self.survivor if one.is_equivalent}

    def stale(self, mutants: Iterable[Mutant], files: Collection[str]) -> list[str]:
        """Explanations for mutants of these files that do not exist any more."""
        there = {str(one) for one in mutants}
        return [one.mutant for one in self.survivor if one.mutant.split("::")[0] in files and one.mutant not in there]

    def with_run(self, fates: Fates, on: date, stale: Collection[str]) -> Kept:
        """The same after a run: survivors that are not yet known wait for their explanation."""
        covered = dict(self.covered)
        built = [(mutant, fate) for mutant, fate in fates if fate is not Fate.UNBUILT]
        for place in {mutant.place for mutant, _ in built}:
            of_place = [fate for mutant, fate in built if mutant.place == place]
            covered[place] = Covered(on, len(of_place), sum(fate is not Fate.SURVIVED for fate in of_place))
        ran = {str(mutant): fate for mutant, fate in built}
        known = [one for one in self.survivor if one.mutant not in stale]
        still = [one for one in known if ran.get(one.mutant, Fate.SURVIVED) is Fate.SURVIVED]
        there = {one.mutant for one in still}
        new = [Survivor(name, "") for name, fate in ran.items() if fate is Fate.SURVIVED and name not in there]
        return Kept(covered, tuple(sorted([*still, *new], key=lambda one: one.mutant)))


def load(path: Path = KEPT) -> Kept:
    """The file as it lies there."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Kept)


def text_of(kept: Kept) -> str:
    """The file as it is written."""
    lines = [_HEAD, "[covered]"]
    for place, one in sorted(kept.covered.items()):
        lines.append(f"{_quoted(place)} = {{ on = {one.on}, drawn = {one.drawn}, caught = {one.caught} }}")
    for survivor in kept.survivor:
        lines += ["", "[[survivor]]", f"mutant = {_quoted(survivor.mutant)}", f"why = {_quoted(survivor.why)}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A basic string of TOML; those of JSON are ones."""
    return json.dumps(text, ensure_ascii=False)

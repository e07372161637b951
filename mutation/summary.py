# SPDX-License-Identifier: Apache-2.0
"""What a run found, in words and as a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mutation.kept import Kept
from mutation.listed import Group
from mutation.mutant import Fate, Fates


@dataclass(frozen=True)
class Result:
    """The mutants of a group that ran, and how many were drawn."""

    group: Group
    fates: Fates
    drawn: int

    def count(self, fate: Fate) -> int:
        return sum(one is fate for _, one in self.fates)

    @property
    def share(self) -> float:
        """Caught of those that build; percent. All of none."""
        built = len(self.fates) - self.count(Fate.UNBUILT)
        return 100.0 * (built - self.count(Fate.SURVIVED)) / built if built else 100.0

    @property
    def is_enough(self) -> bool:
        return self.share >= self.group.at_least


def lines(result: Result, kept: Kept) -> Iterator[str]:
    """The report of a group."""
    why = {one.mutant: one for one in kept.survivor}
    ran = len(result.fates)
    told = (
        f"{result.group.name}: {result.share:.1f} % caught ({result.group.at_least:g} % needed): {ran} mutants,"
        f" {result.count(Fate.SURVIVED)} survived, {result.count(Fate.TIMED_OUT)} timed out,"
        f" {result.count(Fate.UNBUILT)} did not build"
    )
    yield told + (f"; {result.drawn - ran} of the sample not run: out of time" if ran < result.drawn else "")
    for mutant, fate in result.fates:
        known = why.get(str(mutant))
        if fate is Fate.SURVIVED:
            yield f"  survived: {mutant}" + (f" [{known.why}]" if known else "")
        elif known and fate is not Fate.UNBUILT:
            yield f"  caught now, although it is explained as a survivor: {mutant}"


def ending(results: Sequence[Result], stale: Sequence[str], seconds: float) -> Iterator[str]:
    """What is wrong with a run as a whole, what to do, and the sums."""
    for name in stale:
        yield f"explained in mutation/covered.toml, but there is no such mutant any more: {name}"
    if not is_passed(results, stale):
        yield (
            "next: add tests that notice the survivors, or explain them in mutation/covered.toml"
            " (`--record` writes them there, and takes out what does not exist any more)"
        )
    caught = sum(one.count(Fate.CAUGHT) + one.count(Fate.TIMED_OUT) for one in results)
    survived = sum(one.count(Fate.SURVIVED) for one in results)
    yield f"{caught} mutants caught, {survived} survived in {seconds:.0f} s"


def is_passed(results: Sequence[Result], stale: Sequence[str]) -> bool:
    """Whether enough was caught in each group, and each explanation is of a mutant that exists."""
    return not stale and all(one.is_enough and (one.fates or not one.drawn) for one in results)

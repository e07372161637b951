# SPDX-License-Identifier: Apache-2.0
"""The search for the commit that made a difference, over any history with merges. Pure.

Between a good commit and a bad one there is a first bad one: a commit is bad where that one is among its ancestors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput, KtrialError

Side = Literal["good", "bad"]
#: Sets of ancestors are kept for all commits: beyond this number they take too much memory.
MOST_COMMITS = 30_000


class Untellable(KtrialError):
    """A commit that does not build, does not boot, or gives no number."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit with its parents, also those that are not searched."""

    id: str
    parents: tuple[str, ...]
    subject: str = ""


class Search:
    """`commits` are all that are ancestors of the bad one, itself included, and not of the good one; parents first."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        if not commits:
            raise BadInput("there is no commit between good and bad", hint="GOOD is an older commit than BAD")
        if len(commits) > MOST_COMMITS:
            raise BadInput(
                f"there are {len(commits)} commits between good and bad, more than {MOST_COMMITS}",
                hint="look for the release first: give two tags that lie closer together",
            )
        self._commits = tuple(commits)
        self._place = {commit.id: place for place, commit in enumerate(commits)}
        self._ancestors = self._all_ancestors()
        #: A bit for each commit that may be the first bad one; of those that could not be told.
        self._suspects = (1 << len(commits)) - 1
        self._untold = 0

    def _all_ancestors(self) -> list[int]:
        """For each commit the bits of its ancestors, with its own."""
        found: list[int] = []
        for place, commit in enumerate(self._commits):
            bits = 1 << place
            for parent in commit.parents:
                at = self._place.get(parent)
                if at is not None:
                    if at >= place:
                        raise BadInput(f"commit {commit.id} stands before its parent {parent}")
                    bits |= found[at]
            found.append(bits)
        return found

    @property
    def suspects(self) -> tuple[Commit, ...]:
        """What the first bad commit may be; one where it is found."""
        return tuple(commit for place, commit in enumerate(self._commits) if self._suspects >> place & 1)

    @property
    def steps_left(self) -> int:
        """About how many more must be told."""
        return (self._suspects.bit_count() - 1).bit_length()

    def tell(self, commit: str, side: Side) -> None:
        ancestors = self._ancestors[self._place[commit]]
        left = self._suspects & (ancestors if side == "bad" else ~ancestors)
        if not left:
            raise BadInput(f"{commit} cannot be {side}: what was told before leaves no such commit")
        self._suspects = left

    def leave_out(self, commit: str) -> None:
        """A commit cannot be told: it does not build, does not boot, or its measurements are neither."""
        self._untold |= 1 << self._place[commit]

    def next(self) -> Commit | None:
        """Return the commit that halves the suspects best; None if none is left that would tell anything."""
        count = self._suspects.bit_count()
        best: tuple[int, Commit] | None = None
        for place, commit in enumerate(self._commits):
            if not self._suspects >> place & 1 or self._untold >> place & 1:
                continue
            inside = (self._ancestors[place] & self._suspects).bit_count()
            told = min(inside, count - inside)
            if told and (best is None or told > best[0]):
                best = told, commit
        return None if best is None else best[1]

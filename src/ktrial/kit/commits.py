# SPDX-License-Identifier: Apache-2.0
"""Find the first bad commit in a history that may contain merges.

A commit is bad if it is the first bad commit or descends from it. This module runs nothing: it
names commits, and the caller tests them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput, KtrialError

Side = Literal["good", "bad"]
#: The search holds a set of ancestors for every commit: beyond this number they take too much memory.
MOST_COMMITS = 30_000


class Untellable(KtrialError):
    """A commit that ktrial cannot judge, because it does not build or boot, or gives no number."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit with all its parents, including those outside the searched range."""

    id: str
    parents: tuple[str, ...]
    subject: str = ""


class Search:
    """A bisection of `commits`, which lists parents before their children.

    `commits` holds the bad commit and its ancestors, but not the good commit and its ancestors.
    """

    def __init__(self, commits: Sequence[Commit]) -> None:
        if not commits:
            raise BadInput("no commits between GOOD and BAD", hint="give a GOOD that is an ancestor of BAD")
        if len(commits) > MOST_COMMITS:
            raise BadInput(
                f"{len(commits)} commits between GOOD and BAD are too many (maximum {MOST_COMMITS})",
                hint="give a GOOD and a BAD that are closer together, such as two neighbouring releases",
            )
        self._commits = tuple(commits)
        self._place = {commit.id: place for place, commit in enumerate(commits)}
        self._ancestors = self._all_ancestors()
        #: One bit per commit: commits that may be the first bad one, and commits that could not be judged.
        self._suspects = (1 << len(commits)) - 1
        self._skipped = 0

    def _all_ancestors(self) -> list[int]:
        """Return for each commit a bit set of itself and all its ancestors."""
        ancestors: list[int] = []
        for place, commit in enumerate(self._commits):
            bits = 1 << place
            for parent in commit.parents:
                at = self._place.get(parent)
                if at is not None:
                    if at >= place:
                        raise BadInput(
                            f"commit {commit.id} comes before its parent {parent}",
                            hint="check the repository with `git fsck`",
                        )
                    bits |= ancestors[at]
            ancestors.append(bits)
        return ancestors

    @property
    def suspects(self) -> tuple[Commit, ...]:
        """Return the commits that may be the first bad one.

        If `next` returns None, more than one commit remains only if commits were skipped.
        """
        return tuple(commit for place, commit in enumerate(self._commits) if self._suspects >> place & 1)

    @property
    def steps_left(self) -> int:
        """Return an estimate of how many more commits the caller must judge."""
        return (self._suspects.bit_count() - 1).bit_length()

    def tell(self, commit: str, side: Side) -> None:
        ancestors = self._ancestors[self._place[commit]]
        left = self._suspects & (ancestors if side == "bad" else ~ancestors)
        if not left:
            raise BadInput(
                f"{commit} cannot be {side}, according to the results of other commits",
                hint="run the same command again, with more boots (--runs)",
            )
        self._suspects = left

    def leave_out(self, commit: str) -> None:
        """Skip a commit that does not build or boot, or whose result is neither good nor bad."""
        self._skipped |= 1 << self._place[commit]

    def next(self) -> Commit | None:
        """Return the suspect whose test splits the suspects most evenly; None if no test would narrow them."""
        count = self._suspects.bit_count()
        best: tuple[int, Commit] | None = None
        for place, commit in enumerate(self._commits):
            if not self._suspects >> place & 1 or self._skipped >> place & 1:
                continue
            inside = (self._ancestors[place] & self._suspects).bit_count()
            gain = min(inside, count - inside)
            if gain and (best is None or gain > best[0]):
                best = gain, commit
        return None if best is None else best[1]

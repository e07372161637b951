# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit import commits as bisection
from ktrial.kit.commits import Commit, Search
from ktrial.kit.errors import BadInput


def line(count: int) -> list[Commit]:
    """A history without merges; the good commit is `c-1`."""
    return [Commit(id=f"c{number}", parents=(f"c{number - 1}",)) for number in range(count)]


@st.composite
def histories(draw: st.DrawFn) -> list[Commit]:
    """Any history with merges whose last commit has all others as ancestors."""
    count = draw(st.integers(1, 12))
    commits: list[Commit] = []
    heads: set[str] = set()
    for number in range(count):
        earlier = [f"c{at}" for at in range(number)]
        chosen = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        parents = tuple(chosen) or ("outside",)
        if number == count - 1:
            parents = tuple(sorted(heads | set(parents)))
        heads = (heads - set(parents)) | {f"c{number}"}
        commits.append(Commit(id=f"c{number}", parents=parents))
    return commits


def ancestors(commits: list[Commit], of: str) -> set[str]:
    known = {commit.id: commit for commit in commits}
    found, left = set(), [of]
    while left:
        name = left.pop()
        if name in known and name not in found:
            found.add(name)
            left += known[name].parents
    return found


@settings(max_examples=25, deadline=None)
@given(histories(), st.data())
def test_the_first_bad_commit_is_found_in_any_history(commits: list[Commit], data: st.DataObject) -> None:
    culprit = data.draw(st.sampled_from(commits)).id
    search = Search(commits)
    looked = 0
    while (commit := search.next()) is not None:
        search.tell(commit.id, "bad" if culprit in ancestors(commits, commit.id) else "good")
        looked += 1
        assert culprit in {one.id for one in search.suspects}
    assert [one.id for one in search.suspects] == [culprit]
    assert looked <= len(commits)


@settings(max_examples=25, deadline=None)
@given(histories(), st.data())
def test_what_cannot_be_told_leaves_a_range_that_holds_it(commits: list[Commit], data: st.DataObject) -> None:
    culprit = data.draw(st.sampled_from(commits)).id
    untold = data.draw(st.sets(st.sampled_from([commit.id for commit in commits])))
    search = Search(commits)
    while (commit := search.next()) is not None:
        if commit.id in untold:
            search.leave_out(commit.id)
        else:
            search.tell(commit.id, "bad" if culprit in ancestors(commits, commit.id) else "good")
    assert culprit in {one.id for one in search.suspects}


def test_a_line_is_halved() -> None:
    search = Search(line(1000))
    assert search.steps_left == 10
    looked = 0
    while (commit := search.next()) is not None:
        search.tell(commit.id, "bad" if int(commit.id[1:]) >= 617 else "good")
        looked += 1
    assert (looked, search.suspects[0].id, search.steps_left) == (10, "c617", 0)


def test_one_commit_needs_no_look() -> None:
    search = Search(line(1))
    assert search.next() is None
    assert len(search.suspects) == 1


def test_answers_that_contradict_each_other_are_an_error() -> None:
    search = Search(line(8))
    search.tell("c3", "bad")
    with pytest.raises(BadInput, match="c5 cannot be good"):
        search.tell("c5", "good")


def test_what_is_no_history_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="no commits between GOOD and BAD"):
        Search([])
    with pytest.raises(BadInput, match="c1 comes before its parent c2"):
        Search([Commit(id="c1", parents=("c2",)), Commit(id="c2", parents=("c1",))])
    monkeypatch.setattr(bisection, "MOST_COMMITS", 9)
    with pytest.raises(BadInput, match="10 commits between GOOD and BAD are too many"):
        Search(line(10))

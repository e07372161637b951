# SPDX-License-Identifier: Apache-2.0
"""How two comparisons differ: every field that does, under its own name, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.evidence.differences import (
    Difference,
    RecheckResult,
    UnreadData,
    _name,
    comparison_differences,
    rechecked_text,
    same_figures,
)
from ktrial.judge.model.comparison import Comparison
from ktrial.kit.finding import Finding
from tests.support.comparisons import two_arms

MADE = two_arms(4)
DOCUMENT = msgspec.json.decode(msgspec.json.encode(MADE))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to every number and text."""
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in leaves(one, (*path, key))]
    if isinstance(value, list):
        return [leaf for key, one in enumerate(value) for leaf in leaves(one, (*path, key))]
    return [path] if isinstance(value, str | float) else []


#: `schema` and what is one of a few words cannot be anything else.
WAYS = [
    way
    for way in leaves(DOCUMENT)
    if way[0] not in ("asked", "asked_sha256", "schema")
    and way[-1] not in ("schema", "unit", "direction", "role", "verdict", "worth", "level", "scale")
]


def finding(value: Any) -> Finding:
    return Finding(kind="k", level="note", sentence="s", values={"v": value})


def changed(way: tuple[Any, ...]) -> Comparison:
    document = msgspec.json.decode(msgspec.json.encode(MADE))
    inner = document
    for key in way[:-1]:
        inner = inner[key]
    value = inner[way[-1]]
    inner[way[-1]] = f"{value}x" if isinstance(value, str) else value * 1.001 + 1e-6
    return msgspec.convert(document, Comparison)


def test_the_same_does_not_differ() -> None:
    assert list(comparison_differences(MADE, two_arms(4))) == []
    assert same_figures(MADE, two_arms(4)) is None


@given(st.sampled_from(WAYS))
@settings(max_examples=150, deadline=None)
def test_every_field_is_looked_at(way: tuple[Any, ...]) -> None:
    found = list(comparison_differences(changed(way), MADE))
    assert found, way
    if way[-1] in ("estimate", "low", "high", "p", "mean", "sd", "cv", "value", "sentence", "margin", "title"):
        assert len(found) == 1
        assert str(way[-1]) in found[0].where


#: Sentences, in whatever place; names, numbers and single words are compared whoever wrote them.
SAID = {"title", "answer", "scope", "why", "sentence", "note", "better", "worse", "blind_spots"}
SAID |= {"declared", "missing", "reproduce"}


@given(st.sampled_from(WAYS))
@settings(max_examples=100, deadline=None)
def test_of_another_writer_all_but_sentences_is_looked_at(way: tuple[Any, ...]) -> None:
    other = msgspec.structs.replace(changed(way), writer="another")
    assert bool(list(comparison_differences(other, MADE))) is not bool(SAID & set(way)), way


def test_a_figure_is_one_whatever_its_names() -> None:
    first = MADE.outcomes[0]
    effect = first.contrasts[0].effect
    assert effect is not None
    other = msgspec.structs.replace(first.contrasts[0], effect=msgspec.structs.replace(effect, estimate=0.5))
    outcome = msgspec.structs.replace(first, contrasts=(other, *first.contrasts[1:]))
    found = same_figures(MADE, msgspec.structs.replace(MADE, outcomes=(outcome, *MADE.outcomes[1:])))
    assert found is not None
    assert found.kind == "comparison"
    assert first.name in found.where
    assert same_figures(MADE, msgspec.structs.replace(MADE, answer="another", title="one")) is None


def test_differences_are_named_by_where_they_stand() -> None:
    first = MADE.outcomes[0]
    replace = msgspec.structs.replace
    (found,) = comparison_differences(
        MADE, replace(MADE, findings=(replace(MADE.findings[0], sentence="x"), *MADE.findings[1:]))
    )
    assert found.where == f"findings [kind {MADE.findings[0].kind}]: sentence"
    for other, where in (
        (replace(first, arms=(replace(first.arms[0], mean=9.0), *first.arms[1:])), "arms#1#2"),
        (replace(first, contrasts=(replace(first.contrasts[0], verdict="worse"),)), "contrasts#1#1"),
        (replace(first, contrasts=()), "contrasts#1"),
    ):
        named = same_figures(MADE, replace(MADE, outcomes=(other, *MADE.outcomes[1:])))
        assert named is not None
        assert named.where == f"{first.name}.{where}"


@pytest.mark.parametrize("where", [0, 500, 999])
def test_of_long_texts_the_difference_is_shown(where: int) -> None:
    one = "a" * 1000
    other = f"{one[:where]}Q{one[where + 1 :]}"
    (found,) = comparison_differences(
        msgspec.structs.replace(MADE, answer=one), msgspec.structs.replace(MADE, answer=other)
    )
    assert "Q" in found.told
    assert len(found.told) < 300


def test_what_was_rechecked_is_told_with_the_answer_last() -> None:
    differences = [Difference(kind="measurement", where=f"run {number}", told="1 is stored") for number in range(14)]
    found = RecheckResult(
        file="found.tar.zst",
        runs=5,
        outcomes=3,
        question_sha256="ab",
        differences=(*differences, Difference(kind="hash", where="raw", told="bytes differ")),
        unread=(UnreadData(run="a/1", reason="no reader"), UnreadData(run="a/2", reason="no reader")),
        notes=("the store is newer",),
    )
    shown = [line for number in range(12) for line in ("", f"run {number}", "  1 is stored")]
    assert rechecked_text(found, width=80).splitlines() == [
        "file        found.tar.zst",
        "runs        5, 3 re-read",
        "question    SHA-256 ab",
        "outcomes    3 recomputed",
        "not read    2 runs: no reader",
        "note        the store is newer",
        *shown,
        *("", "raw", "  bytes differ"),
        *("", "2 more of kind measurement; --json lists all"),
        *("", "15 differences"),
    ]
    only = msgspec.structs.replace(found, question_sha256=None, differences=differences[:1], unread=(), notes=())
    assert rechecked_text(only, width=80).splitlines() == [
        "file        found.tar.zst",
        "runs        5, 5 re-read",
        *("", "run 0", "  1 is stored", "", "1 difference"),
    ]
    assert rechecked_text(msgspec.structs.replace(only, differences=()), width=80).endswith("\n\nall equal\n")


def test_true_is_no_number() -> None:
    one, other = (msgspec.structs.replace(MADE, findings=(finding(value),)) for value in (True, 1.0))
    (found,) = comparison_differences(one, other)
    assert found.told == "stored true, recomputed 1.0"


def test_of_texts_of_two_lengths_the_end_is_shown() -> None:
    long = "a" * 300
    one, other = (msgspec.structs.replace(MADE, title=text) for text in (long, f"{long}b"))
    (found,) = comparison_differences(one, other)
    stored, again = found.told.split(", recomputed ")
    assert stored.startswith("stored …a")
    assert again.endswith('ab"')
    (found,) = comparison_differences(msgspec.structs.replace(MADE, title=f"b{long}"), other)
    assert found.told.startswith('stored "b'), "where they differ from the first letter on, from there"


@pytest.mark.parametrize(
    "entry, name",
    [
        ({"benchmark": "make", "outcome": "time", "arm": "a"}, "outcome make.time"),
        ({"first": "stock", "second": "tuned"}, "stock and tuned"),
        ({"first": "stock", "kind": "k"}, "kind k"),
        ({"second": "tuned", "kind": "k"}, "kind k"),
        ({"outcome": "time", "kind": "k"}, "kind k"),
        ({"benchmark": "make", "kind": "k"}, "kind k"),
        ({"arm": "a", "name": "n"}, "arm a, n"),
        ({"arm": "a", "run": 3}, "arm a"),
        *(({key: "x"}, f"{key} x") for key in ("run", "name", "kind", "method", "source", "what")),
        ({"value": 1}, None),
        ("text", None),
    ],
)
def test_an_entry_has_the_name_of_what_it_is_about(entry: object, name: str | None) -> None:
    assert _name(entry) == name

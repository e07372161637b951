# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ktrial.judge.model.verdict import Verdict
from ktrial.kit.finding import Finding
from ktrial.trial.outcome.verdict_text import trial_text
from tests.support.told_trials import a_trial, hostile_trial


def text(width: int = 80) -> str:
    return trial_text(a_trial().told(), width=width)


def test_the_verdict_of_each_arm_comes_first() -> None:
    lines = text().splitlines()
    assert lines[0] == "swappiness: 10 of at most 20 blocks; every comparison has its verdict"
    assert lines[1] == "tool.rate, higher is better; differences below 2 % do not matter"
    verdicts = [tuple(line.split()[:2]) for line in lines[5:9]]
    assert verdicts == [("sw10", "better"), ("sw60", "equivalent"), ("sw180", "worse"), ("placebo", "equivalent")]
    assert lines[9] == "  sw10, sw180: the interval excludes zero; the change matters"


def test_it_says_what_else_a_person_wants_to_know() -> None:
    said = text()
    order = [
        "What you would notice:",
        "Also asked:",
        "p99 (guard)",
        "the guard holds",
        "also recorded",
        "skipped: vm.nosuch",
    ]
    order += [
        "1 run of sw180 gave no value",
        "1 block does not count",
        "on this boot",
        "ktrial trial recheck swappiness-abcdef",
        "ktrial keep swappiness-abcdef",
        "ktrial retest swappiness-abcdef",
        "ktrial publish swappiness-abcdef -o FOLDER",
    ]
    places = [said.replace("\n", " ").index(words) for words in order]
    assert places == sorted(places)


def test_only_what_can_be_kept_is_offered_to_keep() -> None:
    told = a_trial().told()
    trial = told.trial
    assert trial is not None
    primary = next(one for one in told.outcomes if one.role == "primary")

    def offered(verdict: Verdict, **changes: Any) -> list[str]:
        contrasts = tuple(replace(one, verdict=verdict) for one in primary.contrasts)
        outcomes = tuple(replace(one, contrasts=contrasts) if one is primary else one for one in told.outcomes)
        shown = trial_text(replace(told, outcomes=outcomes, trial=replace(trial, **changes)), width=80)
        return [line.split()[-1] for line in shown.splitlines() if line.startswith("keep ")]

    assert offered("better") == ["swappiness-abcdef/sw10"]
    assert offered("worse") == []
    assert offered("better", ended=None) == []
    assert offered("better", text=f"{trial.text}\n[guest]\n") == []


def test_outcomes_that_were_not_asked_have_no_verdict() -> None:
    assert "wall  " not in text()
    assert "not part of the question (no verdict): wall" in text()


def test_what_a_guests_clock_means_is_said_before_the_first_number() -> None:
    made = a_trial().told()
    clock = Finding(kind="guest-clock", level="note", sentence="Long.")
    scope = "in exact guests, whose time counts instructions, across 14 boots"
    lines = trial_text(replace(made, scope=scope, findings=(*made.findings, clock)), width=80).splitlines()
    assert lines[2] == f"measured {scope}"
    assert "measured in" not in text()


def test_a_ladder_ends_with_its_full_picture() -> None:
    made = a_trial().told()
    steps = {one.name: replace(one, steps=one.contrasts) for one in made.outcomes}
    said = trial_text(replace(made, outcomes=tuple(steps.values())), width=100)
    (at,) = [number for number, line in enumerate(said.splitlines()) if line.split()[:2] == ["to", "control"]]
    rows = said.splitlines()[at + 2 : at + 2 + len(made.outcomes)]
    (primary,) = [one for one in made.outcomes if one.role == "primary"]
    assert rows[0].split()[0] == f"{primary.outcome}*"
    assert [row for row in rows if row.startswith("wall") and "(explored)" in row]
    assert "so no verdict" not in said


def test_it_fits() -> None:
    for width in (60, 80, 120):
        assert max(map(len, text(width).splitlines())) <= width


def test_a_wide_terminal_has_pictures() -> None:
    assert "├" not in text(80)
    assert sum("•" in line for line in text(100).splitlines()) == 4


def test_foreign_text_cannot_steer_the_terminal() -> None:
    said = trial_text(hostile_trial(), width=80)
    assert "\x1b" not in said
    assert all(character.isprintable() or character == "\n" for character in said)


def test_a_trial_without_a_block_says_so() -> None:
    told = a_trial().told()
    assert told.trial is not None
    empty = replace(
        told, outcomes=(), answer="There is nothing to compare.", trial=replace(told.trial, blocks=0, ended=None)
    )
    assert "0 of at most 20 blocks; it is not over" in trial_text(empty, width=80)
    assert "There is nothing to compare." in trial_text(empty, width=80)


def test_a_trial_that_was_refused_is_not_called_decided() -> None:
    told = a_trial().told()
    primary = told.outcomes[0]
    refused = tuple(replace(one, verdict="not comparable") for one in primary.contrasts)
    said = trial_text(replace(told, outcomes=(replace(primary, contrasts=refused),)), width=80)
    assert said.startswith("swappiness: 10 of at most 20 blocks; its arms cannot be compared\n")
    assert "decided" not in said.splitlines()[0]


def test_an_extended_trial_has_more_blocks_than_its_cap() -> None:
    told = a_trial().told()
    assert told.trial is not None
    more = replace(told, trial=replace(told.trial, cap=7))
    assert trial_text(more, width=80).startswith("swappiness: 10 blocks, 3 of them after its cap of 7;")


def test_of_an_arm_with_many_settings_the_first_are_named() -> None:
    told = a_trial().told()
    assert told.trial is not None
    first, *others = told.trial.arms
    many = replace(first, same=tuple(f"vm.knob{number}" for number in range(20)))
    said = trial_text(replace(told, trial=replace(told.trial, arms=(many, *others))), width=80)
    assert "vm.knob5, and 14 more (the page lists them)" in " ".join(said.split())
    assert "vm.knob6" not in said

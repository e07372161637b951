# SPDX-License-Identifier: Apache-2.0
"""The list, the sample, the kept file and the verdict: what is drawn, what is recorded, and what fails a check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import msgspec
import pytest

from mutation import __main__ as command
from mutation import head
from mutation.agent import named
from mutation.errors import CannotRun
from mutation.head import all_mutants
from mutation.kept import Covered, Kept, Survivor, load, text_of
from mutation.listed import ROOT, Group, Listed, groups
from mutation.mutant import Fate, Mutant
from mutation.sample import MOST_OF_A_FUNCTION, drawn
from mutation.summary import Result, ending, is_passed, lines

TODAY = date(2026, 11, 25)
FILE = "src/ktrial/x.py"
ALL = {
    "large": [Mutant(FILE, f"f{place}", f"`{number}`: deleted") for place in range(20) for number in range(12)],
    "small": [Mutant("src/ktrial/y.py", "g", f"`{number}`: deleted") for number in range(80)],
}
NOTHING = Kept()
FIRST = ALL["large"][0]


def group(at_least: float = 90) -> Group:
    return Group("g", "head", at_least, (Listed(FILE),))


def fates(caught: int, survived: int, timed_out: int = 0, unbuilt: int = 0) -> list[tuple[Mutant, Fate]]:
    kinds = (
        [Fate.CAUGHT] * caught + [Fate.SURVIVED] * survived + [Fate.TIMED_OUT] * timed_out + [Fate.UNBUILT] * unbuilt
    )
    return list(zip(ALL["large"], kinds, strict=False))


def reported(result: Result, kept: Kept = NOTHING, stale: Sequence[str] = ()) -> str:
    return "\n".join([*lines(result, kept), *ending([result], stale, 7)])


def test_a_seed_draws_the_same_again_and_another_one_others() -> None:
    assert drawn(ALL, 40, 1, Kept()) == drawn(ALL, 40, 1, Kept()) != drawn(ALL, 40, 2, Kept())


def test_groups_are_drawn_by_their_size_and_many_functions_are_reached() -> None:
    sample = drawn(ALL, 40, 1, Kept())
    assert {name: len(of) for name, of in sample.items()} == {"large": 30, "small": 8}
    assert all(len(set(of)) == len(of) for of in sample.values())
    assert max(Counter(one.place for one in sample["large"]).values()) == MOST_OF_A_FUNCTION


def test_what_was_never_covered_or_long_ago_comes_first() -> None:
    kept = Kept({f"{FILE}::f{place}": Covered(date(2026, 1, 1 + place), 8, 8) for place in range(1, 20)})
    sample = drawn(ALL, 40, 5, kept)["large"]
    assert list(dict.fromkeys(one.function for one in sample)) == ["f0", "f1", "f2", "f3"]


def test_equivalent_mutants_are_not_drawn_and_accepted_ones_are() -> None:
    kept = Kept({}, (Survivor(str(FIRST), "equivalent: x"), Survivor(str(ALL["large"][1]), "accepted: x")))
    found = {one for seed in range(30) for one in drawn(ALL, 200, seed, kept)["large"]}
    assert FIRST not in found
    assert ALL["large"][1] in found


@pytest.mark.parametrize(
    "ran, passes",
    [(fates(9, 1), True), (fates(8, 1), False), (fates(0, 1, timed_out=9), True), (fates(8, 1, unbuilt=9), False)],
    ids=["enough", "too few", "time-outs count as caught", "what does not build does not count"],
)
def test_the_share_that_must_be_caught(ran: list[tuple[Mutant, Fate]], passes: bool) -> None:
    assert is_passed([Result(group(), ran, len(ran))], ()) == passes
    assert not is_passed([Result(group(95), ran, len(ran))], ())


def test_survivors_are_named_with_what_is_known_of_them() -> None:
    ran = fates(18, 2)
    known = Kept({}, (Survivor(str(ran[18][0]), "accepted: only a message"), Survivor(str(ran[0][0]), "accepted: x")))
    told = reported(Result(group(), ran, 20), known)
    assert "g: 90.0 % caught (90 % needed): 20 mutants, 2 survived, 0 timed out, 0 did not build\n" in told
    assert f"survived: {ran[18][0]} [accepted: only a message]" in told
    assert told.splitlines()[-2:] == [f"  survived: {ran[19][0]}", "18 mutants caught, 2 survived in 7 s"]
    assert f"caught now, although it is explained as a survivor: {ran[0][0]}" in told


def test_a_group_of_which_nothing_ran_does_not_pass() -> None:
    result = Result(group(), [], 5)
    assert not is_passed([result], ())
    assert "5 of the sample not run: out of time" in reported(result)


def test_an_explanation_of_a_mutant_that_does_not_exist_is_an_error() -> None:
    old = f"{FILE}::gone: `1`: becomes 2"
    kept = Kept({}, (Survivor(old, "equivalent: x"), Survivor("agent/src/a.rs::f: x", "equivalent: x")))
    stale = kept.stale(ALL["large"], {FILE})
    assert stale == [old]
    result = Result(group(), fates(10, 0), 10)
    assert not is_passed([result], stale)
    assert old in reported(result, kept, stale)


def test_a_run_is_recorded() -> None:
    gone, caught, other = f"{FILE}::gone: `1`: becomes 2", str(FIRST), "agent/src/a.rs::f: x"
    kept = Kept(
        {f"{FILE}::f0": Covered(date(2026, 1, 1), 3, 3), f"{FILE}::f19": Covered(date(2026, 1, 2), 4, 4)},
        tuple(Survivor(name, "accepted: x") for name in (gone, caught, other)),
    )
    after = kept.with_run(fates(12, 3, timed_out=1, unbuilt=5), TODAY, [gone])
    assert after.covered == {
        f"{FILE}::f0": Covered(TODAY, 12, 12),
        f"{FILE}::f1": Covered(TODAY, 4, 1),
        f"{FILE}::f19": Covered(date(2026, 1, 2), 4, 4),
    }
    new = [Survivor(f"{FILE}::f1: `{number}`: deleted", "") for number in range(3)]
    assert after.survivor == (Survivor(other, "accepted: x"), *new)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    kept = Kept(
        {f"{FILE}::f": Covered(TODAY, 8, 7)}, (Survivor('src/x.py::f: `a["b"]\\n…`: deleted', "accepted: – x"),)
    )
    path = tmp_path / "covered.toml"
    path.write_text(text_of(kept), encoding="utf-8")
    assert load(path) == kept


@pytest.mark.parametrize("why", ["", "equivalent: ", "because", "equivalent"])
def test_a_reason_says_whether_behaviour_changes(why: str) -> None:
    assert not Survivor("x", why).is_explained


def test_names_of_cargo_mutants_lose_their_lines() -> None:
    told = [
        {"file": "src/allow.rs", "function": {"function_name": name} if name else None}
        for name in ("", "any", "fits", "fits", "open")
    ]
    names = [
        "src/allow.rs:12:32: replace << with >>",
        "src/allow.rs:308:5: replace any -> bool with true",
        "src/allow.rs:338:41: replace + with - in fits",
        "src/allow.rs:339:41: replace + with - in fits",
        "src/allow.rs:350:41: replace | with ^ in open",
    ]
    found = named(names, told)
    assert [(name, one["function"]) for name, one in found.values()] == [
        (name, one["function"]) for name, one in zip(names[1:4], told[1:4], strict=True)
    ]
    assert list(map(str, found)) == [
        "agent/src/allow.rs::any: replace any -> bool with true",
        "agent/src/allow.rs::fits: replace + with -",
        "agent/src/allow.rs::fits: replace + with - (2)",
    ]


def test_a_function_that_a_file_has_not_is_an_error() -> None:
    with pytest.raises(CannotRun, match=r"x\.py has no mutants in h: correct"):
        Listed(FILE, ("f0", "h")).named(ALL["large"])
    assert {one.function for one in Listed(FILE, ("f0",)).named(ALL["large"])} == {"f0"}


def test_the_list_names_files_and_tests_that_exist() -> None:
    listed = [*groups("head"), *groups("agent")]
    assert {one.name for one in listed} >= {"judge", "gates", "recheck", "bundles", "importers"}
    strict = {one.name for one in listed if one.at_least == 95}
    assert strict == {"judge", "transactions", "allow-list"}
    assert {one.at_least for one in listed if one.name not in strict} == {90}
    for one in listed:
        of_pytest = (
            [test for file in one.files for test in one.tests_of(file.file)] if one.side == "head" else one.then[:1]
        )
        for name in (*(file.file for file in one.files), *of_pytest):
            assert (ROOT / name).exists(), f"mutation/functions.toml names {name}"


def test_every_importer_is_in_the_list() -> None:
    listed = {file.file for one in groups("head") for file in one.files}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "src/ktrial/results/importers").glob("[a-z]*.py")}
    assert there <= listed


def test_every_file_of_transactions_and_of_the_allow_list_is_in_the_list() -> None:
    listed = {file.file for one in groups("agent") for file in one.files}
    source = ROOT / "agent/src/transact"
    uses = re.compile(r"^use crate::transact::(?:journal|transaction|undo)\b", re.MULTILINE)
    of_transactions = [path for path in source.glob("*.rs") if uses.search(path.read_text(encoding="utf-8"))]
    of_allow_list = [path for path in (source / "allow").rglob("*.rs") if path.name != "tests.rs"]
    there = {str(path.relative_to(ROOT)) for path in (*of_transactions, *of_allow_list)}
    assert there >= {"agent/src/transact/revert.rs", "agent/src/transact/allow/pattern.rs"}
    assert sorted(there - listed) == []


def test_every_survivor_that_is_kept_exists_and_is_explained() -> None:
    kept = load()
    files = {file.file for one in groups("head") for file in one.files}
    there = [one for of in groups("head") for one in all_mutants(of)]
    assert kept.stale(there, files) == []
    assert [one.mutant for one in kept.survivor if not one.is_explained] == []


class Side:
    """Plants nothing: what is listed first survives."""

    def __init__(self, jobs: int) -> None:
        assert jobs == 3

    def all_mutants(self, of: Group) -> list[Mutant]:
        return ALL["large"]

    def run(self, of: Group, sample: Sequence[Mutant], _deadline: float) -> list[tuple[Mutant, Fate]]:
        return [(one, Fate.SURVIVED if one == FIRST else Fate.CAUGHT) for one in sample]


@pytest.fixture
def kept_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "covered.toml"
    path.write_text("[covered]\n", encoding="utf-8")
    monkeypatch.setattr(command, "KEPT", path)
    monkeypatch.setattr(command, "groups", lambda _side: (group(),))
    monkeypatch.setattr(head, "Head", Side)
    return path


def test_a_check_writes_nothing_and_a_record_does(kept_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ["head", "--jobs", "3", "--only", "f0:"]
    assert command.main(only) == 0
    assert f"survived: {FIRST}" in capsys.readouterr().out
    assert load(kept_path) == Kept()
    assert command.main([*only, "--record"]) == 0
    after = load(kept_path)
    assert [(one.drawn, one.caught) for one in after.covered.values()] == [(12, 11)]
    assert after.survivor == (Survivor(str(FIRST), ""),)


def test_a_sample_is_told_with_its_seed(kept_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["head", "--jobs", "3", "--count", "50", "--seed", "9"]) == 0
    assert capsys.readouterr().out.startswith("mutants of the head: 50 of 240, --seed 9\n")


def test_too_few_caught_is_a_failure(kept_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["head", "--jobs", "3", "--only", "f0: `0`"]) == 1
    assert capsys.readouterr().out.splitlines()[-2].startswith("next: add tests that notice the survivors")


def test_the_list_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "functions.toml"
    path.write_text('[[group]]\nname = "x"\nside = "head"\nat_least = 90\nfiles = []\nwords = 1\n', encoding="utf-8")
    with pytest.raises(msgspec.ValidationError, match="words"):
        groups("head", path)

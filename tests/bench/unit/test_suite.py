# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.suite import SuiteEntry, SuiteLoad, orders
from ktrial.bench.suites import check_entry, parse_cpus, sized
from ktrial.kit.errors import BadInput
from tests.support.bench import FakeBenchmark


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_each_round_holds_each_benchmark_once(seed: int, rounds: int) -> None:
    made = orders(["a", "b", "c", "d"], rounds, seed)
    assert len(made) == rounds
    assert all(sorted(labels) == ["a", "b", "c", "d"] for labels in made)
    assert made == orders(["d", "c", "b", "a"], rounds, seed)


def test_the_order_of_a_seed_is_written_in_stone() -> None:
    assert orders(["a", "b", "c"], 3, 7) == EXPECTED


# By hand: for each round  printf SEED/ROUND/LABEL | sha256sum , sorted.
EXPECTED = (("c", "b", "a"), ("a", "b", "c"), ("c", "a", "b"))


def test_every_place_is_about_as_likely_for_each() -> None:
    first = [labels[0] for labels in orders(["a", "b", "c"], 3000, 1)]
    assert all(900 < first.count(label) < 1100 for label in "abc")


@pytest.mark.parametrize("text, cpus", [("0", (0,)), ("0,2-4", (0, 2, 3, 4)), ("3,1,1", (1, 3))])
def test_lists_of_cpus(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "0-9999", "1,,2", "-1", "little"])
def test_what_is_no_list_of_cpus(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_cpus(text)
    assert ("CPU 9999 in '0-9999' is above" in caught.value.message) == (text == "0-9999")


@pytest.mark.parametrize("text, place", [("3-1", ""), ("0,3-1", " in '0,3-1'")])
def test_a_range_of_cpus_that_ends_below_its_start(text: str, place: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_cpus(text)
    assert caught.value.message == f"cannot use the CPU range '3-1'{place}: it ends below its start"


def test_kinds_of_cores() -> None:
    kinds = {"little": [4, 5], "big": None}
    assert parse_cpus("little", kinds) == (4, 5)
    with pytest.raises(BadInput, match="no big cores") as caught:
        parse_cpus("big", kinds)
    # The machine may well have no CPU of a number that an example names.
    assert caught.value.hint == "give the numbers of CPUs instead, such as 0,2-3"


def test_parameters_must_be_known_and_of_the_kind_of_the_default() -> None:
    benchmark = FakeBenchmark(name="a", parameters={"loops": 1, "share": 0.5, "on": True, "free": None})
    check_entry(SuiteEntry("a", parameters={"loops": 3, "share": 1, "on": False, "free": "x"}), benchmark)
    for name, value in (("loops", "3"), ("loops", True), ("loops", 1.5), ("on", 1), ("share", "x"), ("loop", 1)):
        with pytest.raises(BadInput):
            check_entry(SuiteEntry("a", parameters={name: value}), benchmark)


def test_whole_numbers_may_grow_with_the_cpus() -> None:
    benchmark = FakeBenchmark(name="a", parameters={"threads": 4, "workers": 0, "name": "x"})
    given = {"threads": "cpus", "workers": "cpus/2", "name": "cpus"}
    check_entry(SuiteEntry("a", parameters=given), benchmark)
    for cpus, workers in ((1, 1), (2, 1), (7, 3), (12, 6)):
        assert sized(given, benchmark.parameters, cpus) == {"threads": cpus, "workers": workers, "name": "cpus"}
    with pytest.raises(BadInput, match="the number of CPUs is unknown"):
        sized(given, benchmark.parameters, None)
    for bad in ("cpus/0", "cpus*2", "CPUS", "cpus/", "cpus/2x"):
        with pytest.raises(BadInput):
            check_entry(SuiteEntry("a", parameters={"threads": bad}), benchmark)


@pytest.mark.parametrize("cpus, workers", [(1, 1), (2, 1), (3, 1), (8, 4), (12, 6)])
def test_half_of_the_cpus_are_loaded_and_one_at_least(cpus: int, workers: int) -> None:
    assert SuiteLoad().workers(cpus) == workers
    assert SuiteLoad().invocation(cpus).argv[:3] == ("stress-ng", "--cpu", str(workers))
    spin = SuiteLoad(use="spin").invocation(cpus).load
    assert spin is not None
    assert (spin.name, spin.parameters) == ("spin", {"threads": workers})

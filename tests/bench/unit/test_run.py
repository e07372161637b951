# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.bench.benchmark import ParsedRun, check_measurements
from ktrial.bench.record import Artefact, raw_parts, variation
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement
from tests.support.bench import answer, outcome


def parsed(*values: tuple[str, float]) -> ParsedRun:
    return ParsedRun(measurements=tuple(Measurement(outcome=n, value=v, original=str(v)) for n, v in values))


@pytest.mark.parametrize(
    "run, why",
    [
        (parsed(), "the output contains no measurement"),
        (parsed(("other", 1)), "measured other, which this benchmark does not declare"),
        (parsed(("time", 1), ("time", 1)), "time was measured twice"),
        (parsed(("time", float("nan"))), "time: expected a finite number, got"),
        (parsed(("time", -0.1)), "time: expected 0 or more, got"),
        (parsed(("time", 101)), "time: expected 0 to 100 s, got"),
    ],
)
def test_measurements_that_cannot_be(run: ParsedRun, why: str) -> None:
    with pytest.raises(BadRun, match=why):
        check_measurements((outcome(),), run)


def test_the_ends_of_the_plausible_range_are_plausible() -> None:
    check_measurements((outcome(),), parsed(("time", 100)))
    check_measurements((outcome(low=0),), parsed(("time", 0)))


@pytest.mark.parametrize(
    "values, cv",
    [([1.0], None), ([0.0, 0.0], None), ([2.0, 2.0], 0.0), ([1.0, 3.0], 0.70710678), ([-1.0, -3.0], 0.70710678)],
)
def test_the_coefficient_of_variation(values: list[float], cv: float | None) -> None:
    assert variation(values) == (None if cv is None else pytest.approx(cv))


def test_raw_parts_are_named_by_their_content() -> None:
    parts = raw_parts(answer(b"abc", stderr=b"", files={"out.json": b"{}"}))
    assert parts == {"stdout": b"abc", "files/out.json": b"{}"}
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert Artefact.of(parts["stdout"]) == Artefact(digest, 3)

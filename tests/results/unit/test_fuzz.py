# SPDX-License-Identifier: Apache-2.0
"""Whatever a file holds, an importer returns results that a store can take, or says what is wrong."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.results.import_file import ForeignFile, ImportRequest, read_results
from tests.support.imports import CASES, IMPORTERS, expected

NOISE = b"\"'{}[]():;,.-+eE019 \t\n\r\0\xff\xc3\xa9<>&!/\\unN"
SAMPLES = {name: [case for case in CASES if case.parent.name == name] for name in IMPORTERS}
LIMIT = 20_000


def checked(data: bytes, wanted: ImportRequest, name: str = "f") -> None:
    """Read; only BadInput may come out, and what is returned must be whole."""
    try:
        results = read_results(ForeignFile(name, data), wanted, IMPORTERS)
    except BadInput as error:
        assert error.message
        return
    assert results.runs
    assert len({run.number for run in results.runs}) == len(results.runs)
    for run in results.runs:
        assert bool(run.measurements) != (run.failure is not None)
        assert all(math.isfinite(one.value) and one.original for one in run.measurements)
    msgspec.json.encode(results)


@pytest.mark.parametrize("name", sorted(IMPORTERS))
@settings(max_examples=60, deadline=None)
@given(data=st.binary(min_size=1, max_size=300))
def test_arbitrary_bytes(name: str, data: bytes) -> None:
    checked(data, ImportRequest(options=ImportOptions(), as_format=name))


@settings(max_examples=200, deadline=None)
@given(data=st.binary(min_size=1, max_size=300), ending=st.sampled_from(["", ".csv", ".json", ".gz"]))
def test_arbitrary_bytes_of_no_named_format(data: bytes, ending: str) -> None:
    checked(data, ImportRequest(options=ImportOptions()), "matrix" + ending)


@pytest.mark.parametrize("name", sorted(IMPORTERS))
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_mutated_good_inputs(name: str, seed: int) -> None:
    chance = random.Random(seed)
    case = chance.choice(SAMPLES[name])
    path = next(case.glob("input*"))
    data = bytearray(path.read_bytes()[:LIMIT])
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.choice(NOISE)])
            case 1:
                data[at:at] = bytes([chance.choice(NOISE)])
            case 2:
                del data[at : at + chance.randint(1, 40)]
            case 3:
                data[at:at] = data[chance.randrange(len(data) or 1) :][:60]
            case _:
                del data[at:]
        if not data:
            data += b"{"
    options = expected(case).options
    checked(bytes(data), ImportRequest(options=options, as_format=name), expected(case).name or path.name)


@pytest.mark.parametrize("name", sorted(IMPORTERS))
@pytest.mark.parametrize("data", [b"[" * 200_000, b'{"a":' * 100_000, b"<a>" * 100_000, b"9" * 5000, b"a," * 50_000])
def test_deep_and_long(name: str, data: bytes) -> None:
    checked(
        data, ImportRequest(options=ImportOptions(values=("a",)) if name == "csv" else ImportOptions(), as_format=name)
    )


def test_an_unknown_format_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownName) as caught:
        read_results(ForeignFile("f", b"x"), ImportRequest(options=ImportOptions(), as_format="hyprefine"), IMPORTERS)
    assert caught.value.nearest == ("hyperfine",)

# SPDX-License-Identifier: Apache-2.0
"""Samples to Parquet and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import KtrialError
from ktrial.machine.sensors import Gone, Samples, Sensor
from ktrial.results.store.telemetry import from_parquet, to_parquet
from tests.support.samples import LEVEL, NARROW, TICKS, samples

NAMES = {'a"b': LEVEL, "it's": TICKS, "x; DROP": NARROW}


def example() -> Samples:
    plain = samples({'a"b': [45_000, None], "it's": [1, 2], "x; DROP": [2**62 + 1, None]}, NAMES)
    gone = {"/sys/class/hwmon/hwmon0/temp1_input": Gone(at_ns=5, why="No such device; it's gone")}
    return msgspec.structs.replace(plain, gone=gone, lies={'a"b': 1})


def test_what_was_written_is_read_back() -> None:
    assert from_parquet(to_parquet(example())) == example()


def test_other_tools_read_the_columns_in_their_units(tmp_path: Path) -> None:
    file = tmp_path / "samples.parquet"
    file.write_bytes(to_parquet(example()))
    rows = duckdb.connect().execute(f"SELECT * FROM '{file}'").fetchall()
    assert rows == [(10**9, 45.0, 0.01, 2**62 + 1), (2 * 10**9, None, 0.02, None)]


def test_no_samples_and_no_columns_are_kept_too() -> None:
    empty = samples({}, {})
    assert from_parquet(to_parquet(empty)) == empty
    without_rows = samples({"x": []}, {"x": LEVEL})
    assert from_parquet(to_parquet(without_rows)) == without_rows


def test_nothing_is_left_open() -> None:
    to_parquet(example())
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        from_parquet(to_parquet(example()))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_names_that_differ_in_case_alone_are_kept_apart() -> None:
    written = samples({"s.bat": [1], "s.BAT": [2], "S.bat_1": [3]}, {"s.bat": LEVEL, "s.BAT": LEVEL, "S.bat_1": TICKS})
    assert from_parquet(to_parquet(written)) == written


NAME = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1).map(lambda name: f"s.{name}")
COLUMN = st.lists(st.none() | st.integers(-(2**50), 2**50), min_size=3, max_size=3)


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(NAME, COLUMN, max_size=4), st.integers(1, 10**6))
def test_any_samples_are_read_back(columns: dict[str, Sequence[int | None]], per_unit: int) -> None:
    units = {name: Sensor(unit="s", per_unit=per_unit, kind="level") for name in columns}
    written = samples(columns, units)
    assert from_parquet(to_parquet(written)) == written


def foreign() -> bytes:
    descriptor = os.memfd_create("foreign")
    place = f"/proc/self/fd/{descriptor}"
    duckdb.connect().execute(f"COPY (SELECT 1 AS time_ns) TO '{place}' (FORMAT parquet, USE_TMP_FILE false)")
    data = os.pread(descriptor, 1 << 20, 0)
    os.close(descriptor)
    return data


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 4096, to_parquet(example())[:-40]])
def test_bytes_that_are_no_samples_are_refused(data: bytes) -> None:
    with pytest.raises(KtrialError, match="not telemetry of ktrial"):
        from_parquet(data)


def test_parquet_of_others_is_refused() -> None:
    with pytest.raises(KtrialError, match="not telemetry of ktrial: it does not name its sensors"):
        from_parquet(foreign())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_file_is_read_or_refused(at: int, byte: int) -> None:
    data = bytearray(to_parquet(samples({"x": [1, 2, None]}, {"x": NARROW})))
    data[at % len(data)] = byte
    try:
        from_parquet(bytes(data))
    except KtrialError as error:
        assert "not telemetry of ktrial" in error.message

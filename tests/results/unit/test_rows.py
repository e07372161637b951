# SPDX-License-Identifier: Apache-2.0
"""Which rows of a table count, and which columns name what is compared."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput, BadRun
from ktrial.results.foreign import ForeignResults
from ktrial.results.importers.tidy_csv import read

TABLE = b"""kernel,governor,host,a=b,time_s
stock,performance,one,x,1.0
stock,powersave,one,y,2.0
tuned,performance,two,x,3.0
tuned,powersave,two,,
"""


def found(**options: Any) -> ForeignResults:
    return read(TABLE, "table.csv", ImportOptions(values=("time_s",), **options))


@pytest.mark.parametrize(
    "where, numbers",
    [
        ((), [1, 2, 3, 4]),
        (("governor=performance",), [1, 3]),
        (("governor=performance", "kernel=tuned"), [3]),
        (("kernel=tuned", "kernel=stock", "governor=powersave"), [2, 4]),
        (("a=b=x",), [1, 3]),
        (("a=b=", "host=two"), [4]),
    ],
)
def test_rows_keep_their_place_in_the_file(where: tuple[str, ...], numbers: list[int]) -> None:
    if numbers == [4]:
        with pytest.raises(BadInput, match="every value is empty"):
            found(where=where)
        return
    told = found(where=where)
    assert [run.number for run in told.runs] == numbers
    note = f"--where excludes {4 - len(numbers)} of 4 rows"
    assert (note in told.notes) == (len(numbers) < 4)


@pytest.mark.parametrize(
    "where, said, hint",
    [
        ("governor=ondemand", "--where matches no row", "use values of governor: performance, powersave"),
        ("cpu=1", "--where 'cpu': no such column", "use one of: kernel, governor, host, a=b, time_s"),
        ("governor", "--where 'governor': missing value", "write COLUMN=VALUE"),
    ],
)
def test_a_condition_that_fits_nothing_names_what_is_there(where: str, said: str, hint: str) -> None:
    with pytest.raises(BadInput) as refused:
        found(where=(where,))
    assert said in refused.value.message
    assert refused.value.hint == hint


@pytest.mark.parametrize("by", ["kernel,governor", "kernel, governor"])
def test_several_columns_name_groups_together(by: str) -> None:
    assert [run.group for run in found(by=by).runs] == [
        "stock / performance",
        "stock / powersave",
        "tuned / performance",
        "tuned / powersave",
    ]
    assert found(by=by).runs[0].attributes == {"host": "one", "a=b": "x"}


@pytest.mark.parametrize(
    "column, unit",
    [
        *(("faults_s", "1/s"), ("page_faults_s", "1/s"), ("io_s", "1/s"), ("read_mb_s", "B/s"), ("cpu_seconds_s", "s")),
        *(("durations_s", "s"), ("class_s", "s"), ("times_s", "s"), ("delays_s", "s"), ("latencies_s", "s")),
        *(("startup_s", "s"), ("byte_s", "s")),
    ],
)
def test_what_stands_before_the_seconds_tells_a_rate(column: str, unit: str) -> None:
    told = read(f"kernel,{column}\na,2.5\n".encode(), "t.csv", ImportOptions(values=(column,)))
    assert told.runs[0].measurements[0].unit == unit


def test_an_empty_cell_names_no_group() -> None:
    with pytest.raises(BadRun, match=r"table\.csv:5: .*column 'a=b': the cell is empty"):
        read(TABLE.replace(b"two,,", b"two,,4.0"), "table.csv", ImportOptions(values=("time_s",), by="a=b"))


def test_a_unit_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadInput, match="--unit parsec: no such unit") as refused:
        found(unit="parsec")
    assert refused.value.hint is not None
    assert "ms" in refused.value.hint


def test_each_of_them_must_be_there() -> None:
    with pytest.raises(BadInput, match="--by 'cpu': no such column"):
        found(by="kernel,cpu")


def test_a_message_names_no_cell_at_full_length() -> None:
    table = b"host,time_s\n" + b"x" * 10_000 + b",1.0\n"
    with pytest.raises(BadInput) as refused:
        read(table, "table.csv", ImportOptions(values=("time_s",), where=("host=y",)))
    assert len(str(refused.value.hint)) < 100


def test_digests_of_questions_from_before_still_fit() -> None:
    """An option that nobody gave is no part of the question."""
    told = msgspec.to_builtins(ImportOptions.given({"values": (), "where": (), "by": None, "below_fps": None}))
    assert told.keys() == {"label", "values", "by", "block", "benchmark", "unit", "direction"}


WIDE = b"""run,stock,tuned,host
1,10.0,9.0,one
2,10.5,9.5,one
3,,9.2,one
4,10.2,,one
5,10.1,,one
"""


def wide(**options: Any) -> ForeignResults:
    return read(WIDE, "wide.csv", ImportOptions(groups="stock, tuned", **options))


def test_columns_that_are_groups_give_a_run_for_each_value() -> None:
    told = wide(values=("time_ms",), block="run")
    assert [(run.group, run.block) for run in told.runs] == [
        ("stock", "1"), ("tuned", "1"), ("stock", "2"), ("tuned", "2"), ("stock", "3"), ("tuned", "3"),
        ("stock", "4"), ("stock", "5"),
    ]  # fmt: skip
    first = told.runs[0].measurements[0]
    assert (first.outcome, first.value, first.unit) == ("time", 0.01, "s")
    assert told.runs[0].attributes == {"host": "one"}
    assert {run.failure is not None for run in told.runs if run.block == "3" and run.group == "stock"} == {True}


def test_columns_that_lie_beside_each_other_tell_no_order() -> None:
    assert not any(run.in_order for run in wide().runs)
    assert all(run.in_order for run in found().runs)
    assert [run.number for run in wide().runs] == list(range(1, 9))


def test_values_of_columns_that_are_groups_need_no_name() -> None:
    assert {one.outcome for run in wide().runs for one in run.measurements} == {"value"}


@pytest.mark.parametrize(
    "options, said",
    [
        ({"by": "host"}, "cannot combine --groups with --by: each column of --groups is a group"),
        ({"values": ("a", "b")}, "cannot combine --groups with a second --value: each column of --groups is a group"),
        ({"label": "stock"}, "cannot combine --groups with the name 'stock': each column of --groups is a group"),
        ({"values": ("host",)}, "cannot name the values 'host': a column has this name"),
    ],
)
def test_options_that_contradict_groups_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        wide(**options)
    assert said in str(refused.value)


def test_a_group_that_is_no_column_names_the_columns() -> None:
    with pytest.raises(BadInput, match="--groups 'best': no such column"):
        read(WIDE, "wide.csv", ImportOptions(groups="stock,best"))


def test_rows_that_are_left_out_are_rows_of_the_table() -> None:
    assert "--where excludes 3 of 5 rows" in wide(where=("run=1", "run=2")).notes


def test_a_group_without_a_value_is_refused() -> None:
    with pytest.raises(BadInput, match="--groups 'tuned': every cell of this column is empty"):
        read(b"stock,tuned,x\n1,,a\n2,,b\n", "wide.csv", ImportOptions(groups="stock,tuned"))
    with pytest.raises(BadInput) as caught:
        read(b"tuned,x\n,a\n,b\n", "wide.csv", ImportOptions(groups="tuned"))
    assert caught.value.hint == "name columns that have values"

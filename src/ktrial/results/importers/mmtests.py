# SPDX-License-Identifier: Apache-2.0
"""mmtests' JSON: a group for each test name, a run for each sample.

`compare-mmtests.pl --json-export` writes all compared kernels; mmtests can also write the extract of one. The files
are serialised objects of mmtests. `_ResultData` maps each operation to a list with an item for each iteration of the
whole test, with `Values` and `SampleNrs`. `_DataType` is a number that stands for the unit. The file doesn't say
whether a KB has 1000 or 1024 bytes; ktrial assumes 1000.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.formats.tool_output import Quantity, json_document, json_list, json_table, unreadable, unreadable_value
from ktrial.kit.outcome import Direction
from ktrial.results.foreign import ForeignResults, ForeignRun, stem
from ktrial.results.importers._shared import has_keys, labelled, measurement
from ktrial.results.importers._units import AS_IT_STANDS, Scale, json_signed, signed_number

#: Type -> unit as shown, conversion.
_TYPES: Mapping[int, tuple[str, Scale]] = {
    1: ("s", Scale("s")),
    2: ("ns", Scale("s", 1, 10**9)),
    3: ("us", Scale("s", 1, 10**6)),
    4: ("ms", Scale("s", 1, 10**3)),
    5: ("cycles", Scale("count")),
    6: ("bad actions", Scale("count")),
    7: ("actions", Scale("count")),
    8: ("actions/s", Scale("1/s")),
    9: ("actions/min", Scale("1/s", 1, 60)),
    10: ("ops/s", Scale("1/s")),
    11: ("ops/min", Scale("1/s", 1, 60)),
    13: ("KB/s", Scale("B/s", 10**3)),
    14: ("MB/s", Scale("B/s", 10**6)),
    15: ("Mbit/s", Scale("B/s", 10**6, 8)),
    16: ("trans/s", Scale("1/s")),
    17: ("trans/min", Scale("1/s", 1, 60)),
    18: ("%", Scale("ratio", 1, 100)),
    20: ("req/s", Scale("1/s")),
}
_PREFERRED: Mapping[object, Direction] = {"Higher": "higher", "Lower": "lower"}


class MmtestsValue(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of an operation. `value` is in the base unit, `iteration` counts from 1, `sample` is mmtests' number."""

    operation: str
    iteration: int
    sample: str
    value: float
    original: str


class MmtestsExtract(msgspec.Struct, frozen=True, kw_only=True):
    """A test on one kernel. `test_name` is mmtests' name for the kernel; a single extract may lack it."""

    module: str
    test_name: str | None
    unit: Scale
    unit_known: bool
    direction: Direction | None
    values: tuple[MmtestsValue, ...]


def read_mmtests(data: bytes, source: str = "mmtests.json") -> tuple[MmtestsExtract, ...]:
    """Read an export of a comparison, or a single extract."""
    document = json_document(data, source)
    if "_ExtractModules" in document:
        modules = json_list(document["_ExtractModules"], source, "_ExtractModules")
        if not modules:
            raise unreadable(source, None, "", "a comparison: its list _ExtractModules is empty")
        return tuple(_extract(one, f"_ExtractModules[{index}]", source) for index, one in enumerate(modules))
    if "_ResultData" not in document:
        raise unreadable(source, None, "", "output of mmtests: it has neither _ExtractModules nor _ResultData")
    return (_extract(document, "document", source),)


def _extract(value: object, at: str, source: str) -> MmtestsExtract:
    table = json_table(value, source, at)
    module, name, kind = table.get("_ModuleName"), table.get("_TestName"), table.get("_DataType")
    if not isinstance(module, str):
        raise unreadable_value(source, module, f"a string ({at}._ModuleName)")
    shown, scale = _TYPES.get(kind, ("", AS_IT_STANDS)) if isinstance(kind, int) else ("", AS_IT_STANDS)
    operations = json_table(table.get("_ResultData"), source, f"{at}._ResultData")
    values = tuple(
        one
        for operation, iterations in operations.items()
        for one in _values(operation, iterations, (shown, scale), f"{at}._ResultData.{operation}", source)
    )
    if not values:
        raise unreadable(source, None, f"{at}._ResultData", "a table of operations that have values")
    return MmtestsExtract(
        module=module.removeprefix("Extract").lower() or module,
        test_name=name if isinstance(name, str) else None,
        unit=scale,
        unit_known=bool(shown),
        direction=_PREFERRED.get(table.get("_RatioPreferred")),
        values=values,
    )


def _values(operation: str, iterations: object, unit: tuple[str, Scale], at: str, source: str) -> list[MmtestsValue]:
    shown, scale = unit
    found: list[MmtestsValue] = []
    for number, one in enumerate(json_list(iterations, source, at)):
        if one is None:
            continue
        place = f"{at}[{number}]"
        table = json_table(one, source, place)
        values = json_list(table.get("Values"), source, f"{place}.Values")
        samples = json_list(table.get("SampleNrs"), source, f"{place}.SampleNrs")
        if len(samples) != len(values):
            raise unreadable(source, None, "", f"consistent: {place}.SampleNrs does not have one number for each value")
        for index, (item, sample) in enumerate(zip(values, samples, strict=True)):
            at_value = f"{place}.Values[{index}]"
            text = _number(item, source, at_value)
            found.append(
                MmtestsValue(
                    operation=operation,
                    iteration=number + 1,
                    sample=str(sample),
                    value=scale.value(text, source, None, at_value),
                    original=f"{text} {shown}".strip(),
                )
            )
    return found


def _number(item: object, source: str, at: str) -> str:
    """Return the text of a number; Perl writes some numbers as strings."""
    if isinstance(item, str):
        return signed_number(item, source, None, at)
    return str(json_signed(item, source, at))


NAME = "mmtests"
WHAT = "JSON of mmtests (compare-mmtests.pl --json-export)."


def sniff(head: bytes, name: str) -> bool:
    return any(has_keys(head, key) for key in ("_ExtractModules", "_ResultData", "_ModuleName", "_TestName"))


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each sample, because the file doesn't say which samples belong to one execution."""
    extracts = read_mmtests(data, name)
    runs: list[ForeignRun] = []
    for extract in extracts:
        for one in extract.values:
            runs.append(_run(extract, one, extract.test_name or stem(name), len(runs) + 1))
    notes = ["each sample is a run: the file does not say which samples of an iteration come from one execution"]
    if not all(extract.unit_known for extract in extracts):
        notes.append("values without a known unit are stored unchanged, as scores")
    return ForeignResults(format=NAME, runs=labelled(runs, options.label, name), notes=tuple(notes))


def _run(extract: MmtestsExtract, one: MmtestsValue, group: str, number: int) -> ForeignRun:
    value = Quantity(one.value, one.original)
    return ForeignRun(
        group=group,
        benchmark=extract.module,
        number=number,
        measurements=(measurement(one.operation, value, extract.unit.unit, extract.direction),),
        attributes={"iteration": str(one.iteration), "sample": one.sample},
    )

# SPDX-License-Identifier: Apache-2.0
"""The library: its surface is what it promises, it loads lightly, and it says what the command line says."""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktrial import api
from ktrial.cli.main import main
from ktrial.judge.audit import audit
from ktrial.judge.judge import judge as by_protocol
from ktrial.judge.planning import block_sd, blocks_to_detect
from tests.support.imports import FOLDER
from tests.support.trials import pair_log, protocol

EXAMPLES = Path(__file__).parents[3] / "examples"
#: Who uses the library relies on these; what is taken away or renamed needs a release that says so.
SURFACE = {
    "audit": "(log: 'TrialLog') -> 'tuple[Finding, ...]'",
    "blocks_needed": "(differences: 'Sequence[float]', effect: 'float') -> 'int'",
    "compare": "(arms: 'Mapping[str, Sequence[float]]', *, direction: 'Direction | None', "
    "control: 'str | None' = None, "
    "margin: 'float' = 0.02, order: 'Sequence[str] | None' = None, "
    "blocks: 'Mapping[str, Sequence[str]] | None' = None) -> 'Answer'",
    "compare_files": "(arms: 'Mapping[str, Sequence[Path]]', *, control: 'str | None' = None, "
    "margin: 'float | None' = None, as_format: 'str | None' = None, options: 'ImportOptions | None' = None) "
    "-> 'Comparison'",
    "comparison_text": "(comparison: 'Comparison', width: 'int' = 80) -> 'str'",
    "judge": "(log: 'TrialLog') -> 'Judgement'",
    "read_comparison": "(data: 'bytes', name: 'str' = 'comparison') -> 'Comparison'",
    "read_log": "(data: 'bytes', name: 'str' = 'log') -> 'TrialLog'",
    "read_results": "(data: 'bytes', name: 'str', *, as_format: 'str | None' = None, "
    "options: 'ImportOptions | None' = None) -> 'ForeignResults'",
    "write_comparison": "(comparison: 'Comparison') -> 'bytes'",
    "write_log": "(log: 'TrialLog') -> 'bytes'",
}
TYPES = {
    *("Answer", "BadInput", "Comparison", "Contrast", "Finding", "ForeignResults", "ImportOptions", "Judgement"),
    *("KtrialError", "OutcomeComparison", "TrialLog"),
}
STOCK = [10.1, 10.3, 10.0, 10.2, 10.1, 10.4, 10.2, 10.0]
TUNED = [9.1, 9.2, 9.0, 9.3, 9.1, 9.2, 9.0, 9.1]


def test_the_surface_is_what_users_rely_on() -> None:
    functions = {name: str(inspect.signature(getattr(api, name))) for name in SURFACE}
    assert functions == SURFACE
    assert set(api.__all__) == set(SURFACE) | TYPES
    assert all(inspect.getdoc(getattr(api, name)) for name in SURFACE)


def test_nothing_heavy_loads_with_it() -> None:
    code = "import sys, ktrial.api; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "sqlalchemy", "click", "alembic"} & set(told)


def test_values_are_compared_as_their_order_allows() -> None:
    (contrast,) = api.compare({"stock": STOCK, "tuned": TUNED}, direction="lower").contrasts
    assert (contrast.arm, contrast.verdict) == ("tuned", "different")
    mixed = [arm for pair in zip(["stock"] * 8, ["tuned"] * 8, strict=True) for arm in pair]
    order = [*mixed[:4], *mixed[4:8][::-1], *mixed[8:12], *mixed[12:][::-1]]
    (contrast,) = api.compare({"stock": STOCK, "tuned": TUNED}, direction="lower", order=order).contrasts
    assert contrast.verdict == "better"
    blocks = {arm: [f"round {number}" for number in range(8)] for arm in ("stock", "tuned")}
    answer = api.compare({"stock": STOCK, "tuned": TUNED}, direction="lower", control="tuned", blocks=blocks)
    assert (answer.contrasts[0].arm, answer.contrasts[0].blocks) == ("stock", 8)


@pytest.mark.parametrize(
    "arms, more, message",
    [
        ({"a": STOCK}, {}, "expected at least two arms, got 1"),
        ({"a": STOCK, "b": TUNED}, {"control": "c"}, "control: unknown arm 'c'"),
        ({"a": STOCK, "b": [float("nan")]}, {}, "b: expected a finite number, got nan"),
        ({"a": [1.0], "b": [2.0]}, {"order": ["a", "c"]}, "order: unknown arm 'c' at position 2"),
        ({"a": [1.0], "b": [2.0]}, {"order": ["a"]}, "order: expected 'b' 1 times, got 0"),
        ({"a": [1.0], "b": [2.0]}, {"blocks": {"a": ["x"]}}, "blocks: expected 1 names for 'b', got 0"),
    ],
)
def test_what_is_wrong_is_bad_input(arms: dict[str, list[float]], more: dict[str, Any], message: str) -> None:
    with pytest.raises(api.BadInput, match=message):
        api.compare(arms, direction="lower", **more)


def test_files_are_compared_as_on_the_command_line() -> None:
    before, after = (EXAMPLES / "results" / f"{name}.json" for name in ("before", "after"))
    found = api.compare_files({"stock": [before], "tuned": [after]})
    out = io.StringIO()
    assert main(["compare", f"stock={before}", f"tuned={after}", "--json"], out, io.StringIO()) == 0
    told = json.loads(out.getvalue())
    again = json.loads(api.write_comparison(found))
    for key in ("answer", "scope", "control", "outcomes", "findings"):
        assert again[key] == told[key], key
    assert api.read_comparison(api.write_comparison(found)) == found
    assert found.answer.split(":")[0].replace("\n", " ") in api.comparison_text(found, 200).replace("\n", " ")
    with pytest.raises(api.BadInput, match="an arm has no file"):
        api.compare_files({"stock": [before], "tuned": []})
    with pytest.raises(api.BadInput, match=r"not a ktrial\.comparison/1 document"):
        api.read_comparison(b"{}")


def test_a_log_is_judged_and_written_again() -> None:
    log = pair_log(protocol(), [0.2, 0.25, 0.22, 0.18, 0.21, 0.24, 0.19, 0.23, 0.2, 0.22, 0.21, 0.2])
    assert api.judge(log) == by_protocol(log)
    data = api.write_log(log)
    assert tuple(api.read_log(data)) == tuple(log)
    assert api.audit(log) == audit(log)
    with pytest.raises(api.BadInput, match="the log of the trial is empty"):
        api.read_log(b"", "t.log")


def test_blocks_are_planned_by_what_they_differ_by() -> None:
    differences = [0.01, -0.02, 0.015, 0.0, -0.01, 0.02]
    assert api.blocks_needed(differences, 0.02) == blocks_to_detect(block_sd(differences), 0.02) == 20
    assert api.blocks_needed(differences, 0.01) > 20


def test_results_of_other_tools_are_read() -> None:
    data = (FOLDER / "hyperfine" / "1.15-two-commands" / "input.json").read_bytes()
    found = api.read_results(data, "hf.json", options=api.ImportOptions(label="x"))
    assert (found.format, {run.group for run in found.runs}) == ("hyperfine", {"x"})
    with pytest.raises(api.BadInput, match="unknown format"):
        api.read_results(b"nothing", "x.txt")

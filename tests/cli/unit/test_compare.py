# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

from ktrial.cli.main import main

ROOT = Path(__file__).resolve().parents[3]


def test_two_small_files_load_no_library_that_is_slow_to_load(tmp_path: Path) -> None:
    for name, base in (("old", 100), ("new", 90)):
        lines = "".join(f"BenchmarkPipe 100 {base + step / 7:.2f} ns/op\n" for step in range(10))
        (tmp_path / f"{name}.txt").write_text(lines)
    code = (
        "import sys, io; from ktrial.cli.main import main;"
        f"main(['compare', *{[str(tmp_path / 'old.txt'), str(tmp_path / 'new.txt')]!r}], io.StringIO(), sys.stderr);"
        "slow = {'scipy.special', 'scipy.special._ufuncs', 'scipy.stats', 'scipy.optimize', 'altair'};"
        "print(*sorted(set(sys.modules) & slow))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert ran.stdout.split() == ["scipy.special._ufuncs"]


def test_the_command_that_is_printed_gives_the_same_comparison() -> None:
    table = str(ROOT / "examples/results/tiers.csv")
    words = ["compare", table, "--tiers", "--by", "tier", "--block", "round", "--value", "latency_us", "--json"]
    first, again, err = io.StringIO(), io.StringIO(), io.StringIO()
    assert main([*words, "--direction", "lower"], first, err) == 0
    (command,) = json.loads(first.getvalue())["reproduce"]
    assert main([*shlex.split(command)[1:], "--json"], again, err) == 0, err.getvalue()
    assert again.getvalue() == first.getvalue()
    (outcome,) = json.loads(first.getvalue())["outcomes"]
    assert [(one["arm"], one["control"]) for one in outcome["steps"]] == [("t1", "stock"), ("t2", "t1"), ("t3", "t2")]


def test_machines_are_pooled_and_tiers_of_them_refused() -> None:
    table = str(ROOT / "examples/results/machines.csv")
    words = ["compare", table, "--by", "kernel", "--block", "round", "--value", "latency_us", "--direction", "lower"]
    out, err = io.StringIO(), io.StringIO()
    assert main([*words, "--control", "stock", "--pool", "--json"], out, err) == 0, err.getvalue()
    found = json.loads(out.getvalue())
    assert (found["asked"]["pool"], found["scope"]) == (True, "across 4 machines")
    assert "--pool" in found["reproduce"][0]
    (contrast,) = found["outcomes"][0]["contrasts"]
    # The true effects on the machines, which the table was made with.
    true = [-math.log(one) for one in (0.82, 0.86, 0.80, 0.92)]
    effects = [one["effect"] for one in contrast["pooled"]["machines"]]
    assert all(abs(one["estimate"] - effect) < 0.02 for one, effect in zip(effects, true, strict=True))
    assert contrast["effect"]["low"] < sum(true) / 4 < contrast["effect"]["high"]
    err = io.StringIO()
    assert main([*words, "--pool", "--tiers"], io.StringIO(), err) == 2
    assert "cannot combine --pool with --tiers" in err.getvalue()
    plain = io.StringIO()
    assert main([*words, "--json"], plain, err) == 0
    assert "pool" not in json.loads(plain.getvalue())["asked"], "questions of before keep their digest"


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    before = ROOT / "examples/results/before.json"
    other = tmp_path / "other.json"
    other.write_text(before.read_text().replace("make", "gcc"))
    out, err = io.StringIO(), io.StringIO()
    assert main(["compare", f"a={before}", f"b={other}", "--fail-on", "worse"], out, err) == 2
    assert "There is nothing to compare" in " ".join(out.getvalue().split())
    assert "the configurations have no outcome in common" in err.getvalue()


def test_a_gate_that_can_compare_nothing_does_not_pass(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    rows = [f"{side},./{side}/prog,{value}" for side in ("base", "change") for value in (10, 11, 12, 10, 11, 12)]
    table.write_text("\n".join(["side,command,time_ms", *rows]) + "\n")
    words = ["compare", str(table), "--by", "side", "--value", "time_ms", "--direction", "lower"]
    err = io.StringIO()
    assert main([*words, "--fail-on", "worse"], io.StringIO(), err) == 2
    assert "cannot check --fail-on: change and base are not comparable" in err.getvalue()
    assert main(words, io.StringIO(), io.StringIO()) == 0
    assert main([*words, "--fail-on", "worse", "--declared", "command"], io.StringIO(), io.StringIO()) == 0


def test_any_verdict_can_be_failed_on() -> None:
    words = ["compare", *(f"{name}={ROOT}/examples/results/{name}.json" for name in ("before", "after"))]
    for option, status in (("worse,inconclusive", 0), ("worse, different", 3), ("not-comparable,different", 3)):
        err = io.StringIO()
        assert main([*words, "--fail-on", option], io.StringIO(), err) == status, option
        assert ("1 verdict is different: make-bench.time: after against before" in err.getvalue()) == (status == 3)
        assert ("--fail-on ignored a difference" in err.getvalue()) == (status == 0)
    err = io.StringIO()
    assert main([*words, "--fail-on", "unequal"], io.StringIO(), err) == 2
    assert "no-difference-seen" in err.getvalue()

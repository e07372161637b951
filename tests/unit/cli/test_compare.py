# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
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
        "print(*sorted(set(sys.modules) & {'scipy.special', 'scipy.stats', 'scipy.optimize', 'altair'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert ran.stdout.split()[-1] == "scipy.special"
    assert "scipy.stats" not in ran.stdout


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

# SPDX-License-Identifier: Apache-2.0
"""Mutants of the agent that are built together: by the real compiler, and one at a time when they run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from mutation.agent import environment
from mutation.together import planted, unbuilt

SOURCE = """\
/// Braces } in words { do no harm.
fn sum(left: u32, right: u32) -> u32 {
    left + right
}

struct One;

impl One {
    fn is_more(&self, than: u32) -> bool {
        fn inner(than: u32) -> u32 { than - 1 }
        return inner(than) < 1;
    }
}

fn main() {
    println!("{} {}", sum(3, 2), One.is_more(1));
}
"""


def span(first: tuple[int, int], last: tuple[int, int]) -> dict[str, Any]:
    return {"start": {"line": first[0], "column": first[1]}, "end": {"line": last[0], "column": last[1]}}


def told(name: str, function: dict[str, Any], place: dict[str, Any], replacement: str) -> dict[str, Any]:
    return {"function": {"function_name": name, "span": function}, "span": place, "replacement": replacement}


SUM, MORE, INNER = span((1, 1), (4, 2)), span((9, 5), (12, 6)), span((10, 9), (10, 49))
MUTANTS = {
    1: told("sum", SUM, span((3, 10), (3, 11)), "-"),
    2: told("sum", SUM, span((3, 5), (3, 17)), "7"),
    3: told("One::is_more", MORE, span((11, 28), (11, 29)), ">"),
    4: told("inner", INNER, span((10, 45), (10, 46)), "+"),
    5: told("sum", SUM, span((3, 5), (3, 17)), "String::new()"),
}


def test_the_file_says_which_one_is_alive(tmp_path: Path) -> None:
    chosen, source = tmp_path / "chosen", tmp_path / "main.rs"
    pieces = planted(SOURCE, {number: one for number, one in MUTANTS.items() if number != 5}, chosen)
    assert set().union(*(one.mutants for one in pieces)) == {1, 2, 3}, "of the inner function none"
    source.write_text("".join(one.text for one in pieces))
    subprocess.run(["rustc", "-o", tmp_path / "main", source], check=True, env=environment(), capture_output=True)

    def run(text: str) -> str:
        chosen.write_text(text)
        return subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout

    assert [run(text) for text in ("0", "1", "2", "3", "9", "")] == [
        "5 true\n",
        "1 true\n",
        "7 true\n",
        "5 false\n",
        "5 true\n",
        "5 true\n",
    ]


def test_what_does_not_build_is_told_by_its_lines(tmp_path: Path) -> None:
    pieces = planted(SOURCE, MUTANTS, tmp_path / "chosen")
    lines = "".join(one.text for one in pieces).split("\n")
    (wrong,) = [number for number, line in enumerate(lines, 1) if "String::new()" in line]
    assert unbuilt(pieces, wrong, wrong) == {5}
    asks = next(number for number, line in enumerate(lines, 1) if line.startswith("static PLANTED"))
    assert unbuilt(pieces, asks, asks) == {1, 2, 5}
    assert unbuilt(pieces, len(lines) - 2, len(lines)) == set()

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.tool_files import load_recipes, recipe_for
from ktrial.kit.errors import BadInput

RECIPE = """name = "tool"
what = "Measures."
licence = "MIT"
upstream = "https://example.org/tool.git"
commit = "0123456789abcdef0123456789abcdef01234567"
steps = [["make"]]
programs = { tool = "tool" }
needs = ["make"]
compilers = []
"""


def test_every_tool_without_a_package_has_a_recipe() -> None:
    for benchmark in all_benchmarks().values():
        of_a_system = all(name.startswith("/") for name in benchmark.needs)
        if not of_a_system and not benchmark.packages:
            assert recipe_for(list(benchmark.needs)) is not None, benchmark.name
    assert set(load_recipes()) == {"schbench", "synthmark"}


def test_no_recipe_yields_what_it_does_not_build() -> None:
    assert recipe_for(["schbench", "fio"]) is None


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("https://", "http://", "not an https address"),
        ('"tool"\nwhat', '"other"\nwhat', "differs from the file name tool.toml"),
        ("steps =", "script =", "`script`"),
    ],
)
def test_a_wrong_recipe_is_named_with_its_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "tools" / "tool.toml"
    path.parent.mkdir()
    path.write_text(RECIPE)
    assert list(load_recipes(tmp_path)) == ["tool"]
    path.write_text(RECIPE.replace(old, new))
    with pytest.raises(BadInput, match=message) as caught:
        load_recipes(tmp_path)
    assert str(path) in caught.value.message

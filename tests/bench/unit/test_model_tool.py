# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.tool import Receipt, Recipe, ToolSource
from ktrial.kit.errors import BadInput

RECIPE = Recipe(
    name="tool",
    what="Measures.",
    licence="MIT",
    upstream="https://example.org/tool.git",
    commit="a" * 40,
    steps=(("make",),),
    programs={"tool": "out/tool"},
    needs=("make", "gcc"),
    compilers=("gcc",),
)
RECEIPT = Receipt(
    name="tool",
    source=ToolSource(kind="git", place="https://example.org/tool.git", commit="a" * 40, verified="commit"),
    tree_sha256="b" * 64,
    licence="MIT",
    steps=(("make",),),
    environment={"LC_ALL": "C"},
    compilers={"gcc": "gcc 12.2.0"},
    programs={"tool": "c" * 64},
    built_unix_ms=1,
)


def test_a_recipe_holds_together() -> None:
    RECIPE.check()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../tool"},
        {"upstream": "http://example.org/tool.git"},
        {"upstream": "ext::sh -c id"},
        {"commit": "a" * 39},
        {"commit": "main"},
        {"commit": "--upload-pack=id"},
        {"tree_sha256": "A" * 64},
        {"steps": ()},
        {"steps": ((),)},
        {"programs": {}},
        {"programs": {"../tool": "tool"}},
        {"programs": {"tool": "/bin/sh"}},
        {"programs": {"tool": "out/../../tool"}},
        {"compilers": ("clang",)},
    ],
)
def test_what_a_recipe_may_not_say(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        msgspec.structs.replace(RECIPE, **wrong).check()


@pytest.mark.parametrize(
    "other",
    [
        {"tree_sha256": "d" * 64},
        {"steps": (("make", "CFLAGS=-O3"),)},
        {"compilers": {"gcc": "gcc 13.1.0"}},
        {"environment": {"LC_ALL": "C", "CFLAGS": "-O3"}},
    ],
)
def test_another_build_is_another_version(other: dict[str, Any]) -> None:
    assert msgspec.structs.replace(RECEIPT, **other).version() != RECEIPT.version()


def test_when_and_in_which_folder_it_was_built_is_no_other_version() -> None:
    later = msgspec.structs.replace(RECEIPT, built_unix_ms=2, programs={"tool": "d" * 64})
    assert later.version("1.27") == RECEIPT.version("1.27") == f"1.27, commit aaaaaaaaaaaa, built {RECEIPT.identity}"
    assert later.folder == RECEIPT.folder == f"aaaaaaaaaaaa-{RECEIPT.identity}"


def test_a_source_without_commit_goes_by_its_content() -> None:
    source = ToolSource(kind="folder", place="/src", verified="no")
    assert msgspec.structs.replace(RECEIPT, source=source).version().startswith("tree bbbbbbbbbbbb, built ")

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from ktrial.kit import errors
from ktrial.kit.errors import BadInput, KtrialError, nearest


def subclasses(kind: type[KtrialError]) -> list[type[KtrialError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in subclasses(child))]


def test_the_tree_at_the_head_of_the_module_is_the_tree() -> None:
    drawn = {name: int(status) for name, status in re.findall(r"(\w+) +(\d+)  ", errors.__doc__ or "")}
    drawn |= {name: int(status) for name, status in re.findall(r"(\w+) +(\d+)$", errors.__doc__ or "", re.MULTILINE)}
    here = {kind.__name__: kind.exit_status for kind in subclasses(KtrialError) if kind.__module__ == errors.__name__}
    assert here == drawn | {"Interrupted": 130}


def test_bad_input_says_where() -> None:
    assert str(BadInput("no", file="a.toml", line=3, column=7)) == "a.toml:3:7: no"
    assert str(BadInput("no", file="a.toml")) == "a.toml: no"


@pytest.mark.parametrize(
    "asked, meant",
    [("vm.page_cluster", "vm.page-cluster"), ("VM.Swappiness", "vm.swappiness"), ("vm.swapiness", "vm.swappiness")],
)
def test_nearest(asked: str, meant: str) -> None:
    assert nearest(asked, ["vm.page-cluster", "vm.swappiness", "kernel.printk"])[0] == meant


def test_nothing_near_is_nothing() -> None:
    assert nearest("zzz", ["vm.page-cluster"]) == ()

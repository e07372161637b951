# SPDX-License-Identifier: Apache-2.0
"""The label of a user for a file that tells groups itself."""

from __future__ import annotations

import pytest

from ktrial.kit.errors import BadInput
from ktrial.results.foreign import ForeignRun
from ktrial.results.importers._shared import labelled


def runs(*groups: str) -> list[ForeignRun]:
    return [
        ForeignRun(group=group, benchmark="b", number=number, measurements=()) for number, group in enumerate(groups, 1)
    ]


def test_without_a_label_the_groups_stay() -> None:
    assert [run.group for run in labelled(runs("a", "b"), None, "f.json")] == ["a", "b"]


def test_one_group_takes_the_label() -> None:
    assert [(run.group, run.number) for run in labelled(runs("a", "a"), "stock", "f.json")] == [
        ("stock", 1),
        ("stock", 2),
    ]


def test_several_groups_cannot_share_it() -> None:
    with pytest.raises(BadInput, match=r"f\.json: the 2 groups .*: a, b"):
        labelled(runs("b", "a", "b"), "stock", "f.json")

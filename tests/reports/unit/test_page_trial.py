# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.judge.model.comparison import Comparison
from ktrial.reports.html import html_page
from ktrial.reports.markdown import markdown
from tests.support.told_trials import a_trial


@pytest.fixture(scope="module")
def told() -> Comparison:
    """A trial of which one arm was brought about by hand and one by commands."""
    told = a_trial().told()
    assert told.trial is not None
    kinds: dict[str, dict[str, Any]] = {
        "sw10": {"changes": {}, "manual": "boot <6.19>", "expect": {"kernel.release": "6.19", "os.ostree": False}},
        "sw60": {"changes": {}, "commands": ("a on, undone by a off", "b"), "environment": {"X": "1"}},
    }
    arms = tuple(msgspec.structs.replace(arm, **kinds.get(arm.arm, {})) for arm in told.trial.arms)
    return msgspec.structs.replace(told, trial=msgspec.structs.replace(told.trial, arms=arms))


@pytest.fixture(scope="module")
def page(told: Comparison) -> str:
    return html_page(told)


def test_each_thing_that_brings_an_arm_about_has_a_line_of_its_own(told: Comparison, page: str) -> None:
    signs = "recognised by kernel.release = 6.19<br>recognised by os.ostree = false"
    assert f"by hand: boot &lt;6.19&gt;<br>{signs}<" in page
    assert ">environment X = 1<br>command 1: a on, undone by a off<br>command 2: b<" in page
    text = markdown(told)
    assert "environment X = 1; command 1: a on, undone by a off; command 2: b |" in text


def test_the_protocol_keeps_its_lines(told: Comparison, page: str) -> None:
    assert told.trial is not None
    assert 'name = "swappiness"\nsuite' in told.trial.text
    assert "name = &quot;swappiness&quot;\nsuite" in page

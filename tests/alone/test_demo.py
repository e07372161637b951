# SPDX-License-Identifier: Apache-2.0
"""The whole demo on a machine that it has for itself: what helps is better, what hurts is worse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.demos import ARMS, demo, verdicts

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]


def test_what_helps_and_what_hurts_is_found(tmp_path: Path) -> None:
    ran = demo(tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = verdicts(ran.stdout)
    assert list(found) == ARMS, ran.stdout
    assert (found["help"], found["hurt"]) == ("better", "worse"), ran.stdout

# SPDX-License-Identifier: Apache-2.0
"""Questions of several trials, as the store has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ktrial.cli.shared import several_trials
from ktrial.trial.protocol.file import DesignFile
from ktrial.trial.record import StoredTrial
from tests.support.blame import question


def stored(seed: int, started_unix_ms: int, part: str = "blame-x-1") -> StoredTrial:
    file = msgspec.structs.replace(question(2).trial, part=part, design=DesignFile(seed=seed))
    return StoredTrial(
        trial=f"t{seed}",
        session="s",
        protocol_sha256="",
        started_unix_ms=started_unix_ms,
        file=file,
        arms={},
        settle_s=0.0,
        machine="m",
    )


def test_trials_of_a_question_stand_in_their_order_also_where_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(several_trials, "part_of", lambda app, one: one.trial)
    trials = [stored(7, 3000), stored(9, 2000), stored(8, 1000), stored(1, 4000, "blame-y-1")]
    app: Any = SimpleNamespace(trials=SimpleNamespace(all=lambda: trials))
    found: list[Any] = list(several_trials.iter_started(app, "blame-x"))
    assert found == [("blame-x-1", 7, ["t7", "t8", "t9"])]

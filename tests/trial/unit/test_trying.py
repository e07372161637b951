# SPDX-License-Identifier: Apache-2.0
"""Before a trial that cannot see what is looked for."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import pytest

from ktrial.cli.shared.trial_start import agree_to_blindness
from ktrial.kit.errors import Interrupted, Refused
from ktrial.trial.protocol.forecast import TrialForecast

BLIND = TrialForecast(wanted=0.05, smallest_effect=0.3, cap=9, needed=34, affordable=40, expected=9, affordable_s=60.0)


def answered(text: str, monkeypatch: pytest.MonkeyPatch) -> TextIO:
    """A person at a terminal who types this."""
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    stdin = os.fdopen(reading, encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr("ktrial.cli.shared.trial_start.is_terminal", lambda: True)
    return stdin


def test_without_a_terminal_it_is_refused_with_what_would_help() -> None:
    with pytest.raises(Refused, match=r"effects of 30 % or more .* 5 % is lost") as caught:
        agree_to_blindness(BLIND, anyway=False, ask=True)
    assert "--budget 40 (about 1 min 0 s)" in (caught.value.hint or "")
    assert "add --anyway" in (caught.value.hint or "")


def test_it_goes_on_where_that_is_wanted() -> None:
    agree_to_blindness(BLIND, anyway=True, ask=True)


def test_on_a_terminal_it_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with answered("y\n", monkeypatch):
        agree_to_blindness(BLIND, anyway=False, ask=True)
    assert "Continue anyway" in capsys.readouterr().err
    with answered("n\n", monkeypatch), pytest.raises(Interrupted):
        agree_to_blindness(BLIND, anyway=False, ask=True)
    with answered("y\n", monkeypatch), pytest.raises(Refused):
        agree_to_blindness(BLIND, anyway=False, ask=False)

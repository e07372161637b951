# SPDX-License-Identifier: Apache-2.0
"""An effect of known size, planted through a knob of a folder that stands for a machine; the long form is `perf/aa`."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from ktrial.trial.protocol.file import CONTROL, ArmFile
from perf.aa import KNOB, KNOB_FILE, KNOB_FOUND, Bench, make_machine, planted_file


def test_a_setting_that_makes_a_program_do_half_more_work_is_found_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So large that no neighbour on the machine hides it: what is tested is the way from the knob to the estimate."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    machine = make_machine(tmp_path / "machine")
    arms = {CONTROL: ArmFile(), "more": ArmFile(set={KNOB: KNOB_FOUND + 50})}
    file = planted_file(machine)
    # Five times the work: on a machine that others slow down, runs of 60 ms differ by a fifth.
    command = (*file.command[:-1], file.command[-1].replace("600 *", "3000 *"))
    file = msgspec.structs.replace(file, command=command, detect=0.5, arms=arms)
    judged, _ = Bench(tmp_path, machine).trial(file)
    assert judged.verdict == "worse"
    assert judged.effect is not None
    assert 0.35 < math.expm1(-judged.effect.estimate) < 0.65
    assert (machine / KNOB_FILE).read_text() == f"{KNOB_FOUND}\n"

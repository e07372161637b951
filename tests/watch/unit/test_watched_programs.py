# SPDX-License-Identifier: Apache-2.0
"""What a watch starts in a guest, and what of this machine it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.bench.benchmark import RawOutput
from ktrial.cli.app_guest import GuestHost
from ktrial.cli.app_kernels import Kernels
from ktrial.cli.exact_host import ExactHost
from ktrial.cli.shared.watch import new_folder, refuse_on_host
from ktrial.cli.shared.watched_programs import LinesAtEnd
from ktrial.kit.errors import BadInput
from ktrial.recordings.frame_loop import LINES
from ktrial.recordings.frames.lines import FramePattern, FrameStream


def test_frames_that_come_all_at_once_keep_their_moments() -> None:
    lines = LinesAtEnd()
    lines.put(RawOutput(stdout=b"frame 12.639869254 16.102\nframe 12.656000001 16.130\nframe 12.67", cut=True))
    found = FrameStream(FramePattern(LINES), "it").feed(lines.take())
    assert [end_ns for end_ns, _ in found] == [12_639_869_254, 12_656_000_001]
    assert [took_s for _, took_s in found] == pytest.approx([0.016102, 0.01613])
    assert (lines.take(), lines.lost) == ([], 1)


def test_the_place_of_a_guests_recording_looks_at_nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("ktrial.watch.record.place.disks_of", None)
    monkeypatch.setattr("ktrial.watch.record.place.paths_of", None)
    folder = new_folder(None, ("sh",), 1, here=False)
    assert folder.parent == tmp_path / "ktrial" / "recordings"


def test_what_would_bring_this_machine_in_or_never_end_is_refused() -> None:
    def no_kernels() -> Kernels:
        raise AssertionError("nothing is booted")

    guest, exact = (kind(kind.prefix + "lab", no_kernels, print) for kind in (GuestHost, ExactHost))
    log = Path("game.log")
    refuse_on_host(None, log, {"nvidia": 5.0}, ends=False)
    refuse_on_host(guest, None, {"cpu": 5.0, "nvidia": 0.0}, ends=False)
    refuse_on_host(exact, None, {}, ends=True)
    with pytest.raises(BadInput, match="cannot combine --frames-from with --host guest:lab, which has another clock"):
        refuse_on_host(guest, log, {}, ends=True)
    with pytest.raises(BadInput, match="NVIDIA cards of this machine only, not of guest:lab"):
        refuse_on_host(guest, None, {"nvidia": 5.0}, ends=True)
    with pytest.raises(BadInput, match="exact:lab: Ctrl-C cannot end a watch in an exact guest"):
        refuse_on_host(exact, None, {}, ends=False)

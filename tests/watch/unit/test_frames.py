# SPDX-License-Identifier: Apache-2.0
"""A game run under MangoHud, with a game made of memory, and the reading of logs by their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.bench.record import Exit, RunRecord
from ktrial.kit.errors import BadRun, KtrialError
from ktrial.machine.facts import FactBook
from ktrial.recordings.frames.statistics import Capture
from ktrial.watch.frames import (
    Arena,
    Game,
    Played,
    capture_environment,
    captured_argv,
    play,
    read_frames,
    result_of,
)
from tests.support.bench import FakeClock, FakeStore

GOLDEN = Path(__file__).parents[2] / "golden" / "frames"
CAPPED = Capture("glxgears.x86_64_2026-11-21_20-51-43.csv", (GOLDEN / "0.8.4-capped" / "input").read_bytes())
LONGER = Capture("game_2026-11-21_20-51-44.csv", (GOLDEN / "0.8.4-free" / "input").read_bytes())
SAMPLED = Capture("game_2026-11-21_20-51-44.csv", (GOLDEN / "0.7.2-sampled" / "input").read_bytes())
STAGE = "FRAMERATE TEST: time=30.0, frames={}, fps={}\nGPU LOAD: time=30.0, wait=0.1, load=99.6%\n"
XPLANE = "Log.txt for X-Plane 12.1.4-r3 (build 121420)\n"


class UnixClock(FakeClock):
    def unix_ms(self) -> int:
        return 1_000


class Place:
    """Launcher, folder of captures and log in one; keeps what was run."""

    folder = "/private/captures"

    def __init__(self, *captures: Capture, ended: Exit | None = None, log: str | None = None) -> None:
        self.captures = captures
        self.ended = ended or Exit(status=0)
        self.log = log
        self.argv: tuple[str, ...] = ()
        self.environment: Mapping[str, str] = {}
        self.store = FakeStore()

    def run(self, argv: Sequence[str], environment: Mapping[str, str], *, quiet: bool) -> Exit:
        self.argv, self.environment = tuple(argv), environment
        return self.ended

    def found(self, started_unix_ms: int) -> tuple[Capture, ...]:
        assert self.argv, "looked for before the game ran"
        assert started_unix_ms == 1_000
        return self.captures

    def read(self, started_unix_ms: int) -> bytes | None:
        return None if self.log is None else self.log.encode()

    def play(self, **fields: Any) -> tuple[Exit, Played | BadRun]:
        game = Game(argv=("/usr/games/game", "-f"), environment={"HOME": "/home/u"}, directory="/home/u")
        game = msgspec.structs.replace(game, **fields)
        arena = Arena(
            launcher=self,
            store=self.store,
            clock=UnixClock(),
            captures=self,
            facts=FactBook({}),
            agent_version="0.1.0",
            mangohud="/usr/bin/mangohud",
            log=self,
        )
        return play(game, arena)


def played(place: Place, **fields: Any) -> Played:
    _, result = place.play(**fields)
    assert isinstance(result, Played), result
    return result


def test_the_game_runs_under_mangohud_and_is_kept() -> None:
    place = Place(CAPPED)
    result = played(place, label="stock")
    assert place.argv == ("/usr/bin/mangohud", "/usr/games/game", "-f")
    assert place.environment["MANGOHUD"] == "1"
    assert "log_interval=0" in place.environment["MANGOHUD_CONFIG"]
    record = result.record
    assert place.store.records == [record]
    assert (record.session.suite, record.session.label, record.benchmark) == ("frames", "stock", "glxgears-x86-64")
    assert (record.tool, record.failure, record.exit) == ("frames-mangohud", None, Exit(status=0))
    assert {kept.outcome for kept in record.measurements} >= {"frame-time-p99", "fps", "stutters"}
    assert place.store.parts == [{f"files/{CAPPED.name}": CAPPED.data}]
    assert record.details["frames"] == 178
    assert msgspec.json.decode(msgspec.json.encode(record), type=RunRecord) == record
    (headline,) = [one for one in result_of(result).summaries if one.headline]
    assert headline.outcome == "frame-time-p99"


def test_only_variables_that_bear_on_frames_are_kept() -> None:
    secret = {"HOME": "/home/u", "GITHUB_TOKEN": "s", "STEAM_TOKEN": "s", "DXVK_HUD": "fps", "LC_ALL": "C"}
    result = played(Place(CAPPED), environment=secret)
    assert set(result.record.environment) == {"DXVK_HUD", "LC_ALL", "MANGOHUD", "MANGOHUD_CONFIG"}


def test_how_the_game_ended_is_told_and_no_failure() -> None:
    place = Place(CAPPED, ended=Exit(signal=15))
    ended, result = place.play()
    assert isinstance(result, Played)
    assert ended == Exit(signal=15)
    assert result.record.failure is None
    assert "the game was killed by signal 15" in result.record.notes


def test_of_several_captures_the_one_with_most_frames_is_taken() -> None:
    result = played(Place(CAPPED, LONGER))
    assert (result.record.benchmark, result.record.details["frames"]) == ("game", 645)
    assert any(CAPPED.name in note for note in result.record.notes)
    assert played(Place(CAPPED, LONGER), program="glxgears.x86_64").record.details["frames"] == 178


def test_nothing_captured_is_said_and_kept_as_a_failed_run() -> None:
    place = Place(ended=Exit(status=3))
    ended, result = place.play()
    assert isinstance(result, BadRun)
    assert (ended.status, result.message) == (3, "MangoHud wrote no log")
    assert "--duration" in (result.hint or "")
    (record,) = place.store.records
    assert (record.failure, record.measurements) == ("MangoHud wrote no log", ())
    _, result = Place(LONGER).play(program="other")
    assert isinstance(result, BadRun)
    assert result.message == "MangoHud wrote no log of other"


def test_a_sampled_capture_is_refused_and_kept() -> None:
    place = Place(SAMPLED)
    _, result = place.play()
    assert isinstance(result, BadRun)
    assert "sampled" in result.message
    assert f"files/{SAMPLED.name}" in place.store.parts[0]
    assert isinstance(Place(SAMPLED, CAPPED).play()[1], Played), "beside a good one it does not matter"


def test_our_options_stand_behind_those_of_the_user() -> None:
    environment = capture_environment({"MANGOHUD_CONFIG": "fps_limit=60,log_interval=100", "A": "b"}, "/f", 30)
    assert environment["A"] == "b"
    words = environment["MANGOHUD_CONFIG"].split(",")
    assert words[:2] == ["fps_limit=60", "log_interval=100"]
    assert words.index("log_interval=0") > 1
    assert words[-2:] == ["log_duration=30", "output_folder=/f"]


def test_a_folder_that_mangohud_cannot_be_told_is_refused() -> None:
    with pytest.raises(KtrialError, match="the path contains a comma"):
        capture_environment({}, "/home/a,b", None)


def test_mangohud_stands_before_the_game_once() -> None:
    variables = {"MANGOHUD": "1", "MANGOHUD_CONFIG": "x"}
    assert captured_argv(["/g"], "/m", "/f", variables) == ["/m", "/g"]
    assert captured_argv(["/usr/bin/mangohud", "/g"], "/m", "/f", variables) == ["/usr/bin/mangohud", "/g"]
    assert captured_argv(["/usr/bin/flatpak", "run", "org.game"], None, "/f", variables) == [
        *("/usr/bin/flatpak", "run", "--filesystem=/f", "--env=MANGOHUD=1", "--env=MANGOHUD_CONFIG=x", "org.game")
    ]
    with pytest.raises(KtrialError, match="mangohud is not installed"):
        captured_argv(["/g"], None, "/f", variables)


def test_xplane_tests_itself_and_is_not_disturbed() -> None:
    place = Place(CAPPED, log=XPLANE + STAGE.format(1500, "50.00"))
    result = played(place, argv=("/x/X-Plane-x86_64", "--fps_test=3"), own_test=True)
    assert place.argv == ("/x/X-Plane-x86_64", "--fps_test=3")
    assert "MANGOHUD" not in place.environment
    (kept,) = result.record.measurements
    assert (kept.outcome, kept.value, kept.unit) == ("fps", 50.0, "1/s")
    assert (result.record.tool, result.record.tool_version) == ("frames-xplane", "12.1.4-r3")
    assert result.record.benchmark == "x-plane-x86-64"


def test_an_old_log_of_xplane_is_not_taken() -> None:
    _, result = Place(CAPPED).play(argv=("/x/X-Plane-x86_64", "--fps_test=3"), own_test=True)
    assert isinstance(result, BadRun)
    assert result.message == "X-Plane has not written Log.txt since it was started"


def test_the_three_stages_of_xplane_are_three_outcomes() -> None:
    text = XPLANE + STAGE.format(900, "30.00") + STAGE.format(1200, "40.00") + STAGE.format(1500, "50.00")
    report = read_frames(text.encode(), "Log.txt")
    assert {one.outcome: one.value for one in report.measurements} == {
        "fps-panel": 30.0,
        "fps-no-panel": 40.0,
        "fps-paused": 50.0,
    }
    with pytest.raises(BadRun, match=r"three stages of the frame rate test, or one stage of a \.fdr replay, got 2"):
        read_frames((XPLANE + STAGE.format(900, "30.00") * 2).encode(), "Log.txt")


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(BadRun, match="expected a log of MangoHud or MSI Afterburner, or"):
        read_frames(b"hello\n", "hello.csv")

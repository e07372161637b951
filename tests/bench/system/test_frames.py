# SPDX-License-Identifier: Apache-2.0
"""`ktrial frames`: on logs, with a small game that writes a capture itself, with MangoHud and glxgears."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.system.test_bench import home, run
from tests.support.kept import raw, records, work
from tests.support.tree import FakeRoot

__all__ = ["home"]
ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "frames"
#: Stands for `mangohud` and the game: writes what it was told to log where it was told to.
GAME = """#!/bin/sh
folder=${MANGOHUD_CONFIG##*output_folder=}
cp "$CAPTURE" "$folder/game_2026-11-21_20-00-00.csv"
echo "playing $*"
exit 3
"""


@pytest.fixture
def game(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `mangohud` of our own, which runs no game but leaves the capture that CAPTURE names."""
    folder = home / "bin"
    folder.mkdir()
    (folder / "mangohud").write_text(GAME)
    (folder / "mangohud").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("CAPTURE", str(GOLDEN / "0.8.4-capped" / "input"))
    return folder


def test_statistics_of_a_log_with_their_definitions(home: Path) -> None:
    log = str(GOLDEN / "0.8.4-free" / "input")
    ran = run("frames", log)
    assert ran.status == 0, ran.err
    assert "645 frames in 1.497 s, logged by MangoHud" in ran.out
    assert "frame-time-p99 *  15.2 ms" in ran.out
    assert "tenth-percent-low: left out: needs 5000 frames, there are 645" in ran.out
    for name in ("fps", "one-percent-low", "tenth-percent-low", "stutters", "late-time"):
        assert any(line.startswith(name) and len(line.split()) > 5 for line in ran.out.splitlines())
    document = json.loads(run("frames", "--json", log, str(GOLDEN / "0.6.8-capped" / "input")).out)
    assert document["schema"] == "ktrial.frames/1"
    first, second = document["logs"]
    assert (first["frames"], second["details"]["frame_time_unit"]) == (645, "us")
    assert all(one["definition"] and one["blind_spots"] for one in first["statistics"])


def test_of_a_sampled_log_the_mean_is_shown_and_how_to_get_more(home: Path) -> None:
    ran = run("frames", str(GOLDEN / "0.7.2-sampled" / "input"))
    assert (ran.status, ran.err) == (0, "")
    assert "sampled-fps  595.6 /s" in ran.out
    assert "one-percent-low" not in ran.out
    assert "log_interval=0" in ran.out


def test_what_is_no_log_of_frames_is_refused(home: Path) -> None:
    for argv, said in (
        (("frames", "none.csv"), "no such file"),
        (("frames",), "no log file and no command given"),
        (("frames", "a", "--", "b"), "cannot combine files with a command"),
        (("frames", "--"), "no command after --"),
        (("frames", "--when-idle", "a.csv"), "--when-idle requires a command after --"),
        (("frames", "--label", "stock", "a.csv"), "--label requires a command after --"),
        (("frames", "--", "no-such-game"), "no-such-game: no such program"),
        (("frames", "-o", "/no/folder/x", "--", "true"), "-o /no/folder/x: no folder /no/folder"),
    ):
        ran = run(*argv)
        assert ran.status == 2, argv
        assert said in ran.err


def test_a_game_is_kept_as_a_run_and_its_status_passed_on(home: Path, game: Path, capfd: Any) -> None:
    ran = run("frames", "--label", "stock", "-o", "out.json", "--", "true", "--full screen")
    assert ran.status == 3, ran.err
    assert "178 frames" in ran.out
    assert "logs frames until the game ends\n" in ran.err
    assert capfd.readouterr().out == "playing /usr/bin/true --full screen\n"
    (record,) = records(home)
    assert (record["benchmark"], record["tool"], record["session"]["label"]) == ("game", "frames-mangohud", "stock")
    assert record["notes"] == ["the game ended with status 3"]
    assert record["exit"]["status"] == 3
    assert record["session"]["boot_id"]
    assert (
        raw(home, record["raw"]["files/game_2026-11-21_20-00-00.csv"])
        == (GOLDEN / "0.8.4-capped" / "input").read_bytes()
    )
    document = json.loads((home / "out.json").read_text())
    assert (document["schema"], document["runs"]) == ("ktrial.bench/1", [record])
    assert list(work(home).iterdir()) == []
    again = run("frames", "--", "true", "--full screen").err
    assert "logs frames until the game ends, which took " in again, again
    assert "logs frames for 30 s" in run("frames", "--duration", "30s", "--", "true").err


def test_the_share_of_slow_frames_is_one_thing_wherever_frames_are_read(home: Path, game: Path) -> None:
    log = home / "stock.csv"
    log.write_bytes((GOLDEN / "0.8.4-capped" / "input").read_bytes())
    below = ("--below-fps", "59.9")
    for words in ((str(log),), ("--", "true")):
        (read,) = json.loads(run("frames", "--json", *below, *words).out)["logs"]
        assert [one["value"] for one in read["statistics"] if one["outcome"] == "slow-frame-share"] == [48 / 178]
    (record,) = records(home)
    assert record["parameters"]["below_fps"] == 59.9
    ran = run("reparse")
    assert ran.status == 0, ran.out
    (session,) = json.loads(run("import", "--json", *below, str(log)).out)["files"][0]["sessions"]
    assert run("export-runs", session["session"], "--format", "csv", "-o", "kept.csv").status == 0
    assert "48 of 178 frames took longer than 16.69 ms" in (home / "kept.csv").read_text()
    assert run("diagnose", *below, "--runs", "runs.csv", str(log), "--frames-began", "1.7e9").status == 0
    assert "48 of 178 frames took longer than 16.69 ms" in (home / "runs.csv").read_text()
    compared = json.loads(run("compare", "--json", *below, f"a={log}", f"b={log}").out)
    (share,) = [one for one in compared["outcomes"] if one["outcome"] == "slow-frame-share"]
    assert share["arms"][0]["median"] == 48 / 178


@pytest.mark.parametrize(
    "words, said",
    [
        (("frames", "--below-fps", "0", "x"), "--below-fps: expected 1 to 1000 frames per second, got 0.0"),
        (("frames", "--below-fps", "fast", "x"), "--below-fps fast: not a number"),
        (("frames", "--below-fps", "30", "Log.txt"), "X-Plane does not log single frames"),
        (
            ("frames", "--below-fps", "30", "--", "true", "--fps_test=3"),
            "X-Plane's own test does not log single frames",
        ),
        (("diagnose", "--below-fps", "30", "x"), "--below-fps requires --runs"),
    ],
)
def test_a_rate_that_could_not_count_is_refused(home: Path, words: tuple[str, ...], said: str) -> None:
    (home / "Log.txt").write_text("Log.txt for X-Plane 12.1.4 (x)\nFRAMERATE TEST: time=60.0, frames=3000, fps=50.00\n")
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_a_damaged_log_is_refused_with_the_next_step(home: Path) -> None:
    log = (GOLDEN / "0.8.4-capped" / "input").read_bytes()
    (home / "damaged.csv").write_bytes(log.replace(b"16.7087", b"-16.7087", 1))
    ran = run("frames", "damaged.csv")
    assert (ran.status, ran.out) == (1, "")
    assert "'-16.7087' is not a finite number of 0 or more" in ran.err
    assert "  next: log the frames again" in ran.err


def test_with_json_standard_output_is_json_alone(home: Path, game: Path, capfd: Any) -> None:
    ran = run("frames", "--json", "--", "true")
    assert json.loads(ran.out)["logs"][0]["frames"] == 178
    assert capfd.readouterr().out == ""


def test_no_capture_ends_with_1_and_says_how_the_game_ended(home: Path, game: Path) -> None:
    (game / "mangohud").write_text("#!/bin/sh\nexit 5\n")
    (home / "game_2020-01-01_00-00-00.csv").write_bytes((GOLDEN / "0.8.4-capped" / "input").read_bytes())
    ran = run("frames", "--captures", str(home), "--", "true")
    assert (ran.status, ran.out) == (1, "")
    assert "MangoHud wrote no log; the game ended with status 5" in ran.err
    assert "  next: " in ran.err
    assert records(home)[0]["failure"] == "MangoHud wrote no log"


def test_a_capture_written_elsewhere_is_found(home: Path, game: Path) -> None:
    (game / "mangohud").write_text('#!/bin/sh\ncp "$CAPTURE" "$HOME/wine_2026-11-21_20-00-00.csv"\n')
    ran = run("frames", "--captures", str(home), "--", "true")
    assert ran.status == 0, ran.err
    assert records(home)[0]["benchmark"] == "wine"


def test_without_mangohud_the_game_does_not_start(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "game").write_text("#!/bin/sh\n/usr/bin/touch started\n")
    (tmp_path / "game").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("frames", "--", "game")
    assert ran.status == 1
    assert "mangohud is not installed" in ran.err
    assert not (home / "started").exists()


def test_xplane_is_read_from_the_log_that_it_wrote(home: Path) -> None:
    program = home / "X-Plane" / "X-Plane-x86_64"
    program.parent.mkdir()
    line = "FRAMERATE TEST: time=60.0, frames=3000, fps=50.00 GPU LOAD: time=60.0, wait=1.0, load=98.0%"
    log = program.with_name("Log.txt")
    log.write_text(f"Log.txt for X-Plane 12.0.0 (old)\n{line}\n")
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    ran = run("frames", "--", str(program), "--fps_test=3")
    assert (ran.status, "X-Plane has not written Log.txt since it was started" in ran.err) == (1, True)
    program.write_text(f"#!/bin/sh\nprintf 'Log.txt for X-Plane 12.1.4 (x)\\n{line}\\n'> {log}\n".replace("%", "%%"))
    ran = run("frames", "--", str(program), "--fps_test=3")
    assert ran.status == 0, ran.err
    assert "logged by X-Plane 12.1.4" in ran.out
    assert records(home)[-1]["tool"] == "frames-xplane"


def test_another_machine_is_refused(root: FakeRoot) -> None:
    assert root.run("frames", "--", "true").status == 4


@pytest.mark.parametrize("program", ["glxgears", "vkcube --c 1000000 --present_mode 0"])
def test_a_real_program_under_the_real_mangohud(home: Path, program: str) -> None:
    """OpenGL and Vulkan, which it joins in different ways.

    MangoHud 0.6 writes when its log ends, which is why the program must outlive the log.
    """
    words = program.split()
    done = subprocess.run(
        [
            *("xvfb-run", "--auto-servernum", sys.executable, "-m", "ktrial", "frames", "--duration", "5s"),
            *("-o", "out.json", "--", "timeout", "--signal=INT", "15", *words),
        ],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 124, done.stderr
    (record,) = json.loads((home / "out.json").read_text())["runs"]
    assert record["tool"] == "frames-mangohud"
    assert record["benchmark"].startswith(words[0])
    assert record["argv"][0].endswith("/mangohud")
    values = {one["outcome"]: one["value"] for one in record["measurements"]}
    assert 0 < values["frame-time-p50"] <= values["frame-time-p99"] <= values["frame-time-max"] < 2
    assert values["fps"] * values["frame-time-mean"] == pytest.approx(1)
    assert record["details"]["logged_s"] < 6


def test_a_program_that_runs_by_itself_is_a_benchmark(home: Path) -> None:
    """The launcher of its screen draws nothing; the program is ended after its log, which is no failure."""
    program = "program=xvfb-run --auto-servernum glxgears"
    ran = run("bench", "mangohud", "-n", "1", "-p", program, "-p", "seconds=4", "-p", "environment=vblank_mode=0")
    assert ran.status == 0, ran.err
    (record,) = records(home)
    values = {one["outcome"]: one["value"] for one in record["measurements"]}
    assert 0 < values["frame-time-p50"] <= values["frame-time-p99"] <= values["frame-time-max"] < 2
    assert record["details"]["capture"].startswith("glxgears")
    assert record["environment"]["vblank_mode"] == "0"


def test_a_program_that_draws_nothing_fails_its_run_and_the_next_step_is_told(home: Path) -> None:
    ran = run("bench", "mangohud", "-n", "1", "-p", "program=true")
    assert ran.status == 1
    assert "MangoHud wrote no log; next: " in " ".join(ran.err.split())
    assert "MANGOHUD_DLSYM=1" in records(home)[0]["failure"]

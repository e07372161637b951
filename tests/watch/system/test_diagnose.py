# SPDX-License-Identifier: Apache-2.0
"""`ktrial diagnose` on files of other tools, on a folder that stands for a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tree import FakeRoot

BEGIN = 1795305600 + 13 * 3600


@pytest.fixture
def flight(tmp_path: Path) -> Path:
    """Twenty minutes: a stutter every minute or so, and threads that wait for memory in each."""
    folder = tmp_path / "flight"
    folder.mkdir()
    at = [37 + 61 * turn + turn * turn for turn in range(14)]
    rows = [f"{BEGIN + second},{100 + sum(5 for one in at if one < second)}" for second in range(1200)]
    (folder / "vmstat.csv").write_text("epoch,allocstall_normal\n" + "\n".join(rows) + "\n")
    times_ms = []
    now_s = 0.0
    left = list(at)
    while now_s < 1199:
        late = bool(left) and now_s >= left[0]
        if late:
            left.pop(0)
        times_ms.append(300.0 if late else 50.0)
        now_s += times_ms[-1] / 1e3
    elapsed = 0
    lines = ["os,cpu,gpu,ram,kernel,driver,cpuscheduler", "x,x,x,1,6,1,x", "fps,frametime,elapsed"]
    for time_ms in times_ms:
        elapsed += int(time_ms * 1e6)
        lines.append(f"{1000 / time_ms:.3f},{time_ms:g},{elapsed}")
    (folder / "frames.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_folder_of_files_is_one_recording(flight: Path, root: FakeRoot) -> None:
    ran = root.run("diagnose", str(flight), "--frames-began", str(BEGIN), "--json")
    assert ran.status == 0, ran.err
    found = ran.json["recordings"][0]["diagnosis"]
    assert [cause["id"] for cause in found["causes"] if cause["standing"] == "named"] == ["allocation-stalls"]
    assert found["stutters"] == 14
    assert [(one["knob"], one["value"]) for one in found["proposals"]] == [("vm.min_free_kbytes", "135168")]
    assert any("memory zones are unknown" in why for why in ran.json["recordings"][0]["not_proposed"])


def test_reports_are_written_whole_or_not_at_all(flight: Path, root: FakeRoot, tmp_path: Path) -> None:
    words = ("diagnose", str(flight), "--frames-began", str(BEGIN), "-o")
    for name, begin in (("a.html", b"<!DOCTYPE html>"), ("a.svg", b"<svg"), ("a.png", b"\x89PNG")):
        ran = root.run(*words, str(tmp_path / name))
        assert ran.status == 0, ran.err
        assert (tmp_path / name).read_bytes().startswith(begin)
    assert root.run(*words, str(tmp_path / "a.svg")).status == 2
    assert "unknown report format" in root.run(*words, str(tmp_path / "a.pdf")).err


def test_what_cannot_be_read_of_a_folder_is_named(flight: Path, root: FakeRoot) -> None:
    stalls = "".join(f"13:0{minute}:08 pid=7 comm=Main Thread reclaim_us=9000\n" for minute in range(1, 9))
    (flight / "trace_reclaim.log").write_text(f"Attaching 2 probes...\n13:05:00 pid=8 comm=b reclaim_us=5\n{stalls}")
    (flight / "trace_fence.log").write_text("Attaching 2 probes...\n")
    slow = "".join(f"{hour}:00:00 dev=1 sector=1 lat_ms=9 nr_sector=8\n" for hour in (12, 17))
    (flight / "trace_long.log").write_text(slow)
    (flight / "dmesg.log").write_text("[    0.000000] Linux version 6.1\n")
    (flight / "older").mkdir()
    (flight / "gone.csv").symlink_to("nowhere")
    words = ("diagnose", str(flight), "--frames-began", str(BEGIN))
    assert "and 8 notes on the files" in " ".join(root.run(*words).out.split())
    ran = root.run(*words, "--all")
    assert ran.status == 0, ran.err
    lines = ran.out.splitlines()
    assert "note: skipped: dmesg.log: unknown format of recordings" in lines
    assert "note: skipped: older is a folder; name that folder to read another recording" in lines
    assert "note: skipped: gone.csv: no such file" in lines
    assert any(line.startswith("note: skipped: trace_fence.log: not a trace with events") for line in lines)
    assert any(
        line.startswith("note: skipped: trace_long.log: cannot merge a file that has only times of day")
        for line in lines
    )
    (row,) = (line.split() for line in lines if line.startswith("direct-reclaim "))
    assert row[:5] == ["direct-reclaim", "9", "9", "ms", "68.0"]
    assert "direct reclaim" not in ran.out.partition("could not be seen")[2].partition("event ")[0]
    for name in ("vmstat.csv", "frames.csv", "trace_reclaim.log", "trace_long.log"):
        (flight / name).unlink()
    ran = root.run("diagnose", str(flight))
    assert (ran.status, "cannot read any of the 4 files in this folder, for example dmesg.log" in ran.err) == (
        2,
        True,
    ), ran.err


def test_frames_without_a_moment_cannot_be_put_beside_other_files(flight: Path, root: FakeRoot) -> None:
    ran = root.run("diagnose", str(flight))
    assert ran.status == 2
    assert "does not say when it began" in ran.err
    assert "--frames-began" in ran.err


def test_a_file_without_frames_shows_what_was_at_work(flight: Path, root: FakeRoot) -> None:
    ran = root.run("diagnose", str(flight / "vmstat.csv"))
    assert ran.status == 0, ran.err
    assert "no frames" in ran.out
    assert "direct reclaim" in ran.out


@pytest.mark.parametrize(
    "words, says",
    [
        (["--utc-offset", "east"], "expected ±HH:MM"),
        (["--limit", "soon"], "not a duration"),
        (["--frames-began", "nan"], "expected seconds since 1970"),
        (["--frames-began", "12"], "in the years 2001 to 2099"),
        (["--format", "nonsense"], "unknown format of recordings"),
    ],
)
def test_bad_options(words: list[str], says: str, flight: Path, root: FakeRoot) -> None:
    ran = root.run("diagnose", str(flight / "vmstat.csv"), *words)
    assert ran.status == 2
    assert says in ran.err


def test_what_is_no_recording(tmp_path: Path, root: FakeRoot) -> None:
    (tmp_path / "empty").mkdir()
    assert root.run("diagnose", str(tmp_path / "empty")).status == 2
    (tmp_path / "notes.txt").write_text("nothing of the kind\n")
    ran = root.run("diagnose", str(tmp_path / "notes.txt"))
    assert ran.status == 2
    assert "unknown format of recordings" in ran.err


def test_a_file_that_was_written_in_another_locale_is_bad_input(tmp_path: Path, root: FakeRoot) -> None:
    titles = "r b swpd free buff cache si so bi bo in cs us sy id wa st"
    row = "1 0 0 1,5 1 1 0 0 0 0 0 0 0 0 0 0 0"
    log = tmp_path / "vmstat.log"
    log.write_text(f"procs memory swap io system cpu\n{titles}\n{row}\n{row}\n")
    for more, hint in (
        ((), "record again, or correct the file"),
        (("--format", "vmstat"), "record again, or correct the file"),
        (("--format", "sadf"), "use --format vmstat"),
    ):
        ran = root.run("diagnose", "--interval", "1s", *more, str(log))
        assert ran.status == 2
        assert ("vmstat.log:4: '1,5' is not a decimal" in ran.err) == ("sadf" not in more)
        assert hint in ran.err

# SPDX-License-Identifier: Apache-2.0
"""Watching this machine: planted causes come as events, and nothing of the tracing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.recordings.ktrial import read_recording
from ktrial.recordings.ktrial_frames import read_frames
from ktrial.recordings.model import Recording
from tests.support.watching import instances, knows_threads, recorded, run, watch

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="tracing needs root"),
    pytest.mark.xdist_group("watch"),  # each looks at all the tracing that is on
]

#: A program with a thread whose name holds a blank, that competes with another one for one CPU.
CROWDED = (
    "import os, threading, time\n"
    "os.sched_setaffinity(0, {0})\n"
    "end = time.monotonic() + 2\n"
    "def spin():\n"
    "    while time.monotonic() < end: sum(range(20000))\n"
    "for _ in range(2): threading.Thread(target=spin).start()\n"
    "if not os.fork(): spin(); os._exit(0)\n"
    "spin()\n"
)
#: Two processes on one CPU that wake each other up for two seconds: more events in a second than a buffer holds.
PING_PONG = (
    "import os, time\n"
    "os.sched_setaffinity(0, {0})\n"
    "there, back = os.pipe(), os.pipe()\n"
    "if not os.fork():\n"
    "    os.close(there[1])\n"
    "    while os.read(there[0], 1): os.write(back[1], b'x')\n"
    "    os._exit(0)\n"
    "end = time.monotonic() + 2\n"
    "while time.monotonic() < end: os.write(there[1], b'x'); os.read(back[0], 1)\n"
)
#: One buffer for the machine, and one for the threads of the program where they can be told apart.
BUFFERS = 2 if knows_threads() else 1


@contextmanager
def agent() -> Iterator[tuple[ProcessTransport, AgentSession]]:
    transport = ProcessTransport([str(find_agent()), "serve", "--role", "root"])
    session = AgentSession(transport)
    try:
        yield transport, session
    finally:
        session.close()


def recover(home: Path) -> subprocess.CompletedProcess[str]:
    """`ktrial recover` with a state of its own."""
    argv, state = (
        (sys.executable, "-m", "ktrial", "recover"),
        {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
    )
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, **state}, check=True)


def check_that_no_thread_is_told(recording: Recording) -> None:
    """In a PID namespace the kernel's numbers of threads mean others."""
    why = {source.name: source.why for source in recording.sources if source.state == "absent"}
    assert "PID namespace" in (why["trace.threads"] or "")
    assert any("events have no threads" in note for note in recording.notes)
    assert {(event.thread, event.victim) for event in recording.events} <= {(None, None)}
    assert not [event for event in recording.events if event.kind in {"run-delay", "migration"}]


def test_in_a_pid_namespace_no_thread_is_taken_for_another(tmp_path: Path) -> None:
    space = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    watching = (sys.executable, "-m", "ktrial", "watch", "-o", str(tmp_path / "r"), "--above", "block-io=10us")
    write = ("dd", "if=/dev/zero", f"of={tmp_path}/file", "bs=64k", "count=100", "oflag=direct")
    done = subprocess.run([*space, *watching, "--", *write], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    recording = recorded(tmp_path / "r")
    assert [event for event in recording.events if event.kind == "block-io"]
    check_that_no_thread_is_told(recording)
    assert instances() == []


def test_a_thread_that_waits_for_its_cpu_is_seen_with_how_long(tmp_path: Path) -> None:
    recording = watch(tmp_path / "r", "--for", "60s", "--", sys.executable, "-c", CROWDED)
    if not knows_threads():
        check_that_no_thread_is_told(recording)
        return
    delays = [event for event in recording.events if event.kind == "run-delay"]
    assert delays, "no delay of the program's threads was seen"
    assert all(event.duration_s is not None and event.duration_s >= 0.001 for event in delays)
    assert any(event.victim for event in delays)
    assert any(event.victim is False for event in delays)
    assert recording.length_s < 50
    assert any(name.startswith("threads.") for name in recording.series)
    assert recording.frames is not None
    assert recording.frames.kind == "wake-up"
    assert instances() == []


@pytest.mark.skipif(not knows_threads(), reason="switches are traced for known threads only")
def test_buffers_that_fill_between_two_samples_are_read_before_they_are_full(tmp_path: Path) -> None:
    once_a_second = ("--rate", "trace=1")
    recording = watch(tmp_path / "r", *once_a_second, "--for", "60s", "--", sys.executable, "-c", PING_PONG)
    trace = next(source for source in recording.sources if source.name == "trace")
    assert trace.seen is not None
    assert trace.seen > 60_000, "too few events to fill a buffer of 1 MiB twice"
    assert trace.lost == 0


def test_frames_of_ktrials_own_loop_end_with_the_watch(tmp_path: Path) -> None:
    recording = watch(tmp_path / "r", "--for", "3s", "--frame-loop", "calm")
    frames = read_frames((tmp_path / "r" / "frames.csv").read_bytes(), "frames.csv").frames
    assert frames is not None
    assert 120 <= len(frames.ends_s) <= 60 * recording.length_s + 1
    time.sleep(0.1)
    assert subprocess.run(["pgrep", "-f", f"{find_agent()} frame-loop"], capture_output=True, check=False).stdout == b""
    done = run(tmp_path / "s", "--frame-loop", "calm", "--pid", "1")
    assert done.returncode == 2
    assert "cannot combine --frame-loop" in done.stderr


def test_requests_of_a_slow_device_are_told_with_their_length(tmp_path: Path) -> None:
    write = f"dd if=/dev/zero of={tmp_path}/file bs=64k count=400 oflag=direct"
    flush = f"dd if=/dev/zero of={tmp_path}/flushed bs=64k count=4 conv=fsync"
    commands = "; ".join([write, *[flush] * 10])
    recording = watch(tmp_path / "r", "--above", "block-io=100us", "--", "sh", "-c", commands)
    slow = [event for event in recording.events if event.kind == "block-io"]
    assert slow
    assert all(event.duration_s is not None and event.duration_s >= 1e-4 and event.device for event in slow)
    assert all(check.agree for check in recording.checks), recording.checks


def test_a_killed_agent_leaves_what_it_had_handed_over_and_recover_ends_its_tracing(
    tmp_path: Path, machine_alone: None
) -> None:
    with agent() as (transport, session):
        session.send("watch", limit_s=60, spill_s=0.3, sources={}, process=os.getpid())
        session.receive_begun("watch")
        file = tmp_path / "recording.ktr"
        end_s = time.monotonic() + 1.5
        with file.open("wb") as kept:
            while time.monotonic() < end_s:
                line = session.receive_next("watch")
                chunk = getattr(line, "chunk", None)
                if chunk is not None:
                    from ktrial.kit.json_bytes import read_bytes

                    kept.write(read_bytes(chunk))
        assert len(instances()) == BUFFERS
        os.kill(session.hello["pid"], signal.SIGKILL)
        transport.abandon()
    assert len(instances()) == BUFFERS
    found = read_recording(file.read_bytes(), "recording")
    assert found.ended == "cut-off"
    assert found.length_s > 0.8
    recovered = [recover(tmp_path) for _ in range(2)]
    assert instances() == []
    assert recovered[0].stderr.count("stopped the tracing of an agent that is gone") == BUFFERS
    assert [one.stdout for one in recovered] == ["", "Nothing to do.\n"]
    assert "ended" not in recovered[1].stderr


def test_a_killed_head_leaves_the_frames_that_were_told(tmp_path: Path) -> None:
    log, folder = tmp_path / "game.log", tmp_path / "r"
    log.write_text("")
    words = ("--frames-from", str(log), "--pattern", r"frame (?P<ms>[\d.]+)", "--no-trace")
    watching = subprocess.Popen([sys.executable, "-m", "ktrial", "watch", "-o", str(folder), *words])
    try:
        end_s = time.monotonic() + 30
        kept = folder / "frames.csv"
        while not kept.exists() and time.monotonic() < end_s:
            with log.open("a") as told:
                told.write("loading\nframe 16.7\n")
            time.sleep(0.02)
    finally:
        watching.kill()
        watching.wait()
    frames = read_frames(kept.read_bytes(), "frames.csv").frames
    assert frames is not None
    assert len(frames.ends_s) >= 10
    assert recorded(folder).ended == "cut-off"


def test_a_dead_head_ends_the_tracing() -> None:
    with agent() as (transport, session):
        session.send("watch", limit_s=60)
        session.receive_begun("watch")
        assert len(instances()) == 1
        transport.close()
    assert instances() == []


def test_a_watch_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    done = run(folder, "--pid", "4000000")
    assert (done.returncode, "no such process: 4000000" in done.stderr) == (2, True)
    assert not folder.exists()
    folder.mkdir()
    assert run(folder, "--rate", "cpu=101").returncode == 2
    assert list(folder.iterdir()) == []


def test_a_pattern_that_fits_nothing_is_an_error_and_the_recording_stays(tmp_path: Path) -> None:
    log = tmp_path / "game.log"
    log.write_text("")
    frames = ("--frames-from", str(log), "--pattern", r"frame (?P<ms>\d+)")
    done = run(tmp_path / "r", *frames, "--no-trace", "--", "sh", "-c", f"sleep 0.5; echo Bild 16 >> {log}; sleep 0.5")
    assert done.returncode == 2
    assert "matches none of 1 lines" in done.stderr
    assert recorded(tmp_path / "r").ended == "whole"


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"limit_s": 1, "sources": {"cpu": 1000}}, "1 to 100"),
        ({"limit_s": 1, "sources": {"gone": 1}}, "unknown source"),
        ({"limit_s": 1, "events": ["gone"]}, "unknown kind"),
        ({"limit_s": 1, "least_s": {"block-io:gone": 1}}, "no such block device"),
        ({"limit_s": 1, "process": 4_000_000}, "no such process"),
        ({"limit_s": 0}, "limit_s"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_begins(fields: dict[str, object], why: str) -> None:
    from ktrial.kit.errors import AgentError

    with agent() as (_, session):
        with pytest.raises(AgentError, match=why) as caught:
            session.request("watch", **fields)
        assert caught.value.exit_status == 2
        assert instances() == []

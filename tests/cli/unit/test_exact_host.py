# SPDX-License-Identifier: Apache-2.0
"""Exact guests as hosts, with kernels made of memory: what is booted, what is said, what is refused."""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ktrial import __version__
from ktrial.agent import line_frames
from ktrial.agent.session import AgentSession
from ktrial.bench.guest_tools import EXACT_CLOCK, ODD_BOOT, GuestPlace, GuestRun, GuestTools, Job
from ktrial.cli.app_guest import GuestHost
from ktrial.cli.exact_host import ExactHost
from ktrial.cli.main import main
from ktrial.kit.errors import BadInput

HELLO = f'{{"id":1,"ok":{{"agent":"{__version__}"}}}}\n'.encode()


class Kernels:
    """Boots that say hello; the `odd` ones of them say it otherwise."""

    def __init__(self, odd: tuple[int, ...] = ()) -> None:
        self.lab = self
        self.booted: list[tuple[GuestPlace, Job, int]] = []
        self._odd = odd

    @staticmethod
    def runs_programs(_: str) -> bool:
        return True

    @staticmethod
    def swap_programs(_: str) -> tuple[str, ...]:
        return ("/usr/sbin/mkswap",)

    @staticmethod
    def can_have_disk(_: str) -> bool:
        return True

    def prepare(self, place: GuestPlace) -> None:
        self.place = place

    def stop(self) -> None:
        raise AssertionError("nothing is to be stopped")

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun:
        (script,) = files.values()
        self.booted.append((place, job, len(script)))
        said = line_frames.encode_frame(line_frames.SAID, line_frames.numbered(1, HELLO))
        console = b"odd" if len(self.booted) in self._odd else b""
        begun: Any = SimpleNamespace(release="6.12.7-test")
        none: Any = None
        common = {"begun": begun, "ended": none, "stdout": b"", "stderr": b"", "console": console, "wall_s": 1.0}
        return GuestRun(shape=place.shape, emulator="", said=said, **common)


class Scene:
    """A host and what it said."""

    def __init__(self, odd: tuple[int, ...] = ()) -> None:
        self.kernels: Any = Kernels(odd)
        self.said: list[str] = []
        self.host = ExactHost("exact:running", lambda: self.kernels, self.said.append)


def _begun_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrial.guests.agreement.digest", lambda _: "sha")


def test_an_answer_comes_of_two_boots_with_the_programs_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    _begun_as_json(monkeypatch)
    scene = Scene()
    scene.host.give({"hackbench": "/usr/bin/hackbench", "fio": None}, disk=True)
    AgentSession(scene.host.connect("user"))
    (place, job, _), other = scene.kernels.booted
    assert other[:2] == (place, job)
    assert (place.shape.mode, place.shape.cpus, place.disk) == ("exact", 1, True)
    assert place.tools == ("/usr/bin/hackbench", "/usr/sbin/mkswap", "mktemp", "cat", "rm")
    assert (job.script, job.settle_s > 0, job.sessions) == (True, True, False)
    assert scene.host.tools() == GuestTools(
        places={"hackbench": "/usr/bin/hackbench"}, found={"hackbench": "/usr/bin/hackbench", "fio": None}, exact=True
    )
    scene.host.close()
    assert "exact guest with Linux 6.12.7-test" in scene.said[0]
    assert scene.said[1].startswith("1 answer, each from two boots")
    assert scene.said[2] == EXACT_CLOCK


def test_a_third_boot_decides_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _begun_as_json(monkeypatch)
    scene = Scene(odd=(2,))
    AgentSession(scene.host.connect("root"))
    assert len(scene.kernels.booted) == 3
    assert any(line.startswith(ODD_BOOT) for line in scene.said)


def test_a_host_that_was_asked_nothing_boots_and_says_nothing() -> None:
    scene = Scene()
    scene.host.close()
    assert (scene.said, scene.kernels.booted) == ([], [])


@pytest.mark.parametrize(
    "verb, instead",
    [
        ("retest", "ktrial try"),
        ("frames", "leave out --host"),
        ("tune", "ktrial --host guest:KERNEL"),
        ("blame", "--mode exact"),
    ],
)
def test_what_needs_a_conversation_is_refused_with_what_does_it(verb: str, instead: str) -> None:
    with pytest.raises(BadInput, match=f"cannot run `{verb}` in an exact guest, which boots again") as caught:
        Scene().host.check_verb(verb)
    assert caught.value.hint is not None
    assert instead in caught.value.hint
    Scene().host.check_verb("doctor")
    GuestHost("guest:running", lambda: Scene().kernels, lambda _: None).check_verb(verb)


@pytest.mark.parametrize(
    "words, said",
    [
        (("tune", "low-latency"), "cannot run `tune` in an exact guest"),
        (("try", "vm.swappiness=1", "--", "true"), "a trial in exact guests cannot measure a command after --"),
        (("watch",), "add --for 1m"),
        (("watermarks", "--measure", "1s"), "cannot use --measure in an exact guest"),
        (("bench", "agent-lock", "--settle"), "--settle: an exact guest cannot wait or restore anything between runs"),
    ],
)
def test_a_command_is_refused_before_anything_is_booted(words: tuple[str, ...], said: str) -> None:
    out, errors = io.StringIO(), io.StringIO()
    assert main(["--host", "exact:no-kernel", *words], out, errors) == 2
    assert said in errors.getvalue()

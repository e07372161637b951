# SPDX-License-Identifier: Apache-2.0
"""Which searches run in guests, and how each point is tried there before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktrial.bench.guest_tools import GuestFailed, GuestPlace
from ktrial.bench.record import TrialPlace
from ktrial.cli.shared import search_guests, search_question
from ktrial.cli.shared.search_guests import GuestProbes, guest_visit_seconds, guests_of
from ktrial.kit.errors import AgentError, BadInput, Contradiction, UnknownName
from ktrial.studies.search.dimension_file import DimensionFile
from ktrial.studies.search.model import ProbeReply, ProbeRequest
from ktrial.studies.search.space import Point, parse_space, resolve_space
from ktrial.trial.guests.recipe import KernelRecipe
from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile
from ktrial.tuning.catalog.loader import load_catalog
from tests.support.search import question_of
from tests.trial.unit.test_guest_kernels import FakeWorkshop

OPTIONS: dict[str, Any] = dict.fromkeys(
    ("guest", "kernel", "mode", "memory", "cpus", "workloads", "tree", "config", "common", "cc")
)
BOOT = '[[dimension]]\nboot = "nohz"\nvalues = ["off"]\n'


class FakeKernels:
    """Knows the kernels 6.1, 6.12 and what a folder holds; kernels are built by name."""

    def __init__(self) -> None:
        self.lab = self
        self.workshop = FakeWorkshop()

    def find(self, word: str) -> None:
        if word not in {"6.1", "6.12", "/spaces/build"}:
            raise UnknownName("installed kernel", word, ("6.1",), hint="list them")

    def identify(self, word: str) -> Any:
        return SimpleNamespace(name=word, identity=SimpleNamespace(architecture="x86_64"))

    def swap_programs(self, _kernel: str) -> tuple[str, ...]:
        return ("/usr/sbin/mkswap",)


class FakeApp:
    """The parts that searches in guests use."""

    def __init__(self) -> None:
        self.kernels = FakeKernels()
        self.host: Any = None
        self.spent_ns = 0
        self.clock = SimpleNamespace(monotonic_ns=lambda: self.spent_ns)
        self.interrupts = SimpleNamespace(check=lambda: None)
        self.said: list[str] = []
        self.say = self.said.append


def found(text: str, app: Any = None, **options: Any) -> Any:
    file = parse_space(f'name = "x"\n{text}'.encode(), "space.toml")
    here: Any = app or FakeApp()
    return guests_of(here, file, Path("/spaces"), {**OPTIONS, **options})


def test_kernels_are_named_or_lie_beside_the_space_and_the_first_is_the_control() -> None:
    guests = found('[[dimension]]\nkernel = ["6.1", "./build"]\n', guest=True, mode="kvm")
    assert guests.kernels == {"6.1": "6.1", "./build": "/spaces/build"}
    assert (guests.guest.kernel, guests.guest.mode) == ("6.1", "kvm")
    assert found(BOOT, kernel="6.12").guest.kernel == "6.12"
    assert found('[[dimension]]\nknob = "vm.swappiness"\nlow = 1\nhigh = 9\n') is None


@pytest.mark.parametrize(
    "text, options, told",
    [
        (BOOT, {}, "boot:nohz on this machine: each of its values needs a boot"),
        ('[[dimension]]\nkernel = ["6.1", "6.12"]\n', {}, "kernel on this machine"),
        ('[[dimension]]\nkernel = ["6.1", "6.12"]\n', {"kernel": "6.1"}, "a space that lists kernels to boot"),
        ('[[dimension]]\nkernel = ["6.1", "./gone"]\n', {"guest": True}, "/spaces/gone"),
        (
            '[[dimension]]\nkconfig = "HZ_1000"\nvalues = [true]\n',
            {"guest": True},
            "without kernel sources",
        ),
        ('[[dimension]]\nplaceholder = "w"\nvalues = [1, 2]\ndefault = 1\n', {"guest": True}, "w in guests"),
        ("[[dimension]]\nknob = 'vm.swappiness'\nvalues = [1]\n", {"memory": "1GiB"}, "--memory requires --guest"),
    ],
)
def test_what_cannot_be_searched_there_is_refused(text: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises((BadInput, Contradiction)) as caught:
        found(text, **options)
    assert told in caught.value.message


def test_guests_of_another_machine_are_refused() -> None:
    app = FakeApp()
    app.host = SimpleNamespace(word="ssh:web1")
    with pytest.raises(BadInput, match="in guests with --host ssh:web1"):
        found(BOOT, app, guest=True)


SPACE = """
name = "x"
[[dimension]]
boot = "nohz"
values = ["off", "bad", "unknown"]
[[dimension]]
knob = "vm.swappiness"
values = [1, 2, 3, 60]
"""


class Guests:
    """Guests in place of those of `scout`: `nohz=bad` does not boot, and swappiness 2 kills its guest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.booted: list[GuestPlace] = []
        self.tried: list[Point] = []
        monkeypatch.setattr(search_guests, "scout", self.scout)
        monkeypatch.setattr(search_guests, "refuse_unknown_words", self.refuse_unknown)

    @contextmanager
    def scout(self, app: FakeApp, place: GuestPlace) -> Iterator[str]:
        self.booted.append(place)
        app.spent_ns += 10_000_000_000
        if "nohz=bad" in place.shape.append:
            raise GuestFailed("the guest ended; last lines of its console:\n  Kernel panic", 125)
        yield "session"

    @staticmethod
    def refuse_unknown(_session: str, place: GuestPlace) -> None:
        if "nohz=unknown" in place.shape.append:
            raise BadInput("the kernel does not know nohz=unknown")

    def try_settings(self, _session: Any, point: Point) -> tuple[str | None, dict[str, Any]]:
        self.tried.append(point)
        if point["vm.swappiness"] == 2:
            raise AgentError("lost", "the guest has ended")
        return ("not 3", {}) if point["vm.swappiness"] == 3 else (None, {"vm.swappiness": 5})


def answered(monkeypatch: pytest.MonkeyPatch, *points: Point) -> tuple[ProbeReply, Guests]:
    made = Guests(monkeypatch)
    space = resolve_space(parse_space(SPACE.encode(), "space.toml"), {"vm.swappiness": 60}, {})
    trial = TrialFile(name="t", suite="tool", primary="time", arms={}, guest=GuestFile(kernel="6.12"))
    probes = GuestProbes(FakeApp(), question_of(space, 100, trial=trial))  # type: ignore[arg-type]
    return probes.answer(ProbeRequest(points), made.try_settings), made


def point_of(nohz: str, swappiness: int) -> Point:
    return {"boot:nohz": nohz, "vm.swappiness": swappiness}


def test_points_with_equal_arguments_share_a_boot_and_one_that_kills_its_guest_alone_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [point_of("off", 2), point_of("off", 1), point_of("off", 3), point_of("absent", 1)]
    reply, made = answered(monkeypatch, *points)
    assert reply.refused == ("in a guest: the guest has ended", None, "not 3", None)
    assert reply.crashed == (True, False, False, False)
    assert reply.clamped[1] == {"vm.swappiness": 5}
    # A second guest after the first one died.
    assert [one.shape.append for one in made.booted] == [("nohz=off",), ("nohz=off",), ()]
    assert {one.shape.mode for one in made.booted} == {"emulated"}
    assert reply.seconds == 30
    assert made.tried == points


def test_what_does_not_boot_fails_for_all_its_points_and_what_is_unknown_is_only_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reply, made = answered(monkeypatch, point_of("bad", 60), point_of("bad", 1), point_of("unknown", 60))
    assert reply.crashed == (True, True, False)
    assert reply.refused[0] == "in a guest: the guest ended"
    assert reply.refused[2] == "in a guest: the kernel does not know nohz=unknown"
    assert len(made.booted) == 2
    assert made.tried == []


def test_kernels_are_built_when_a_point_needs_them_and_those_like_the_control_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, app = Guests(monkeypatch), FakeApp()
    text = '[[dimension]]\nkconfig = "{}"\nvalues = [true, false]\n'
    text = f'name = "x"\n{"".join(map(text.format, ("HZ_1000", "NOTHING", "BROKEN")))}'
    names = ("kconfig:HZ_1000", "kconfig:NOTHING", "kconfig:BROKEN")
    space = resolve_space(parse_space(text.encode(), "space.toml"), dict.fromkeys(names, "n"), {})
    guest = GuestFile(kernel=KernelRecipe(tree="linux"))
    trial = TrialFile(name="t", suite="tool", primary="time", arms={}, guest=guest)
    points = [space.settled({name: "y"}) for name in names]
    probes = GuestProbes(app, question_of(space, 100, trial=trial))  # type: ignore[arg-type]
    reply = probes.answer(ProbeRequest(tuple(points)), lambda *_: (None, {}))
    assert [one.kernel for one in made.booted] == ["/guest HZ_1000=y"]
    assert app.kernels.workshop.done.count("build guest HZ_1000=y") == 1
    assert reply.refused[0] is None
    assert "ask for different kernels, but get the same kernel" in str(reply.refused[1])
    assert "BROKEN does not hold" in str(reply.refused[2])
    assert not any(reply.crashed)


@pytest.mark.parametrize("shown, default", [("Y", True), ("N", False), ("1", True)])
def test_a_switch_that_reads_y_has_that_default(shown: str, default: bool) -> None:
    name = "damon:reclaim_enabled"
    change = SimpleNamespace(old_text=shown)
    dimension = DimensionFile(knob=name, values=(False, True))
    found = search_question._default(dimension, load_catalog().knobs[name], change)  # type: ignore[arg-type]
    assert found is default


def test_the_cost_of_a_visit_is_that_of_the_newest_trial_in_such_guests() -> None:
    def stored(name: str, mode: Any) -> Any:
        file = TrialFile(name=name, suite="tool", arms={}, guest=GuestFile(mode=mode))
        return SimpleNamespace(session=name, file=file)

    def record(block: int, arm: str, at_s: float) -> Any:
        place = TrialPlace(trial="t", protocol_sha256="", block=block, arm=arm, kernel_release=None, boot_id=None)
        return SimpleNamespace(trial=place, started_unix_ms=int(1000 * at_s))

    # Two guests at once take 40 s; the command was interrupted before the third block.
    runs = [record(block, arm, at_s) for block, at_s in ((1, 0), (2, 40), (3, 4000), (4, 4040)) for arm in "ab"]
    app = SimpleNamespace(
        trials=SimpleNamespace(all=lambda: [stored("kvm", "kvm"), stored("exact", "exact")]),
        run_store=SimpleNamespace(records=lambda session: runs if session == "exact" else []),
    )
    file = TrialFile(name="search", suite="tool", arms={"control": ArmFile()}, guest=GuestFile())
    assert guest_visit_seconds(app, file) == 20  # type: ignore[arg-type]
    other = TrialFile(name="search", suite="other", arms={}, guest=GuestFile())
    assert guest_visit_seconds(app, other) is None  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
"""What is held off while measuring, what may disturb it, and waiting for an idle machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ktrial.bench.around.around_run import Around
from ktrial.bench.around.idle import IdleWatch
from ktrial.bench.around.inhibit import Quieter
from ktrial.bench.benchmark import Invocation, RawOutput
from ktrial.bench.events import Event, Result, RunBegan, Waiting
from ktrial.bench.measure import MOST_REPEATS, measure
from ktrial.bench.record import RunRecord
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.bench.text import circumstances
from ktrial.kit.errors import Refused
from ktrial.machine.disturbance import Disturbance
from ktrial.machine.facts import FactBook
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeLoad, FakeStore, answer
from tests.support.machine import FakeMachine

Reply = Callable[[tuple[str, ...]], RawOutput]


class Held(FakeLoad):
    """An inhibitor that says why it ended, where it did."""

    def __init__(self, log: list[str], said: bytes) -> None:
        super().__init__(log, dies=bool(said), yaml=b"", spins=False)
        self._said = said

    def stop(self) -> RawOutput:
        self._log.append("inhibitor stops")
        return answer(b"", stderr=self._said)


class Desktop(FakeExecutor):
    """Has systemd; `refusal` is what systemd-inhibit says when it may not."""

    def __init__(
        self, timers: Any = (), *, refusal: bytes = b"", reply: Reply = lambda argv: answer(), **more: Any
    ) -> None:
        super().__init__(self._answer, **{"installed": ("tool", "systemd-inhibit", "systemctl", "loginctl"), **more})
        self.inhibitors: list[Invocation] = []
        self.timers: Any = timers
        self._refusal = refusal
        self._other = reply

    def start(self, invocation: Invocation) -> FakeLoad:
        self.log.append("inhibitor starts")
        self.inhibitors.append(invocation)
        return Held(self.log, self._refusal)

    def _answer(self, argv: tuple[str, ...]) -> RawOutput:
        if argv[0] == "systemctl":
            return self.timers if isinstance(self.timers, RawOutput) else answer(json.dumps(self.timers).encode())
        if argv[0] == "systemd-inhibit":
            why = next(word for word in self.inhibitors[-1].argv if word.startswith("--why="))
            return answer(
                b"ktrial 0 root 82 systemd-inhibit sleep:idle " + why.removeprefix("--why=").encode() + b" block"
            )
        return self._other(argv)


def timer(name: str, due_s: float | None) -> dict[str, Any]:
    return {"unit": name, "activates": "x.service", "next": None if due_s is None else int(due_s * 1e6)}


def bench(
    executor: FakeExecutor, *, rounds: int = 1, expected_s: float | None = None, idle: bool = False
) -> tuple[Result, tuple[RunRecord, ...], list[Event]]:
    task = Task(label="a", benchmark=FakeBenchmark(name="a", expected_s=expected_s), parameters={"loops": 10})
    order = Order(suite="own", tasks=(task,), rounds=rounds, seed=7)
    clock = FakeClock(10_000 if idle else 0)
    watch = IdleWatch(executor, clock) if idle else None
    around = Around(FakeMachine({}), clock, None, Quieter(executor, clock, lock_screen=idle), watch)
    events: list[Event] = []
    result, records = measure(order, executor, FakeStore(), clock, FactBook({}), events.append, around)
    return result, records, events


def test_sleep_and_lock_are_held_off_from_before_the_first_run_until_after_the_last() -> None:
    executor = Desktop()
    result, records, _ = bench(executor, rounds=2)
    runs = [line for line in executor.log if line.startswith(("inhibitor", "tool"))]
    assert runs == ["inhibitor starts", "tool a 10", "tool a 10", "inhibitor stops"]
    assert executor.inhibitors[0].argv[:3] == ("systemd-inhibit", "--what=sleep:idle", "--mode=block")
    assert result.session.held_off == records[0].session.held_off == ("sleep", "idle")


def test_an_interruption_lets_the_machine_sleep_again() -> None:
    def reply(argv: tuple[str, ...]) -> RawOutput:
        raise KeyboardInterrupt

    executor = Desktop(reply=reply)
    result, _, _ = bench(executor)
    assert result.interrupted
    assert executor.log[-1] == "inhibitor stops"


@pytest.mark.parametrize(
    "executor, why",
    [
        (Desktop(refusal=b"Failed to inhibit: Access denied\n"), "Failed to inhibit: Access denied"),
        (Desktop(installed=("tool", "systemctl")), "systemd-inhibit is not installed"),
    ],
)
def test_what_cannot_be_held_off_is_said(executor: Desktop, why: str) -> None:
    result, records, _ = bench(executor)
    assert result.session.held_off == ()
    assert f"could not inhibit sleep and screen lock: {why}" in result.session.notes
    assert records[0].ok


class Asked:
    """A desktop that keeps awake, or says why not."""

    def __init__(self, why: str | None) -> None:
        self.why = why
        self.log: list[str] = []

    def keep_awake(self, why: str) -> str | None:
        self.log.append(why)
        return self.why

    def release(self) -> None:
        self.log.append("released")


@pytest.mark.parametrize(
    "refusal, deaf, held, notes",
    [
        (b"", None, ("sleep", "idle"), ()),
        (b"", "deaf", ("sleep", "idle"), ("the desktop may still lock the screen (deaf)",)),
        (b"no", None, ("idle",), ("could not inhibit sleep: no",)),
        (
            b"no",
            "deaf",
            (),
            (
                "could not inhibit sleep and screen lock: no",
                "the desktop may still lock the screen (deaf)",
            ),
        ),
    ],
)
def test_the_desktop_is_asked_beside_systemd(
    refusal: bytes, deaf: str | None, held: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    desktop = Asked(deaf)
    quieter = Quieter(Desktop(refusal=refusal), FakeClock(), desktop=desktop)
    quiet = quieter.begin(1.0)
    assert (quiet.held_off, quiet.notes) == (held, notes)
    assert desktop.log == ["measurement"]
    quieter.end()
    assert desktop.log[-1] == "released"


def test_a_desktop_whose_idleness_is_waited_for_is_not_kept_awake() -> None:
    desktop = Asked(None)
    quieter = Quieter(Desktop(), FakeClock(), lock_screen=True, desktop=desktop)
    assert quieter.begin(1.0).held_off == ("sleep",)
    quieter.end()
    assert desktop.log == []


def test_timers_that_are_due_within_the_expected_time_are_named() -> None:
    timers = [
        timer("fstrim.timer", None),
        timer("late.timer", 500),
        timer("apt-daily.timer", 60),
        timer("past.timer", 1),
    ]
    result, _, _ = bench(Desktop(timers), rounds=2, expected_s=100.0)
    assert [one.name for one in result.session.disturbances] == ["past.timer", "apt-daily.timer"]
    found = result.session.disturbances[1]
    assert 40 < found.due_s <= 60
    assert found == Disturbance(name="apt-daily.timer", due_s=found.due_s, stop="sudo systemctl stop apt-daily.timer")
    text = circumstances(result.session, width=80)
    assert "may disturb: past.timer in 1 s\n  stop it with: sudo systemctl stop past.timer\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_of_unknown_length_the_next_hour_counts() -> None:
    result, _, _ = bench(Desktop([timer("a.timer", 3000), timer("b.timer", 4000)]))
    assert [one.name for one in result.session.disturbances] == ["a.timer"]


@pytest.mark.parametrize(
    "timers, why",
    [
        (answer(exit_status=1, stderr=b"Failed to connect to bus\n"), "Failed to connect to bus"),
        (answer(b"Unknown output 'json'."), "a list of timers"),
    ],
)
def test_timers_that_cannot_be_told_are_no_absence(timers: RawOutput, why: str) -> None:
    result, _, _ = bench(Desktop(timers))
    (note,) = [note for note in result.session.notes if note.startswith("cannot list timers")]
    assert why in note


SESSION = "Id=2\nName=alice\nType={}\nClass=user\nState=active\nIdleHint={}\nIdleSinceHint={}\n"


class Person:
    """Uses a session: the answers of logind, one after the other; the last one stays."""

    def __init__(self, *states: tuple[str, str, int]) -> None:
        self.states = list(states)

    def __call__(self, argv: tuple[str, ...]) -> RawOutput:
        if argv[:2] == ("loginctl", "list-sessions"):
            return answer(b"2 1000 alice seat0 tty2\n")
        if argv[:2] == ("loginctl", "show-session"):
            kind, idle, since_s = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return answer(SESSION.format(kind, idle, since_s * 1_000_000).encode())
        return answer()


BUSY, IDLE = ("wayland", "no", 0), ("wayland", "yes", 1)


def test_it_waits_until_the_desktop_is_idle() -> None:
    executor = Desktop(reply=Person(BUSY, BUSY, ("wayland", "yes", 10_000), IDLE))
    _, records, events = bench(executor, idle=True)
    waits = [event for event in events if isinstance(event, Waiting)]
    assert [event.used for event in waits] == ["session 2 (wayland) of alice"]
    assert type(events[1]) is Waiting
    assert [record.failure for record in records] == [None]
    assert executor.inhibitors[0].argv[1] == "--what=sleep"


def test_it_waits_until_other_programs_are_idle() -> None:
    used = ["about 40 % of the CPU time", "about 40 % of the CPU time", "about 20 % of the CPU time", None]
    told: list[str] = []
    watch = IdleWatch(Desktop(reply=Person(IDLE)), FakeClock(10_000), lambda: used.pop(0))
    watch.wait(told.append)
    assert told == ["about 40 % of the CPU time", "about 20 % of the CPU time"]
    assert used == []


def test_a_run_disturbed_by_input_is_kept_and_made_again() -> None:
    result, records, events = bench(Desktop(reply=Person(IDLE, BUSY, IDLE)), rounds=2, idle=True)
    assert [(record.run, record.round, record.repeated) for record in records] == [
        (1, 1, True),
        (2, 1, False),
        (3, 2, False),
    ]
    assert records[0].failure == "input during the run: session 2 (wayland) of alice"
    assert records[0].measurements == ()
    assert [(event.run, event.place, event.runs) for event in events if isinstance(event, RunBegan)] == [
        (1, 1, 2),
        (2, 1, 2),
        (3, 2, 2),
    ]
    assert (result.complete, result.summaries[0].n) == (1, 2)


def test_it_is_not_made_again_for_ever() -> None:
    states = [IDLE, BUSY] * (MOST_REPEATS + 1)
    result, records, _ = bench(Desktop(reply=Person(*states, IDLE)), idle=True)
    assert [record.repeated for record in records] == [True] * MOST_REPEATS + [False]
    assert result.holes[0].why.startswith("1 of 1 runs failed, the last: input during the run")


def test_a_press_of_ctrl_c_after_a_run_keeps_the_run() -> None:
    person = Person(IDLE)

    def reply(argv: tuple[str, ...]) -> RawOutput:
        if argv[0] == "tool":
            person.states = []
            return answer()
        if not person.states:
            return answer(interrupted=True)
        return person(argv)

    result, records, _ = bench(Desktop(reply=reply), rounds=3, idle=True)
    assert (result.interrupted, [record.ok for record in records]) == (True, [True])


def test_without_logind_terminals_tell() -> None:
    def reply(argv: tuple[str, ...]) -> RawOutput:
        return answer(b"9999.5 50.0 /dev/pts/0\n100.0 50.0 /dev/tty1\n") if argv[0] == "find" else answer(exit_status=1)

    watch = IdleWatch(Desktop(reply=reply), FakeClock(10_000))
    assert watch.last_input().of == "/dev/pts/0"
    assert watch.last_input().seconds < 5
    assert watch.disturbed(100.0) == "/dev/pts/0"


def test_where_nothing_tells_it_is_refused() -> None:
    executor = Desktop(reply=lambda argv: answer(exit_status=1, stderr=b"no\n"))
    with pytest.raises(Refused, match="cannot tell whether this machine is idle: `find` ended with status 1") as caught:
        bench(executor, idle=True)
    assert caught.value.hint == "leave out --when-idle"
    assert executor.log[-1] == "inhibitor stops"


def test_a_machine_without_terminals_shows_no_input() -> None:
    executor = Desktop(reply=lambda argv: answer(b"\n", exit_status=int(argv[0] != "find")))
    with pytest.raises(Refused, match="no session or terminal shows input"):
        IdleWatch(executor, FakeClock(10_000)).last_input()

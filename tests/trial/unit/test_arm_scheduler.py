# SPDX-License-Identifier: Apache-2.0
"""A sched_ext scheduler as an arm, on a machine made of memory whose scheduler can be ejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ktrial.bench.benchmark import Invocation, RawOutput
from ktrial.bench.run.undoable_command import EJECTED, ArmScheduler
from ktrial.kit.errors import Refused
from ktrial.machine.reading import Reading
from ktrial.trial.arms.arms import ArmLost
from ktrial.trial.arms.scheduler import OPS, SEQUENCE, STATE, SchedulerSeat
from tests.support.bench import FakeClock, FakeExecutor, FakeLoad
from tests.support.machine import FakeMachine

LAVD = ArmScheduler(argv=("/usr/bin/scx_lavd", "-v"), ops="lavd")


class Kernel(FakeMachine):
    """What sched_ext shows."""

    def __init__(self) -> None:
        super().__init__({STATE: "disabled\n", SEQUENCE: "0\n"})
        self.logged: list[str] = []

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """What it has logged, from a record on."""
        assert do == "kernel_log"
        some = list(enumerate(self.logged))[fields.get("from", len(self.logged)) :]
        log = "".join(f"3,{number},1000,-;{text}\n" for number, text in some)
        return {"log": log, "oldest": 0, "newest": len(self.logged) - 1, "truncated": False}

    def enable(self, name: str) -> None:
        self.files |= {STATE: "enabled\n", OPS: f"{name}\n", SEQUENCE: f"{int(str(self.files[SEQUENCE])) + 1}\n"}

    def disable(self) -> None:
        self.files[STATE] = "disabled\n"
        self.files.pop(OPS, None)


class Schedulers(FakeExecutor):
    """Each start brings one into force, unless it is broken; its end takes it away."""

    def __init__(self, kernel: Kernel, begin: Callable[[], None] | None = None, *, runs_as_root: bool = True) -> None:
        super().__init__(runs_as_root=runs_as_root)
        self.kernel = kernel
        self.begin = begin or (lambda: kernel.enable("lavd_1.0.6_x86_64_unknown_linux_gnu"))
        self.dies = False

    def start(self, invocation: Invocation) -> FakeLoad:
        self.log.append(" ".join(invocation.argv))
        self.begin()
        kernel = self.kernel

        class Scheduler(FakeLoad):
            def stop(self) -> RawOutput:
                kernel.disable()
                return RawOutput(exit_status=1, stderr=b"no BTF here")

        return Scheduler(self.log, dies=self.dies, yaml=b"", spins=False)


def seat(executor: Schedulers) -> SchedulerSeat:
    return SchedulerSeat(executor.kernel, executor, FakeClock())


def looked(executor: Schedulers) -> SchedulerSeat:
    seated = seat(executor)
    seated.look()
    return seated


def test_it_is_in_force_from_its_start_to_its_end() -> None:
    executor = Schedulers(Kernel())
    seated = seat(executor)
    assert seated.failed() is None
    seated.look()
    seated.start("case", LAVD)
    assert executor.log == ["/usr/bin/scx_lavd -v"]
    assert seated.failed() is None
    assert seated.drifted() == ()
    assert seated.stop() == LAVD
    seated.wait_until_gone(LAVD)
    assert executor.kernel.files[STATE] == "disabled\n"
    assert seated.failed() is None
    assert seated.stop() is None


def test_one_that_is_counted_after_it_was_called_enabled_is_not_taken_for_another() -> None:
    kernel = Kernel()
    reads = 0
    plain = kernel.read

    def read(paths: Sequence[str]) -> Mapping[str, Reading | None]:
        nonlocal reads
        reads += kernel.files[STATE] == "enabled\n"
        if reads == 4:
            kernel.files[SEQUENCE] = "1\n"
        return plain(paths)

    def enable_uncounted() -> None:
        kernel.enable("lavd")
        kernel.files[SEQUENCE] = "0\n"

    kernel.read = read  # type: ignore[method-assign]
    seated = seat(Schedulers(kernel, enable_uncounted))
    seated.look()
    seated.start("case", LAVD)
    assert reads >= 4
    assert seated.failed() is None


def test_one_that_was_ejected_is_named() -> None:
    executor = Schedulers(Kernel())
    seated = seat(executor)
    seated.look()
    seated.start("case", LAVD)
    executor.kernel.disable()
    assert seated.failed() == f"{EJECTED}: sched_ext shows disabled instead of lavd"
    executor.kernel.enable("rusty_1.0")
    assert seated.failed() == f"{EJECTED}: sched_ext shows enabled, rusty_1.0 instead of lavd"
    executor.kernel.enable("lavd_1.0.6")
    assert seated.failed() == f"{EJECTED}: another scheduler was in force meanwhile"


def test_one_whose_program_has_ended_is_lost() -> None:
    executor = Schedulers(Kernel())
    seated = seat(executor)
    executor.dies = True
    seated.look()
    seated.start("case", LAVD)
    assert (seated.failed() or "").startswith(f"{EJECTED}: /usr/bin/scx_lavd has ended")


def test_one_that_does_not_come_into_force_is_stopped_and_quoted() -> None:
    executor = Schedulers(Kernel(), lambda: None)
    executor.dies = True
    with pytest.raises(ArmLost, match=r"arm case .*: it ended with status 1; it said: no BTF here"):
        looked(executor).start("case", LAVD)
    executor = Schedulers(Kernel())
    executor.begin = lambda: executor.kernel.enable("rusty")
    with pytest.raises(ArmLost, match="sched_ext shows enabled, rusty after 60 s"):
        looked(executor).start("case", LAVD)


def test_another_one_in_arms_that_have_none_is_a_drift() -> None:
    executor = Schedulers(Kernel())
    executor.kernel.enable("flash")
    (drift,) = seat(executor).drifted()
    assert drift.sentence == f"sched_ext ({STATE}) reads 'enabled: flash' instead of 'disabled'"


def test_what_cannot_be_is_refused_before_the_first_run() -> None:
    seat(Schedulers(Kernel())).refuse_another(needs_root=True)
    with pytest.raises(Refused, match="needs root"):
        seat(Schedulers(Kernel(), runs_as_root=False)).refuse_another(needs_root=True)
    seat(Schedulers(Kernel(), runs_as_root=False)).refuse_another(needs_root=False)
    used = Schedulers(Kernel())
    used.kernel.enable("flash")
    with pytest.raises(Refused, match="in force already: enabled, flash"):
        seat(used).refuse_another(needs_root=True)
    old = Schedulers(Kernel())
    del old.kernel.files[STATE]
    with pytest.raises(Refused, match="no sched_ext"):
        seat(old).refuse_another(needs_root=True)


def test_the_kernels_reason_for_an_ejection_is_quoted() -> None:
    executor = Schedulers(Kernel())
    executor.kernel.logged = ['sched_ext: BPF scheduler "lavd" disabled (of another time)']
    seated = looked(executor)
    seated.start("case", LAVD)
    executor.kernel.logged += [
        'sched_ext: BPF scheduler "lavd" enabled',
        'sched_ext: BPF scheduler "lavd" disabled (runnable task stall)',
        "sched_ext: lavd: kworker/0:1[11] failed to run for 3.780s",
        "   scx_watchdog_workfn+0x18e/0x240",
    ]
    executor.kernel.disable()
    assert seated.failed() == (
        f"{EJECTED}: sched_ext shows disabled instead of lavd; the kernel says: sched_ext: BPF scheduler "
        '"lavd" disabled (runnable task stall); sched_ext: lavd: kworker/0:1[11] failed to run for 3.780s'
    )


def test_one_that_is_ejected_at_its_start_has_failed_and_ends_no_trial() -> None:
    executor = Schedulers(Kernel())

    def begin() -> None:
        executor.kernel.enable("lavd")
        executor.kernel.disable()

    executor.begin = begin
    seated = looked(executor)
    seated.start("case", LAVD)
    assert (seated.failed() or "").startswith(f"{EJECTED}: sched_ext shows disabled instead of lavd")


def test_one_that_a_command_starts_is_watched_only() -> None:
    executor = Schedulers(Kernel(), runs_as_root=False)
    of_loader = ArmScheduler(argv=(), ops="lavd")
    seated = looked(executor)
    executor.kernel.enable("lavd_1.0")
    seated.start("case", of_loader)
    assert executor.log == []
    assert seated.failed() is None
    executor.kernel.disable()
    executor.kernel.enable("lavd_1.0")
    assert seated.failed() == f"{EJECTED}: another scheduler was in force meanwhile"
    assert seated.stop() == of_loader
    with pytest.raises(ArmLost, match=r"sched_ext still shows enabled, lavd_1\.0"):
        seated.wait_until_gone(of_loader)
    executor.kernel.disable()
    seated.wait_until_gone(of_loader)
    with pytest.raises(ArmLost, match=r"lavd: sched_ext shows disabled after 60 s"):
        looked(executor).start("case", of_loader)


def test_one_that_worked_once_and_does_not_start_again_has_failed() -> None:
    executor = Schedulers(Kernel())
    seated = looked(executor)
    seated.start("case", LAVD)
    seated.stop()
    executor.begin = lambda: None
    seated.look()
    seated.start("case", LAVD)
    why = "/usr/bin/scx_lavd did not start again: sched_ext shows disabled after 60 s"
    assert (seated.failed() or "").startswith(f"{EJECTED}: {why}")
    seated.stop()
    assert seated.failed() is None

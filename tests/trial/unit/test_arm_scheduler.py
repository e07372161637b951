# SPDX-License-Identifier: Apache-2.0
"""A sched_ext scheduler as an arm, on a machine made of memory whose scheduler can be ejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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


def test_it_is_in_force_from_its_start_to_its_end() -> None:
    executor = Schedulers(Kernel())
    seated = seat(executor)
    assert seated.failed() is None
    seated.start("case", LAVD)
    assert executor.log == ["/usr/bin/scx_lavd -v"]
    assert seated.failed() is None
    assert seated.drifted() == ()
    seated.stop()
    assert executor.kernel.files[STATE] == "disabled\n"
    assert seated.failed() is None
    seated.stop()


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
    seated.start("case", LAVD)
    assert reads >= 4
    assert seated.failed() is None


def test_one_that_was_ejected_is_named() -> None:
    executor = Schedulers(Kernel())
    seated = seat(executor)
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
    seated.start("case", LAVD)
    assert (seated.failed() or "").startswith(f"{EJECTED}: /usr/bin/scx_lavd has ended")


def test_one_that_does_not_come_into_force_is_stopped_and_quoted() -> None:
    executor = Schedulers(Kernel(), lambda: None)
    executor.dies = True
    with pytest.raises(ArmLost, match=r"arm case .*: it ended with status 1; it said: no BTF here"):
        seat(executor).start("case", LAVD)
    executor = Schedulers(Kernel())
    executor.begin = lambda: executor.kernel.enable("rusty")
    with pytest.raises(ArmLost, match="sched_ext shows enabled, rusty after 15 s"):
        seat(executor).start("case", LAVD)


def test_another_one_in_arms_that_have_none_is_a_drift() -> None:
    executor = Schedulers(Kernel())
    executor.kernel.enable("flash")
    (drift,) = seat(executor).drifted()
    assert drift.sentence == f"sched_ext ({STATE}) reads 'enabled: flash' instead of 'disabled'"


def test_what_cannot_be_is_refused_before_the_first_run() -> None:
    seat(Schedulers(Kernel())).refuse_another()
    with pytest.raises(Refused, match="needs root"):
        seat(Schedulers(Kernel(), runs_as_root=False)).refuse_another()
    used = Schedulers(Kernel())
    used.kernel.enable("flash")
    with pytest.raises(Refused, match="in force already: flash"):
        seat(used).refuse_another()
    old = Schedulers(Kernel())
    del old.kernel.files[STATE]
    with pytest.raises(Refused, match="no sched_ext"):
        seat(old).refuse_another()

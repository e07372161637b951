# SPDX-License-Identifier: Apache-2.0
"""Arms of commands: undone whenever they are left, and by whoever comes next when the head was killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ktrial.bench.benchmark import Invocation, RawOutput
from ktrial.bench.record import Execution, Watch
from ktrial.bench.run.command_journal import CommandJournalFile
from ktrial.bench.run.undoable_command import ArmCheck, ArmCommand, ArmExtras
from ktrial.kit.errors import Refused
from ktrial.trial.arms.arms import ArmLost
from ktrial.trial.arms.commands import Beside, CommandedArms, refuse_what_holds_already, undo_left
from tests.support.bench import FakeExecutor, answer
from tests.support.trial_course import FOUND, SWAPPINESS, Killed, Life, TunableMachine, plan_of


class Flags(FakeExecutor):
    """`set F`, `unset F` and `is F` on flags that outlive the head, which may die before and after each."""

    def __init__(self) -> None:
        super().__init__(self._carry)
        self.flags: set[str] = set()
        self.broken: set[str] = set()
        self.life = Life()

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        self.life.step()
        done = super().run(invocation, watch)
        self.life.step()
        return done

    def _carry(self, argv: tuple[str, ...]) -> RawOutput:
        do, flag = argv
        if do == "is":
            return answer(exit_status=0 if flag in self.flags else 1)
        if do == "stop":
            raise KeyboardInterrupt
        (self.flags.add if do == "set" else self.flags.discard)(flag)
        return answer(stderr=b"no such thing", exit_status=1 if argv == ("set", "never") or do in self.broken else 0)


def commands(*flags: str) -> ArmExtras:
    return ArmExtras(
        commands=tuple(ArmCommand(run=("set", flag), undo=("unset", flag)) for flag in flags),
        checks=tuple(ArmCheck(argv=("is", flag)) for flag in flags),
    )


class World:
    """A machine with a knob and flags; `case` sets both."""

    def __init__(self, folder: Path, extras: Mapping[str, ArmExtras] | None = None) -> None:
        self.flags = Flags()
        self.machine = TunableMachine(FOUND)
        self.journal = CommandJournalFile(folder)
        self.extras = {"case": commands("a", "b")} if extras is None else extras

    def arms(self) -> CommandedArms:
        plans = {"case": plan_of(SWAPPINESS, "vm.swappiness", "10")}
        beside = Beside("trial", self.extras, self.flags, self.journal)
        return CommandedArms(self.machine, plans, lambda *_: None, beside)


def test_commands_come_after_settings_and_are_undone_before_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    arms = world.arms()
    arms.enter("control")
    arms.enter("case")
    arms.enter("case")
    assert world.flags.flags == {"a", "b"}
    assert world.machine.files[SWAPPINESS] == "10\n"
    assert [one.arm for one in world.journal.left()] == ["case", "case"]
    assert arms.drifted() == ()
    arms.enter("control")
    assert world.flags.log == ["set a", "set b", "is a", "is b", "unset b", "unset a"]
    assert world.machine.files == FOUND
    assert world.journal.left() == ()


def test_commands_that_both_arms_have_stay_in_force(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": commands("a"), "two": commands("a"), "three": commands("b")})
    arms = world.arms()
    made = []
    for arm in ("one", "two", "one", "three", "one"):
        arms.enter(arm)
        made.append(arms.change)
    arms.leave()
    assert [one == made[0] for one in made] == [True, True, True, False, True]
    assert arms.change is None
    assert world.flags.log == ["set a", "unset a", "set b", "unset b", "set a", "unset a"]
    assert world.journal.left() == ()


def test_commands_do_not_stay_under_settings_that_change(tmp_path: Path) -> None:
    world = World(tmp_path, {"control": commands("a"), "case": commands("a")})
    arms = world.arms()
    for arm in ("control", "case", "control"):
        arms.enter(arm)
    assert world.flags.log == ["set a", "unset a", "set a", "unset a", "set a"]


def test_what_a_command_brought_about_must_stay(tmp_path: Path) -> None:
    world = World(tmp_path)
    arms = world.arms()
    arms.enter("case")
    world.flags.flags.remove("b")
    (drift,) = arms.drifted()
    assert arms.told(drift) == "`is b` has status 1 instead of 0"


def test_one_that_fails_is_undone_and_named(tmp_path: Path) -> None:
    world = World(tmp_path, {"case": commands("a", "never")})
    arms = world.arms()
    with pytest.raises(ArmLost, match="`set never` ended with status 1"):
        arms.enter("case")
    arms.leave()
    assert world.flags.flags == set()
    assert world.journal.left() == ()
    assert world.machine.files == FOUND


def test_one_that_cannot_be_undone_is_named_and_the_rest_is_undone(tmp_path: Path) -> None:
    stubborn = ArmCommand(run=("set", "x"), undo=("fail", "x"))
    world = World(tmp_path, {"case": ArmExtras(commands=(*commands("a").commands, stubborn))})
    world.flags.broken = {"fail"}
    arms = world.arms()
    arms.enter("case")
    with pytest.raises(ArmLost, match=r"cannot undo `set x`: `fail x` ended with status 1") as caught:
        arms.leave()
    assert "a" not in world.flags.flags
    assert world.machine.files == FOUND
    assert [one.command.text for one in world.journal.left()] == ["set x"]
    assert world.journal.where in (caught.value.hint or "")
    with pytest.raises(ArmLost):
        undo_left(world.journal, world.flags, lambda _: None)
    world.flags.broken = set()
    told: list[str] = []
    assert undo_left(world.journal, world.flags, told.append) == 1
    assert told == ["trial trial was interrupted in arm case; undoing this arm: fail x"]
    assert world.journal.left() == ()


def test_ctrl_c_while_one_runs_undoes_it(tmp_path: Path) -> None:
    world = World(tmp_path, {"case": ArmExtras(commands=(ArmCommand(run=("stop", "x"), undo=("unset", "x")),))})
    arms = world.arms()
    with pytest.raises(KeyboardInterrupt):
        arms.enter("case")
    arms.leave()
    assert world.flags.log[-1] == "unset x"
    assert world.journal.left() == ()


def test_killed_at_any_step_the_next_one_undoes_what_was_left(tmp_path: Path) -> None:
    survived = False
    for last in range(40):
        world = World(tmp_path)
        world.flags.life = world.machine.life = Life(last)
        arms = world.arms()
        try:
            for arm in ("control", "case", "control", "case"):
                arms.enter(arm)
                arms.drifted()
            arms.leave()
            survived = True
        except Killed:
            assert not survived
        world.flags.life = world.machine.life = Life()
        world.machine.end_session()
        undo_left(CommandJournalFile(tmp_path), world.flags, lambda _: None)
        assert world.flags.flags == set(), last
        assert world.machine.files == FOUND
        assert world.journal.left() == ()
    assert survived, "the last of them was not cut off"


def test_a_check_that_holds_before_its_command_tells_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    refuse_what_holds_already(world.extras, world.flags)
    world.flags.flags.add("b")
    with pytest.raises(Refused, match="arm case: the check `is b` passes before any command has run"):
        refuse_what_holds_already(world.extras, world.flags)

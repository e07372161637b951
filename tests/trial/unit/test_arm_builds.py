# SPDX-License-Identifier: Apache-2.0
"""What an arm measures is made anew for each visit, and stays the same file up to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.bench.benchmark import RawOutput
from ktrial.bench.run.built_file import SeenFile
from ktrial.bench.run.command_journal import CommandJournalFile
from ktrial.bench.run.undoable_command import ArmBuild, ArmExtras
from ktrial.trial.arms.arms import ArmLost
from ktrial.trial.arms.commands import Beside, BuildSite, CommandedArms
from tests.support.bench import FakeExecutor, answer
from tests.support.trial_course import FOUND, SWAPPINESS, TunableMachine, plan_of

BUILD = ArmBuild(argv=("make",), artefact="/p/prog", environment={"PATH": "/bin"}, directory="/p")


class Workshop:
    """`make` writes the file, with the number of the build in it; `true` leaves it, `false` fails."""

    def __init__(self) -> None:
        self.file: SeenFile | None = None
        self.executor = FakeExecutor(self._carry)
        self.site = BuildSite(self.executor, lambda path: self.file)

    def _carry(self, argv: tuple[str, ...]) -> RawOutput:
        if argv == ("interrupted",):
            raise KeyboardInterrupt
        if argv == ("make",):
            number = self.executor.invocations[-1].environment["KTRIAL_BUILD"]
            self.write(f"bytes {number}")
        return answer(exit_status=1 if argv == ("false",) else 0, stderr=b"no rule")

    def write(self, content: str) -> None:
        written = 0 if self.file is None else self.file.written[0]
        self.file = SeenFile(sha256=content, written=(written + 1, 0, 0))

    def make(self, *argv: str) -> None:
        self.site.make("case", ArmBuild(argv=argv, artefact="/p/prog"), 1)


def test_a_build_gets_its_number_and_tells_its_bytes() -> None:
    shop = Workshop()
    built = shop.site.make("case", BUILD, 12)
    assert (built.artefact, built.sha256) == ("/p/prog", "bytes 12")
    (invocation,) = shop.executor.invocations
    assert invocation.environment == {"PATH": "/bin", "KTRIAL_BUILD": "12"}
    assert invocation.directory == "/p"
    assert shop.site.make("case", BUILD, 12).sha256 == "bytes 12"  # a build that varies by nothing else


def test_what_is_no_new_build_ends_the_trial() -> None:
    shop = Workshop()
    with pytest.raises(ArmLost, match=r"`true` left no readable file /p/prog"):
        shop.make("true")
    shop.make("make")
    with pytest.raises(ArmLost, match=r"cannot measure a new build of arm [^:]*: `true` left /p/prog unchanged"):
        shop.make("true")
    with pytest.raises(ArmLost, match=r"cannot build arm case: `false` ended with status 1.*no rule"):
        shop.make("false")
    with pytest.raises(KeyboardInterrupt):
        shop.make("interrupted")


def test_a_file_that_others_change_during_the_visit_is_told() -> None:
    shop = Workshop()
    assert shop.site.drifted() == ()
    shop.make("make")
    assert shop.site.drifted() == ()
    shop.write("bytes of others")
    (drift,) = shop.site.drifted()
    assert drift.sentence == "the built file (/p/prog) reads 'SHA-256 bytes of oth' instead of 'SHA-256 bytes 1'"
    shop.file = None
    assert "is gone" in shop.site.drifted()[0].sentence


def test_it_is_built_on_the_machine_as_it_is_found(tmp_path: Path) -> None:
    shop = Workshop()
    machine = TunableMachine(FOUND)
    plans = {"case": plan_of(SWAPPINESS, "vm.swappiness", "10")}
    beside = Beside("t", {"case": ArmExtras(build=BUILD)}, shop.executor, CommandJournalFile(tmp_path), site=shop.site)
    arms = CommandedArms(machine, plans, lambda *_: None, beside)
    assert arms.renew("control", 1) is None
    arms.enter("case")
    assert machine.files[SWAPPINESS] == "10\n"
    built = arms.renew("case", 2)
    assert built is not None
    assert built.sha256 == "bytes 2"
    assert machine.files == FOUND
    assert arms.enter("case") == ()
    shop.write("other")
    assert [drift.path for drift in arms.drifted()] == ["/p/prog"]

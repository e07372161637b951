# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.trial.arms.manual import Due
from ktrial.trial.outcome.text import announcement, due_text
from ktrial.trial.record import ArmSettings
from tests.support.trials import protocol

DUE = Due(
    trial="kernels-ab12",
    block=3,
    arm="swap",
    visit=2,
    visits=3,
    place="control",
    instruction="boot the stock kernel",
    expect={"kernel.release": "6.18", "cpu.smt": True, "kernel.scheduler_version": ""},
    confirm=True,
    new_boot=True,
)


def test_a_person_reads_what_to_do_and_what_to_type() -> None:
    assert due_text(DUE, ["bore in block 3, 2 runs"], "not so yet", width=100) == (
        "done      bore in block 3, 2 runs\n"
        "due       swap, with the machine as control: block 3, visit 2 of 3\n"
        "do        boot, as each visit needs its own boot: boot the stock kernel\n"
        "shown by  kernel.release = 6.18, cpu.smt = true, kernel.scheduler_version = missing\n"
        "now       not so yet\n"
        "then      ktrial trial next kernels-ab12 --done control\n"
    )


def test_what_an_instruction_holds_cannot_move_the_cursor() -> None:
    found = due_text(
        Due(**{name: getattr(DUE, name) for name in DUE.__struct_fields__} | {"instruction": "\x1b[2Jdo it"}),
        (),
        None,
        width=100,
    )
    assert "\x1b" not in found


def test_the_announcement_says_what_is_done_by_hand_and_that_visits_are_boots() -> None:
    arms = {"control": ArmSettings(), "case": ArmSettings(manual="boot it")}
    told = announcement(protocol(replicate="boot"), arms, (), 0.0, width=100)
    assert "by hand = boot it" in told
    assert "at most 20 blocks of 2 boots in random order" in told

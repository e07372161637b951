# SPDX-License-Identifier: Apache-2.0
"""Names describe a thing or an action; a participle alone (`told`, `kept`, `found`) describes neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ktrial"
PARTICIPLES = """
told kept found asked wanted brought said made seen given done taken shown known begun held left named counted
written placed joined chosen drawn built booted bisected verified hashed linked published rechecked judged started
ended handed passed carried moved changed meant sent heard typed stripped escaped cleaned paired cut sorted printed
answered measured spelled listed added tagged encoded decoded
"""
#: Events of a listener (`seen`), states (`known`, `ended`), and members of a set (`judged`).
EXCEPTIONS = """
AnswerTransport.answered Arms.told Build.asked Bundle.shown CaptureFolder.found Captures.found CommandJournal.left
CommandJournalFile.left Configured.asked Detached.answered Diagnosis.named EventCheck.shown EventCheck.told Fact.known
FilePatch.added GameThere.found GuestProgram.ended Held HeldProgram.ended ImportOptions.given InGuests.changed
OnLiveWork.changed
KeptFrames.ended KeptFrames.handed KeptFrames.seen KernelChange.told Kernels.built LivePicture.ended LivePicture.handed
LivePicture.seen LiveWatch.handed LiveWatch.seen Looks.ended Looks.handed Looks.seen Make.told Order.wanted
OutcomeComparison.judged OwnPackaging.left OwnPackaging.told PipeTransport.answered Replay.booted
ReplayedTransport.answered SafetyLimits.passed Screened.named Shows.handed Shows.seen Standing.drawn Store.shown
StoredTrials.named Target.wanted ToolBuilder.built TrialKeeper.named TrialPace.built TuneReceipt.kept Venue.changed
VisitTurn.found WatchShown.ended WatchShown.handed WatchShown.seen WatchThread.handed WatchThread.seen
WatchedProgram.ended Workshop.built _Asked _Begun _Here.changed _Pace.done _Pace.ended _Packing.left _ShellReader.found
_escaped _typed cleaned
"""


def names() -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        yield f"{path.relative_to(SOURCE).with_suffix('')}:"
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            if isinstance(node, ast.ClassDef):
                yield from (f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef))


def is_bare(name: str) -> bool:
    last = name.rstrip(":").rpartition("/")[2].rpartition(".")[2]
    return last.lstrip("_").lower() in PARTICIPLES.split()


def test_no_name_is_a_bare_participle() -> None:
    assert {name for name in names() if is_bare(name)} == set(EXCEPTIONS.split())

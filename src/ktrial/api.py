# SPDX-License-Identifier: Apache-2.0
"""ktrial as a library: judge a trial, compare runs, plan a trial, and read and write ktrial's files.

    from ktrial import api

    answer = api.compare({"stock": [10.1, 10.3, ...], "tuned": [9.7, 9.8, ...]}, direction="lower")
    for contrast in answer.contrasts:
        print(contrast.arm, contrast.verdict, contrast.why)

Every error is a `KtrialError`; a bad input raises `BadInput`. No function writes a file, opens a store or needs root.
Numbers are in base units (seconds, bytes). The first judgement loads numpy and SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import TrialLog
from ktrial.judge.model.log import decode as _decode_log
from ktrial.judge.model.log import encode as _encode_log
from ktrial.judge.model.query import ImportOptions
from ktrial.judge.model.question import Answer, Observation, Question
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction
from ktrial.results.foreign import ForeignResults

__all__ = [
    "Answer",
    "BadInput",
    "Comparison",
    "Contrast",
    "Finding",
    "ForeignResults",
    "ImportOptions",
    "Judgement",
    "KtrialError",
    "OutcomeComparison",
    "TrialLog",
    "audit",
    "blocks_needed",
    "compare",
    "compare_files",
    "comparison_text",
    "judge",
    "read_comparison",
    "read_log",
    "read_results",
    "write_comparison",
    "write_log",
]


def read_log(data: bytes, name: str = "log") -> TrialLog:
    """Return the log of a trial from its JSON lines; errors call it `name`."""
    return _decode_log(data, name)


def write_log(log: TrialLog) -> bytes:
    """Return the JSON lines that `read_log` reads."""
    return _encode_log(log)


def judge(log: TrialLog) -> Judgement:
    """Judge the runs of a trial by its own protocol. Return verdicts, open questions and the next step."""
    from ktrial.judge.judge import judge as by_protocol

    return by_protocol(log)


def audit(log: TrialLog) -> tuple[Finding, ...]:
    """Return the contradictions in a log, such as orders that do not follow from its seed."""
    from ktrial.judge.audit import audit as audit_log

    return audit_log(log)


def blocks_needed(differences: Sequence[float], effect: float) -> int:
    """Return how many blocks it takes to detect `effect` (0.02 is 2 %), given the log differences of earlier blocks."""
    from ktrial.judge.planning import block_sd, blocks_to_detect

    return blocks_to_detect(block_sd(differences), effect)


def compare(
    arms: Mapping[str, Sequence[float]],
    *,
    direction: Direction | None,
    control: str | None = None,
    margin: float = 0.02,
    order: Sequence[str] | None = None,
    blocks: Mapping[str, Sequence[str]] | None = None,
) -> Answer:
    """Compare the values of one outcome. The first arm is the control unless `control` names another.

    `order` names the arm of each run, in the order of measurement. `blocks` names, for each value, what it shares with
    runs of other arms, such as a round or a host. Without `order` or `blocks` no verdict is stronger than `different`.
    Differences within `margin` do not matter.
    """
    from ktrial.judge.observational import judge_foreign

    names = list(arms)
    if len(names) < 2:
        raise BadInput(f"expected at least two arms, got {len(names)}", hint="give the values of two or more arms")
    first = names[0] if control is None else control
    if first not in arms:
        raise BadInput(f"control: unknown arm {first!r}", hint=f"use one of: {', '.join(names)}")
    places = _places(arms, order)
    question = Question(
        name="value",
        direction=direction,
        arms={arm: tuple(_observations(arm, arms[arm], places[arm], blocks)) for arm in names},
        control=first,
        margin=margin,
    )
    (answer,) = judge_foreign([question])
    return answer


def _places(arms: Mapping[str, Sequence[float]], order: Sequence[str] | None) -> dict[str, list[int | None]]:
    """Return the position in `order` of each value, by arm; without `order`, None for each value."""
    if order is None:
        return {arm: [None] * len(values) for arm, values in arms.items()}
    places: dict[str, list[int | None]] = {arm: [] for arm in arms}
    for place, arm in enumerate(order, 1):
        if arm not in places:
            raise BadInput(f"order: unknown arm {arm!r} at position {place}", hint=f"use one of: {', '.join(arms)}")
        places[arm].append(place)
    for arm, values in arms.items():
        if len(places[arm]) != len(values):
            raise BadInput(
                f"order: expected {arm!r} {len(values)} times, got {len(places[arm])}",
                hint="write an arm's name once for each of its values",
            )
    return places


def _observations(
    arm: str, values: Sequence[float], places: Sequence[int | None], blocks: Mapping[str, Sequence[str]] | None
) -> list[Observation]:
    of_arm = [None] * len(values) if blocks is None else list(blocks.get(arm, ()))
    if len(of_arm) != len(values):
        raise BadInput(
            f"blocks: expected {len(values)} names for {arm!r}, got {len(of_arm)}", hint="name the block of each value"
        )
    if wrong := [value for value in values if not math.isfinite(value)]:
        raise BadInput(f"{arm}: expected a finite number, got {wrong[0]}", hint="leave out missing values")
    return [
        Observation(value=float(value), place=place, block=block)
        for value, place, block in zip(values, places, of_arm, strict=True)
    ]


def read_results(
    data: bytes, name: str, *, as_format: str | None = None, options: ImportOptions | None = None
) -> ForeignResults:
    """Return the runs in a result file of any format that `ktrial import` reads."""
    from ktrial.results.import_file import ForeignFile, ImportRequest
    from ktrial.results.import_file import read_results as read
    from ktrial.results.importers import all_importers

    return read(
        ForeignFile(name, data), ImportRequest(options=options or ImportOptions(), as_format=as_format), all_importers()
    )


def compare_files(
    arms: Mapping[str, Sequence[Path]],
    *,
    control: str | None = None,
    margin: float | None = None,
    as_format: str | None = None,
    options: ImportOptions | None = None,
) -> Comparison:
    """Compare every outcome that the arms' files have in common, as `ktrial compare NAME=FILE…` does."""
    from ktrial.compare.compare import About, CompareQuery
    from ktrial.compare.compare import compare as compared
    from ktrial.compare.sources import ComparedSource, ReadingOptions, gather, pick_control
    from ktrial.judge.observational import judge_foreign
    from ktrial.kit.files import read_file
    from ktrial.results.import_file import LIMIT_BYTES
    from ktrial.results.importers import all_importers

    reading = ReadingOptions(
        options=options or ImportOptions(),
        as_format=as_format,
        importers=all_importers(),
        read=lambda path: read_file(Path(path), LIMIT_BYTES),
    )
    sources = [
        ComparedSource(word=name, name=name, target=name, files=tuple(map(str, files))) for name, files in arms.items()
    ]
    first, others = pick_control(gather(sources, _no_store, reading).arms, control)
    return compared(first, others, CompareQuery(margin=margin), About(), judge_foreign)


def _no_store() -> NoReturn:
    raise BadInput("an arm has no file", hint="name at least one file for each arm")


def comparison_text(comparison: Comparison, width: int = 80) -> str:
    """Return the text that `ktrial compare` prints."""
    from ktrial.reports.terminal import comparison_text as text_of

    return text_of(comparison, width=width)


def read_comparison(data: bytes, name: str = "comparison") -> Comparison:
    """Return a comparison from the JSON of `ktrial compare --json`; errors call it `name`."""
    from ktrial.compare.files import decode_comparison

    return decode_comparison(data, name)


def write_comparison(comparison: Comparison) -> bytes:
    """Return the JSON that `read_comparison` reads."""
    from ktrial.compare.files import as_json

    return as_json(comparison)

# SPDX-License-Identifier: Apache-2.0
"""ktrial as a library: judge a trial, compare runs, plan a trial, and read and write what ktrial keeps.

    from ktrial import api

    answer = api.compare({"stock": [10.1, 10.3, ...], "tuned": [9.7, 9.8, ...]}, direction="lower")
    for contrast in answer.contrasts:
        print(contrast.arm, contrast.verdict, contrast.why)

All errors are `KtrialError`; what is wrong with an input is `BadInput`. Nothing here writes a file, opens a store or
needs root, and numbers are in base units: seconds, bytes. numpy and SciPy load with the first judgement.
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
    """Return the log of a trial, from its lines of JSON; `name` is what errors call it."""
    return _decode_log(data, name)


def write_log(log: TrialLog) -> bytes:
    """Return the same lines again."""
    return _encode_log(log)


def judge(log: TrialLog) -> Judgement:
    """Return what the runs of a trial say by its own protocol: verdicts, what is open, and what comes next."""
    from ktrial.judge.judge import judge as by_protocol

    return by_protocol(log)


def audit(log: TrialLog) -> tuple[Finding, ...]:
    """Return what a log contradicts in itself: orders that its seed does not give, looks that its runs do not give."""
    from ktrial.judge.audit import audit as found_in

    return found_in(log)


def blocks_needed(differences: Sequence[float], effect: float) -> int:
    """How many blocks a trial needs to see an effect (0.02 is 2 %), where the blocks so far differed by these logs."""
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
    """Return what the values of one outcome support. The first arm is the control unless one is named.

    `order` names the arm of each run in the order of measuring; without it no difference is more than `different`.
    `blocks` names for each value what it shares with runs of other arms: a round, a host. A difference within `margin`
    does not matter.
    """
    from ktrial.judge.observational import judge_foreign

    names = list(arms)
    if len(names) < 2:
        raise BadInput(f"a comparison needs two arms, and there are {len(names)}")
    first = names[0] if control is None else control
    if first not in arms:
        raise BadInput(f"there is no arm {first!r}", hint=f"arms: {', '.join(names)}")
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
    """Return the place of each value of each arm."""
    if order is None:
        return {arm: [None] * len(values) for arm, values in arms.items()}
    found: dict[str, list[int | None]] = {arm: [] for arm in arms}
    for place, arm in enumerate(order, 1):
        if arm not in found:
            raise BadInput(f"order: place {place} is of {arm!r}, which is not an arm", hint=f"arms: {', '.join(arms)}")
        found[arm].append(place)
    for arm, values in arms.items():
        if len(found[arm]) != len(values):
            raise BadInput(f"order has {len(found[arm])} places of {arm}, which has {len(values)} values")
    return found


def _observations(
    arm: str, values: Sequence[float], places: Sequence[int | None], blocks: Mapping[str, Sequence[str]] | None
) -> list[Observation]:
    of_arm = [None] * len(values) if blocks is None else list(blocks.get(arm, ()))
    if len(of_arm) != len(values):
        raise BadInput(f"blocks has {len(of_arm)} of {arm}, which has {len(values)} values")
    if wrong := [value for value in values if not math.isfinite(value)]:
        raise BadInput(f"{arm} holds {wrong[0]}, which is not a finite number")
    found = zip(values, places, of_arm, strict=True)
    return [Observation(value=float(value), place=place, block=block) for value, place, block in found]


def read_results(
    data: bytes, name: str, *, as_format: str | None = None, options: ImportOptions | None = None
) -> ForeignResults:
    """Return the runs of a result file of any format that `ktrial import` reads."""
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
    """Return what `ktrial compare NAME=FILE…` finds: every outcome that the files of the arms share."""
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
    raise BadInput("an arm has no file", hint="name at least one for each")


def comparison_text(comparison: Comparison, width: int = 80) -> str:
    """Return a comparison as `ktrial compare` prints it."""
    from ktrial.reports.terminal import comparison_text as text_of

    return text_of(comparison, width=width)


def read_comparison(data: bytes, name: str = "comparison") -> Comparison:
    """Return a comparison from the JSON of `ktrial compare --json`; `name` is what errors call it."""
    from ktrial.compare.files import decode_comparison

    return decode_comparison(data, name)


def write_comparison(comparison: Comparison) -> bytes:
    """Return the same JSON again."""
    from ktrial.compare.files import as_json

    return as_json(comparison)

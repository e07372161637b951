# SPDX-License-Identifier: Apache-2.0
"""MangoHud's logs: one run with the frame statistics that `ktrial frames` computes."""

from __future__ import annotations

import re

from msgspec import UNSET

from ktrial.judge.model.query import ImportOptions
from ktrial.recordings.frames.mangohud import SampledLog, is_mangohud, read_mangohud
from ktrial.recordings.frames.statistics import BELOW_FPS, FRAME_OUTCOMES, frame_statistics
from ktrial.results.foreign import ForeignResults, ForeignRun, slug, stem
from ktrial.results.importers._shared import framed, group_of, sampled_run

NAME = "mangohud"
WHAT = "Frame logs of MangoHud (CSV, one row per frame); a sampled log gives only the mean."
TAKES_FRAMES = True
_STAMP = re.compile(r"_(\d{4}-\d\d-\d\d)_(\d\d)-(\d\d)-(\d\d)$")


def sniff(head: bytes, name: str) -> bool:
    return is_mangohud(head)


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return one run. A sampled log has only a mean.

    If the file's name has MangoHud's form, a program and a date, the program is the benchmark.
    """
    base = stem(name)
    benchmark = slug(_STAMP.sub("", base)) if _STAMP.search(base) else NAME
    try:
        log = read_mangohud(data, name)
    except SampledLog as sampled:
        return sampled_run(sampled.samples, NAME, name, benchmark, options, **_began(name))
    limit = {} if options.below_fps is UNSET else {"below_fps": options.below_fps}
    statistics = frame_statistics(log.frame_times_s, limit.get("below_fps", BELOW_FPS))
    version = {"mangohud": log.version} if log.version is not None else {}
    whole = ForeignRun(
        group=group_of(options.label, name),
        benchmark=benchmark,
        number=1,
        measurements=framed(statistics.measurements, FRAME_OUTCOMES),
        attributes={
            **log.system,
            **version,
            **_began(name),
            "frames": str(statistics.frames),
            **{name: f"{rate:g}" for name, rate in limit.items()},
        },
    )
    notes = [f"{one.outcome}: left out: {one.why}" for one in statistics.left_out]
    if log.cut_off:
        notes.append("the last line is cut off and ignored")
    return ForeignResults(format=NAME, runs=(whole,), notes=("one file is one run: import several", *notes))


def _began(name: str) -> dict[str, str]:
    """Return the time in the file's name as the attribute `date`; empty if the name has none."""
    match = _STAMP.search(stem(name))
    return {} if match is None else {"date": f"{match[1]} {match[2]}:{match[3]}:{match[4]}"}

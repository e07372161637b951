# SPDX-License-Identifier: Apache-2.0
"""Plants faults in the listed functions, and says how many of them the tests notice."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from mutation import agent, head
from mutation.errors import CannotRun
from mutation.kept import KEPT, load, text_of
from mutation.listed import ROOT, Group, groups
from mutation.mutant import Fate, Mutant
from mutation.sample import drawn
from mutation.summary import Result, ending, is_passed, lines

_COUNT = {"agent": 100, "head": 300}
_MINUTES = {"agent": 50.0, "head": 25.0}
Run = Callable[[Group, Sequence[Mutant], float], Iterator[tuple[Mutant, Fate]]]


def main(words: Sequence[str]) -> int:
    """Run one side; the exit status."""
    asked = _parser().parse_args(words)
    try:
        return _run(asked)
    except CannotRun as error:
        print(f"mutation: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("side", choices=sorted(_COUNT))
    parser.add_argument("--count", type=int, help="how many mutants to plant (300 of the head, 100 of the agent)")
    parser.add_argument("--seed", type=int, help="draw the sample of this number (by default that of the commits)")
    parser.add_argument("--minutes", type=float, help="begin no mutant after that long (25 for the head, 50 the agent)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants of the head at a time")
    parser.add_argument("--only", metavar="TEXT", help="every mutant whose name holds TEXT, instead of a sample")
    parser.add_argument("--record", action="store_true", help="write what was found to mutation/covered.toml")
    return parser


def _run(asked: argparse.Namespace) -> int:
    kept = load(KEPT)
    listed = groups(asked.side)
    side = head.Head(asked.jobs) if asked.side == "head" else agent.Agent()
    mutants = {group.name: side.all_mutants(group) for group in listed}
    stale = kept.stale(
        (one for found in mutants.values() for one in found), {one.file for group in listed for one in group.files}
    )
    seed = _commits() if asked.seed is None else asked.seed
    if asked.only is None:
        count = _COUNT[asked.side] if asked.count is None else asked.count
        sample: Mapping[str, Sequence[Mutant]] = drawn(mutants, count, seed, kept)
        print(f"mutants of the {asked.side}: {_total(sample)} of {_total(mutants)}, --seed {seed}", flush=True)
    else:
        sample = {name: [one for one in found if asked.only in str(one)] for name, found in mutants.items()}
    minutes = _MINUTES[asked.side] if asked.minutes is None else asked.minutes
    began = time.monotonic()
    results = []
    planned = 0
    for group in listed:
        of_group = sample[group.name]
        planned += len(of_group)
        # Each group has its part of the time, and what those before it left.
        deadline = began + 60 * minutes * planned / max(_total(sample), 1)
        if of_group:
            results.append(Result(group, list(side.run(group, of_group, deadline)), len(of_group)))
            print(*lines(results[-1], kept), sep="\n", flush=True)
    for line in ending(results, stale, time.monotonic() - began):
        print(line)
    if asked.record:
        fates = [one for result in results for one in result.fates]
        KEPT.write_text(text_of(kept.with_run(fates, datetime.now(tz=UTC).date(), stale)), encoding="utf-8")
    return 0 if is_passed(results, stale) else 1


def _total(mutants: Mapping[str, Sequence[Mutant]]) -> int:
    return sum(map(len, mutants.values()))


def _commits() -> int:
    """How many commits led here: the same commit draws the same sample."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return int(told) if told.isdecimal() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

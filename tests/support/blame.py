# SPDX-License-Identifier: Apache-2.0
"""Trials of a blame on a simulated machine: a formula gives the effect of a set of settings, and noise is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ktrial.bench.suite import Task
from ktrial.judge.judge import judge
from ktrial.judge.model.log import BlockDrawn, Event, RunEnded, TrialEnd, block_order
from ktrial.studies.blame.blame import follow
from ktrial.studies.blame.model import Blame, BlamePart, BlameQuestion, Factor
from ktrial.trial.protocol.file import DesignFile, TrialFile
from ktrial.trial.protocol.protocol import protocol_of
from tests.support.bench import FakeBenchmark, outcome
from tests.support.trials import value_of

TOOL = FakeBenchmark(name="tool", outcomes=(outcome(), outcome("other", headline=False)))
TASKS = (Task(label="tool", benchmark=TOOL, parameters={}, cpus=None),)
Effects = Mapping[str, Callable[[frozenset[str]], float]]


def question(settings: int, seed: int = 1, **changes: object) -> BlameQuestion:
    """Return the question for settings s1, s2, …, judged by a time; the other outcome is secondary."""
    trial = TrialFile(
        name="test", suite="tool", primary="time", secondary=("other",), arms={}, design=DesignFile(settle="0s")
    )
    factors = tuple(Factor(name=f"s{place}", environment={f"S{place}": "1"}) for place in range(1, settings + 1))
    return BlameQuestion(**{"name": "test", "factors": factors, "trial": trial, "seed": seed, **changes})  # type: ignore[arg-type]


def carried_out(file: TrialFile, effects: Effects, rng: np.random.Generator, sd: float) -> BlamePart:
    """Run one trial to its end; `sd` is the standard deviation of one run."""
    assert file.design.seed is not None
    protocol = protocol_of(file, TASKS, {}, file.design.seed, None, 1)
    on = {name: frozenset(key.lower() for key in arm.environment) for name, arm in file.arms.items()}
    log: list[Event] = [protocol]
    run = 0
    while (step := judge(log).next).action != "stop":
        assert step.block is not None
        order = block_order(protocol.seed, step.block, step.arms)
        log.append(BlockDrawn(block=step.block, order=order))
        for arm in order:
            run += 1
            measured = {
                name: value_of(effects[name.partition(".")[2]](on[arm]) + rng.normal(0, sd), rule)
                for name, rule in protocol.outcomes.items()
            }
            log.append(RunEnded(run=run, block=step.block, arm=arm, measurements=measured))
    log.append(TrialEnd(reason=step.reason))
    directions = {name: rule.direction for name, rule in protocol.outcomes.items()}
    return BlamePart(trial=file.name, file=file, judgement=judge(log), runs=run, directions=directions)


def blamed(
    asked: BlameQuestion, effects: Effects, seed: int = 1, sd: float = 0.03
) -> tuple[Blame, Sequence[BlamePart]]:
    """Run a whole blame; return the answer and the trials."""
    rng = np.random.default_rng(seed)
    parts: list[BlamePart] = []
    while isinstance(wanted := follow(asked, parts), TrialFile):
        parts.append(carried_out(wanted, effects, rng, sd))
    return wanted, parts

# SPDX-License-Identifier: Apache-2.0
"""Opens the sources of a live trial, and describes what it measures as a suite."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.bench.benchmark import Invocation
from ktrial.bench.suite import Suite, SuiteEntry
from ktrial.kit.errors import BadInput
from ktrial.live.parse import open_source, parse_metrics
from ktrial.live.period import live_benchmark
from ktrial.live.sampling import WatchedMetric
from ktrial.live.sources.world import LiveWorld
from ktrial.machine.gates import GATES, OFF
from ktrial.trial.protocol.file import CONTROL, ArmFile, DesignFile, TrialFile
from ktrial.trial.protocol.from_words import pairs
from ktrial.trial.protocol.live import LIVE, RATING, LiveFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktrial.bench.benchmark import Benchmark, RawOutput
    from ktrial.cli.app import App


def live_file(name: str, arms: Mapping[str, ArmFile], options: Mapping[str, Any], control: str = CONTROL) -> TrialFile:
    """Return the protocol that the options of `ktrial live` describe. Raise BadInput if they are invalid."""
    if not options["metrics"] and not options["rate"]:
        example = "--metric 'p99_ms:lower=log:/var/log/app.log?match=took ([0-9.]+) ms&take=p99'"
        raise BadInput("nothing to watch", hint=f"add --rate, or a metric: {example}")
    limits = {}
    for metric, text in pairs(options["limits"], "--limit-metric").items():
        try:
            limits[metric] = float(text)
        except ValueError:
            raise BadInput(
                f"--limit-metric {metric}={text}: expected a number", hint=f"for example  --limit-metric {metric}=250"
            ) from None
    budget: str = options["budget"]
    return TrialFile(
        name=name,
        primary=options["primary"],
        secondary=options["secondary"],
        detect=options["detect"],
        margin=options["margin"],
        control=control,
        arms=arms,
        design=DesignFile(budget=int(budget) if budget.isdecimal() else budget, seed=options["seed"]),
        live=LiveFile(
            metrics=options["metrics"],
            covariates=options["covariates"],
            adjust=options["adjust"] or msgspec.UNSET,
            guards=pairs(options["guards"], "--guard"),
            limits=limits,
            for_=options["for_"],
            **{key: options[key] for key in ("period", "washout", "poll", "quiet", "switches")},
            **{key: options[key] for key in ("rate", "blind", "disturbing")},
        ),
    )


def live_of(file: TrialFile) -> LiveFile:
    """Return the table `[live]` of a live trial."""
    assert file.live, "a live trial"
    return file.live


def open_metrics(app: App, live: LiveFile) -> tuple[WatchedMetric, ...]:
    """Return the metrics and covariates with their sources, which are open but not read yet.

    Raise BadInput for a source that cannot be opened.
    """
    world = _world(app, live)
    both = parse_metrics((*live.metrics, *live.covariates))
    found = []
    for place, metric in enumerate(both):
        source = open_source(metric, world)
        source.poll_s = live.poll_s or source.poll_s
        found.append(WatchedMetric(metric, source, covariate=place >= len(live.metrics)))
    return tuple(found)


def _world(app: App, live: LiveFile) -> LiveWorld:
    """Return what the sources may use to read; commands run on the machine under test."""
    directory = None if app.host is not None else str(Path.cwd())

    def run(words: Sequence[str], limit_s: float) -> RawOutput:
        raw = app.executor.run(Invocation(argv=tuple(words), limit_s=limit_s, directory=directory)).raw
        if raw.interrupted:
            raise KeyboardInterrupt
        return raw

    return LiveWorld(
        clock=app.clock,
        machine=lambda: app.user_session,
        run=run,
        period_s=live.period_s,
        is_remote=app.host is not None,
        open_root=partial(app.new_root_session, "tracing events") if app.can_be_root else None,
    )


def live_suite(app: App, file: TrialFile) -> tuple[Suite, dict[str, Benchmark]]:
    """Return what a live trial measures, as a suite with one benchmark."""
    live = live_of(file)
    outcomes = [one.outcome for one in open_metrics(app, live) if not one.covariate]
    suite = Suite(
        name=LIVE,
        summary="Live work, watched for periods.",
        benchmark=(SuiteEntry(LIVE),),
        sample_period=OFF,
        gates=dict.fromkeys(GATES, OFF),
    )
    return suite, {LIVE: live_benchmark(outcomes, rated=live.rate)}


def with_roles(app: App, file: TrialFile) -> TrialFile:
    """Return the trial with a role for each metric. Unless the trial names a primary metric, the first is primary.

    Metrics without another role are secondary.
    """
    live = live_of(file)
    outcomes = {one.metric.name: one.outcome.name for one in open_metrics(app, live) if not one.covariate}
    outcomes |= {RATING: RATING} if live.rate else {}
    primary = outcomes.get(file.primary or "", file.primary) or next(iter(outcomes.values()))
    given = [outcomes.get(name, name) for name in file.secondary]
    taken = {primary, *given, *(outcomes.get(name, name) for name in file.guards)}
    others = [name for name in outcomes.values() if not {name, f"{LIVE}.{name}"} & taken]
    return msgspec.structs.replace(file, primary=primary, secondary=(*given, *others))

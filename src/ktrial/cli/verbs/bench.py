# SPDX-License-Identifier: Apache-2.0
"""`ktrial bench`: run benchmarks on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import measurable_names
from ktrial.cli.options import json_option, metric_option, output_option, prepare_option, seconds
from ktrial.cli.shared.bench import (
    BenchProgress,
    TakesSettle,
    check_output,
    choose,
    limits_of,
    list_benchmarks,
    order_of,
    own_words,
    refuse_around,
    write_result,
)
from ktrial.cli.shared.command_environment import clean_env_option, env_option, named_variables
from ktrial.cli.shared.command_steps import prepare_steps
from ktrial.kit.errors import BadInput, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.bench.events import Result
    from ktrial.bench.record import RunRecord

EXIT_PARTIAL = 1


@click.command(cls=TakesSettle, short_help="Measure a suite of benchmarks or any command.")
@click.argument("suite", shell_complete=measurable_names, required=False, metavar="[SUITE|BENCHMARK|-- CMD…]")
@click.option(
    "-n",
    "--runs",
    type=click.IntRange(1, 100_000),
    default=5,
    show_default=True,
    help="Number of runs of each benchmark.",
)
@click.option("--label", metavar="NAME", help="Name of the configuration, stored with each run.")
@output_option("Write all runs as JSON to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--cpus", metavar="LIST", help="Pin runs to these CPUs: 0,2-3, little or big.")
@click.option(
    "-p",
    "--parameter",
    "given",
    multiple=True,
    metavar="[BENCHMARK:]NAME=VALUE",
    help="Set a parameter of a benchmark. Repeatable.",
)
@metric_option
@prepare_option
@click.option(
    "--warmup",
    type=click.IntRange(0, 1000),
    default=0,
    metavar="N",
    help="Run CMD N times first; these runs do not count.",
)
@env_option
@clean_env_option
@click.option("--limit", metavar="TIME", help="Kill a run of CMD after TIME.  [1h]")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    metavar="N",
    help="Seed of an earlier measurement whose run order to reproduce.",
)
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted measurement.")
@click.option("--when-idle", is_flag=True, help="Run only while the machine is idle; repeat disturbed runs.")
@click.option(
    "--settle",
    metavar="[=LIMIT]",
    help="Before each run, wait until the machine is as cool and idle as before the first, at most LIMIT.  [10m]",
)
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="NAME=LIMIT",
    help="Condition that must hold before a run starts, such as start_temperature=8C. Repeatable.",
)
@click.option(
    "--tools", metavar="container[=IMAGE]", help="Take benchmark tools from a container image instead of this system."
)
@click.option("--list", "listing", is_flag=True, help="List benchmarks and suites, and whether they can run here.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    suite: str | None,
    output: Path | None,
    force: bool,
    given: tuple[str, ...],
    metrics: tuple[str, ...],
    variables: tuple[str, ...],
    clean_env: bool,
    limit: str | None,
    tools: str | None,
    listing: bool,
    when_idle: bool,
    settle: str | None,
    gates: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Run a suite of benchmarks, one benchmark or any command several times, and store every run.

    \b
    ktrial bench quick
    ktrial bench margine -n 10 --label stock -o stock.json
    ktrial bench -n 20 -- make -B -j4
    ktrial bench --metric 'p99_ms:lower=p99: ([0-9.]+)' -- ./my-test

    A suite runs in rounds. Each round runs every benchmark once, in a new random order.
    """
    from ktrial.bench.around.around_run import surroundings
    from ktrial.bench.measure import measure
    from ktrial.bench.suites import with_parameters

    app: App = ctx.obj
    words = own_words(ctx)
    if listing:
        return list_benchmarks(app, tools, as_json)
    if tools is not None and words is not None:
        raise BadInput("cannot combine --tools with a command after --", hint="leave out --tools")
    environment = named_variables(variables)
    limit_s = None if limit is None else seconds(limit, "--limit")
    before = {"steps": prepare_steps(options.pop("prepare")), "warm_ups": options.pop("warmup")}
    chosen, benchmarks = choose(app, suite, words, metrics, limit_s, clean=clean_env, **before)
    chosen = with_parameters(chosen, benchmarks, given)
    if not app.may_run_trials:
        raise Refused("benchmarks run on machines, not in folders", hint="leave out --machine-root")
    exact = app.host is not None and app.host.is_exact
    if exact:
        refuse_around(chosen, {"--when-idle": when_idle, "--settle": settle is not None, "--gate": bool(gates)})
    check_output(output, force=force)
    limits_of(chosen, gates)
    settle_s = None if settle is None else seconds(settle, "--settle")
    app.lock_runs()
    executor = app.executor_in(tools)
    facts = executor.facts()
    order = order_of(app, chosen, benchmarks, facts, gates=gates, environment=environment, **options)
    around = None if exact else surroundings(app, chosen, order, when_idle=when_idle, settle_s=settle_s)
    listen = BenchProgress(as_json=as_json)
    with app.interrupts, listen:
        result, records = measure(order, executor, app.run_store, app.clock, facts, listen, around)
    return _finish(app, result, records, output, as_json=as_json)


def _finish(app: App, result: Result, records: Sequence[RunRecord], output: Path | None, *, as_json: bool) -> int:
    from ktrial.bench.text import findings_text, holes_text, summary_text
    from ktrial.kit.tables import columns

    if output is not None:
        write_result(output, result, records)
    if not as_json and result.summaries:
        sys.stdout.write(summary_text(result.summaries, width=columns()))
        sys.stdout.flush()
    sys.stderr.write(findings_text(result.findings, width=columns()))
    holes = [(hole.benchmark, hole.why, hole.next) for hole in result.holes]
    sys.stderr.write(holes_text(result.wanted, result.complete, holes, width=columns()))
    if result.interrupted:
        count = "1 run is" if len(records) == 1 else f"{len(records)} runs are"
        return app.end_interrupted(f"{count} saved in {result.where}")
    return EXIT_PARTIAL if holes else 0

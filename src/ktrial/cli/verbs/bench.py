# SPDX-License-Identifier: Apache-2.0
"""`ktrial bench`: run benchmarks on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import measurable_names
from ktrial.cli.options import (
    json_option,
    limit_option,
    load_options,
    long_option,
    metric_option,
    output_option,
    prepare_option,
    seconds,
    warmup_option,
    when_idle_option,
)
from ktrial.cli.shared.bench import (
    BenchProgress,
    TakesSettle,
    around_runs,
    check_output,
    choose,
    finish_bench,
    limits_of,
    list_benchmarks,
    order_of,
    own_words,
    refuse_around,
)
from ktrial.cli.shared.command_environment import clean_env_option, env_option, named_variables
from ktrial.cli.shared.command_steps import prepare_steps
from ktrial.kit.errors import BadInput, Refused


@click.command(cls=TakesSettle, short_help="Measure a suite of benchmarks or any command.")
@click.argument("suite", shell_complete=measurable_names, required=False, metavar="[SUITE|BENCHMARK|-- CMD…]")
@click.option(
    "-n",
    "--runs",
    type=click.IntRange(1, 100_000),
    default=5,
    show_default=True,
    metavar="N",
    help="Number of runs of each benchmark.",
)
@click.option("--label", metavar="NAME", help="Name of the configuration, stored with each run.")
@output_option("Write all runs as JSON to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option(
    "--cpus", metavar="LIST", help="CPUs to pin the runs to: numbers such as 0,2-3, or little or big (kinds of cores)."
)
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
@warmup_option
@env_option
@clean_env_option
@limit_option
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    metavar="N",
    help="Seed of an earlier measurement, to reproduce its run order.",
)
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted measurement.")
@when_idle_option
@long_option
@click.option(
    "--settle",
    metavar="[=LIMIT]",
    help="Before each run, wait until the machine is as cool and idle as at the start of the first run, for at most"
    " LIMIT.  [10m]",
)
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="NAME=LIMIT",
    help="Gate (a check before or during a run) and its limit. start_temperature=12C allows a difference of 12 °C from"
    " the first run; battery=off turns off the gate `battery`. Repeatable.",
)
@click.option(
    "--tools",
    metavar="container[=IMAGE]|FOLDER",
    help="Take benchmark tools from a container image instead of this system; for a phone, from FOLDER.",
)
@load_options
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
    settle: str | None,
    gates: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Run a suite, a benchmark or a command several times, and store every run.

    \b
    ktrial bench quick
    ktrial bench margine -n 10 --label stock -o stock.json
    ktrial bench -n 20 -- make -B -j4
    ktrial bench --metric 'p99_ms:lower=p99: ([0-9.]+)' -- ./my-test

    A suite runs in rounds. Each round runs every benchmark once, in a new random order.
    """
    from ktrial.bench.measure import measure
    from ktrial.bench.suites import with_parameters
    from ktrial.cli.app_load import send_load_from

    app: App = ctx.obj
    words = own_words(ctx)
    if listing:
        return list_benchmarks(app, tools, as_json)
    if tools is not None and words is not None:
        raise BadInput("cannot combine --tools with a command after --", hint="leave out --tools")
    send_load_from(app, options.pop("load_from"), options.pop("load_address"), tools)
    before = {"steps": prepare_steps(options.pop("prepare")), "warm_ups": options.pop("warmup")}
    environment = named_variables(variables)
    limit_s = None if limit is None else seconds(limit, "--limit")
    chosen, benchmarks = choose(app, suite, words, metrics, limit_s, clean=clean_env, **before)
    chosen = with_parameters(chosen, benchmarks, given)
    if not app.may_run_trials:
        raise Refused("benchmarks run on machines, not in folders", hint="leave out --machine-root")
    exact = app.host is not None and app.host.is_exact
    if exact:
        refuse_around(chosen, {"--when-idle": app.when_idle, "--settle": settle is not None, "--gate": bool(gates)})
    check_output(output, force=force)
    limits_of(chosen, gates)
    settle_s = None if settle is None else seconds(settle, "--settle")
    app.lock_runs()
    executor = app.executor_in(tools)
    facts = executor.facts()
    order = order_of(app, chosen, benchmarks, facts, gates=gates, environment=environment, **options)
    around = None if exact else around_runs(app, chosen, order, settle_s)
    with app.interrupts, BenchProgress(app, as_json=as_json) as listen:
        result, records = measure(order, executor, app.run_store, app.clock, facts, listen, around)
    return finish_bench(app, result, records, output, as_json=as_json)

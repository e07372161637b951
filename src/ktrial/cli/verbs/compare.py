# SPDX-License-Identifier: Apache-2.0
"""`ktrial compare`: compare results, and say what they support."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ktrial.cli.app import App
from ktrial.cli.completion import result_names
from ktrial.cli.options import json_bytes, json_option, output_option, write_answer
from ktrial.cli.shared.compare import ALPHA, gathered, judge_trial, share, table_options, trial_of
from ktrial.cli.shared.fail_on import fail_on_file_option, refuse
from ktrial.kit.errors import BadInput, Contradiction

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import UnsetType

    from ktrial.cli.shared.fail_on import Stricter
    from ktrial.judge.model.comparison import Comparison


@click.command(short_help="Compare results; fail a CI job on a slowdown.")
@click.argument(
    "words", nargs=-1, required=True, shell_complete=result_names, metavar="LABEL|SESSION|[NAME=]FILE|TRIAL…"
)
@click.option("--control", metavar="NAME", help="Baseline to compare against.  [the first configuration]")
@click.option("--tiers", is_flag=True, help="Also compare each configuration with the one before it.")
@click.option("--pool", is_flag=True, help="Compare on each machine, then across all machines.")
@click.option("--margin", metavar="SHARE", help="Treat smaller differences as equivalent.  [2%; p95 5%, p99 10%]")
@click.option("--primary", metavar="OUTCOME", help="Outcome that decides. Choose it before you measure.  [none]")
@click.option(
    "--declared", multiple=True, metavar="KNOB|CONDITION", help="Condition or knob that is meant to differ. Repeatable."
)
@click.option(
    "--accept", "accepted", metavar="REASON", help="Reason to ignore differing conditions; the report prints REASON."
)
@click.option(
    "--exclude",
    "excluded",
    multiple=True,
    metavar="RUN:REASON",
    help="Run to leave out, and why; ktrial shows the result with and without the run. Repeatable.",
)
@fail_on_file_option
@click.option(
    "--spread",
    default="25%",
    show_default=True,
    metavar="SHARE",
    help="Warn if (max - min) / median of a configuration exceeds SHARE.",
)
@table_options
@output_option("Also write JSON to FILE, for `ktrial report` and `ktrial publish`.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
@click.pass_obj
def command(
    app: App,
    /,
    words: tuple[str, ...],
    control: str | None,
    tiers: bool,
    pool: bool,
    margin: str | None,
    primary: str | None,
    declared: tuple[str, ...],
    accepted: str | None,
    excluded: tuple[str, ...],
    spread: str,
    output: Path | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Compare stored results, result files of ktrial and other tools (hyperfine, Go, …), or CSV tables.

    \b
    ktrial compare stock tuned --declared vm.swappiness
    ktrial compare base=before.json change=after.json --fail-on worse:5%,different:5%
    ktrial compare --tiers stock t1 t2 t3
    ktrial compare --pool desk-trial laptop-trial server-trial
    ktrial compare swappiness-10-3fa9c1 --fail-on worse
    ktrial compare results.csv --value 'time(sec)' --by march --block hostname --direction lower

    Several files with the same NAME form one configuration; a file name may be a pattern: stock='run-*.json'.
    ktrial does not store the files. ktrial judges a single TRIAL by its own protocol; several trials need --pool.
    """
    from ktrial.cli.shared.bench import check_output
    from ktrial.cli.shared.compare import answer_comparison, as_protocols_say, exclusions, reproducible, versions
    from ktrial.judge.model.query import AskedComparison, ImportOptions

    check_output(output, force=force)
    pooled = _check_options(accepted, pool=pool, tiers=tiers)
    if not pool and (trial := trial_of(app, words)) is not None:
        given: dict[str, object] = {"--control": control, "--tiers": tiers, "--margin": margin, "--primary": primary}
        given |= {"--declared": declared, "--accept": accepted, "--exclude": excluded}
        return _print_comparison(app, judge_trial(app, trial, given), output, as_json=as_json)
    there = gathered(app, words, options, trials=pool)
    question = AskedComparison(
        sources=there.sources,
        as_format=options.pop("as_format"),
        options=ImportOptions.given(options),
        control=control,
        margin=share(margin, "--margin"),
        primary=primary,
        declared=declared,
        accepted=accepted,
        tiers=tiers,
        pool=pooled,
        excluded=exclusions(excluded, there.arms),
        spread=share(spread, "--spread") or 0.0,
    )
    question = as_protocols_say(app, there.of_trials, question)
    answer = partial(answer_comparison, app, there.arms, question, reproducible(), versions())
    found, stricter = answer(assumptions=as_json or output is not None), partial(_stricter, answer)
    return _print_comparison(app, found, output, as_json=as_json, stricter=stricter)


def _stricter(answer: Callable[..., Comparison], comparisons: int) -> Comparison:
    """Return the comparison at an error rate divided by the number of comparisons."""
    return answer(assumptions=False, alpha=ALPHA / comparisons)


def _check_options(accepted: str | None, *, pool: bool, tiers: bool) -> Literal[True] | UnsetType:
    from msgspec import UNSET

    if accepted is not None and not accepted.strip():
        raise BadInput("--accept requires a reason", hint="write --accept 'REASON', which the report prints")
    if pool and tiers:
        raise Contradiction("cannot combine --pool with --tiers", hint="compare two tiers at a time with --pool")
    return pool or UNSET


def _print_comparison(
    app: App, found: Comparison, output: Path | None, *, as_json: bool, stricter: Stricter | None = None
) -> int:
    from ktrial.compare.files import write_file
    from ktrial.reports.terminal import comparison_text

    if output is not None:
        write_file(output, json_bytes(found))
    write_answer(as_json, lambda: found, lambda width: comparison_text(found, width=width))
    refuse(app, found, stricter)
    if not any(one.contrasts for one in found.outcomes):
        raise BadInput(
            "cannot compare: the configurations have no outcome in common",
            hint="list outcomes with `ktrial show SESSION` or `ktrial import --dry-run FILE`",
        )
    return 0

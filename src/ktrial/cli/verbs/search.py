# SPDX-License-Identifier: Apache-2.0
"""`ktrial search`: find the best of many settings, and confirm it on fresh data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import goal_words
from ktrial.cli.options import (
    dangerous_option,
    guard_option,
    json_option,
    margin_option,
    secondary_option,
    seed_option,
    when_idle_option,
    yes_to,
)
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.command_environment import env_option
from ktrial.cli.shared.trial_options import build_options, guest_options, measured_options
from ktrial.kit.errors import BadInput


@click.command(cls=TakesCommand, short_help="Find the best of many settings, and confirm it.")
@click.argument("space", shell_complete=goal_words, metavar="SPACE|GOAL")
@measured_options
@env_option
@click.option(
    "--also",
    multiple=True,
    metavar="OUTCOME",
    help="Outcome to improve beside the primary one; the answer is then a list of the best compromises. Repeatable.",
)
@guard_option
@secondary_option
@click.option(
    "--detect", default="5%", show_default=True, metavar="SHARE", help="Smallest effect that is worth finding."
)
@margin_option
@click.option("--budget", default="2h", show_default=True, metavar="TIME", help="Time for the whole search.")
@click.option("--settle", metavar="TIME", help="Time to wait after each change.  [chosen per setting]")
@click.option(
    "--sampler",
    type=click.Choice(("tpe", "gp", "random")),
    default="tpe",
    show_default=True,
    help="Method by which Optuna proposes values; gp needs PyTorch.",
)
@click.option(
    "-i",
    "--inventory",
    multiple=True,
    metavar="INVENTORY",
    help="Ansible inventory whose machines also measure the best proposals and confirm the best one. Repeatable.",
)
@click.option("--machines", metavar="PATTERN", help="Use only these hosts or groups of the inventory.")
@click.option("--guest", is_flag=True, help="Measure in guests (virtual machines), with a boot for each measurement.")
@click.option("--kernel", metavar="KERNEL", help="Kernel to boot in guests; implies --guest.  [running]")
@build_options
@guest_options
@seed_option(2**31 - 1, "search, to reproduce its random choices")
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted search.")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Also write the answer as a page to FILE.html.",
)
@click.option("--dry-run", is_flag=True, help="Show the space and the budget; measure nothing.")
@yes_to("Do not ask before measuring for more than half an hour.")
@when_idle_option
@dangerous_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, space: str, **options: Any) -> int:
    """Search the settings of a SPACE file or a goal for the best values, and confirm them in a trial.

    \b
    ktrial search memory.toml --suite memory-pressure --budget 2h
    ktrial search latency --budget 4h
    ktrial search server.toml --metric 'rate:higher=([0-9.]+)/s' -- ./bench {workers}
    ktrial --host ssh:web1 search memory.toml -i hosts.ini --suite memory-pressure
    ktrial search boot.toml --guest --suite wakeups-busy --budget 4h

    A SPACE file names what may vary and in which range (docs/search.md). The third example varies a number, which
    ktrial puts in place of {workers}.

    Optuna proposes values. ktrial measures new proposals in the same blocks (rounds) as the best proposal so far and
    the unchanged machine. A trial at the end, on new blocks, confirms the best values or finds nothing.

    `ktrial search` needs the extra `search`: pip install 'ktrial[search]'.
    """
    from ktrial.cli.shared.search import SearchRun, show, write_page
    from ktrial.cli.shared.search_fleet import machines_of
    from ktrial.cli.shared.search_question import refuse_budget, search_question
    from ktrial.kit.tables import columns
    from ktrial.studies.search.propose import check_optuna
    from ktrial.studies.search.text import space_text

    app: App = ctx.obj
    if options["output"] is not None and options["output"].suffix != ".html":
        raise BadInput(f"-o {options['output']}: unknown report format", hint="name a file that ends in .html")
    check_optuna(options["sampler"])
    machines = machines_of(app, options)
    question, asked = search_question(app, space, own_words(ctx), options)
    sys.stderr.write(space_text(question, width=columns()))
    refuse_budget(question)
    if options["dry_run"]:
        return 0
    dangerous = options["yes_dangerous"]
    run = SearchRun(app, question, asked, machines, fresh=options["fresh"], allow_dangerous=dangerous)
    app.say(f"resuming {run.question.name}" if run.is_resumed else f"saved as {run.question.name}")
    found = run.carry_out(as_json=options["as_json"])
    if found is None:
        return app.end_interrupted("all finished runs are stored; run the same command again to continue")
    show(found, as_json=options["as_json"])
    if options["output"] is not None:
        write_page(app, found, options["output"])
    return 0

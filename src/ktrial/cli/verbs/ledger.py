# SPDX-License-Identifier: Apache-2.0
"""`ktrial ledger`: list everything that was tried on this machine, and beside it verdicts of others."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.completion import knob_names, other_sources
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import Contradiction


class ShowsLedger(click.Group):
    """A group that runs `show` unless the first argument is `--help` or names one of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and args[0] in {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if is_named else ["show", *args])


@click.group(cls=ShowsLedger, short_help="List every setting that was tried here.")
def command() -> None:
    """List every setting that was tried in a trial on this machine, with its verdict.

    `ktrial ledger [KNOB]` is short for `ktrial ledger show [KNOB]`. Verdicts of others, from imported bundles, come
    after your own. Verdicts of others never count as evidence about this machine.
    """


@command.command(short_help="List what was tried here, then elsewhere.")
@click.argument("knob", required=False, shell_complete=knob_names, metavar="[KNOB]")
@click.option("--markdown", is_flag=True, help="Write Markdown to stdout.")
@json_option
@click.pass_obj
def show(app: App, knob: str | None, markdown: bool, as_json: bool) -> None:
    """List the settings that were tried here, or only those of KNOB, with verdict and date, and mark those in force.

    A later trial of the same settings on the same benchmark supersedes an earlier one, and refutes it if the verdicts
    contradict each other. An inconclusive trial does neither. All trials stay in the list. Imported verdicts of other
    machines follow (`ktrial ledger import`).
    """
    from ktrial.cli.shared.ledger import ledger_of
    from ktrial.cli.shared.others import verdicts_elsewhere
    from ktrial.kit.tables import columns
    from ktrial.studies.ledger.ledger_now import now_of
    from ktrial.studies.ledger.model import changed_since, of_knob, standing
    from ktrial.studies.ledger.others_text import others_lines, others_markdown
    from ktrial.studies.ledger.text import ledger_markdown, ledger_text

    if markdown and as_json:
        raise Contradiction("cannot combine --markdown with --json", hint="leave out --markdown or --json")
    entries = ledger_of(app).entries
    if knob is not None:
        entries = of_knob(entries, knob)
    now = now_of(app.user_session, entries, app.catalog.knobs)
    elsewhere = verdicts_elsewhere(app, app.user_session, lambda entry: knob is None or entry.is_about(knob))
    if as_json:
        documents = [
            {"entry": one, "standing": standing(one, now), "changed_since": changed_since(one, now)} for one in entries
        ]
        write_json({"schema": "ktrial.ledger-now/1", "now": now, "entries": documents, "elsewhere": elsewhere})
    elif markdown:
        sys.stdout.write(ledger_markdown(entries, now) + others_markdown(elsewhere))
    else:
        lines = others_lines(elsewhere, width=columns(), shown=len(elsewhere))
        sys.stdout.write(ledger_text(entries, now, width=columns()) + "".join(f"{line}\n" for line in lines))


@command.command("import", short_help="Add the verdicts of a bundle from elsewhere.")
@click.argument("bundle", type=click.Path(path_type=Path), metavar="BUNDLE")
@click.option(
    "--signers",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of trusted signers (allowed_signers of OpenSSH); import BUNDLE only if one of them signed it.",
)
@json_option
@click.pass_obj
def import_bundle(app: App, bundle: Path, signers: Path | None, as_json: bool) -> None:
    """Recheck BUNDLE, then add its verdicts to the ledger, under "tried elsewhere".

    `ktrial ledger` lists these verdicts after your own, beginning with the most similar machines. Verdicts from
    elsewhere never count as evidence about this machine: `keep` and `retest` ignore them; `explain`, `suggest` and
    `status` only show them.

    ktrial refuses a bundle that `ktrial bundle --keep-identity` made, or whose verdicts do not follow from its runs.
    For a bundle of this machine, or a bundle without verdicts, use `ktrial import`.
    """
    from ktrial.cli.shared.others import import_others

    found, signer = import_others(app, bundle, signers)
    if as_json:
        parts = {"added": found.added, "newly_signed": found.newly_signed, "known": found.known}
        names = {name: [entry.trial for one in trials for entry in one.entries[:1]] for name, trials in parts.items()}
        write_json({"schema": "ktrial.ledger-import/1", "file": str(bundle), "signer": signer, **names})
    verdicts = sum(len(one.entries) for one in found.added)
    signature = "unsigned" if signer is None else f"signed by {signer}"
    told = f"{bundle}, {signature}: added {verdicts} verdict{'s'[: verdicts != 1]}"
    told += f"; {len(found.newly_signed)} known trials are signed now" if found.newly_signed else ""
    told += f"; {len(found.known)} already there" if found.known else ""
    app.say(f'{told}. `ktrial ledger` shows them under "tried elsewhere"')


@command.command(short_help="Remove verdicts of others.")
@click.option(
    "--from",
    "source",
    required=True,
    shell_complete=other_sources,
    metavar="SIGNER|BUNDLE",
    help="Signer of the verdicts to remove, or file name or SHA-256 of their bundle.",
)
@json_option
@click.pass_obj
def forget(app: App, source: str, as_json: bool) -> None:
    """Remove the imported verdicts of a signer or a bundle. Your own trials stay."""
    from ktrial.cli.shared.others import forget_others

    count = forget_others(app, source)
    if as_json:
        write_json({"schema": "ktrial.ledger-forget/1", "from": source, "trials": count})
    app.say(f"removed {count} trial{'s'[: count != 1]} of {source} from the ledger")

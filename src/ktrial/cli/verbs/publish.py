# SPDX-License-Identifier: Apache-2.0
"""`ktrial publish`: write a comparison as files for a git repository."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.completion import published_names
from ktrial.compare.files import write_folder
from ktrial.kit.errors import BadInput


@click.command(short_help="Write a comparison as files for a git repository.")
@click.argument("what", shell_complete=published_names, metavar="COMPARISON.json|TRIAL")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FOLDER", required=True, help="Folder to write to."
)
@click.option("--data", is_flag=True, help="Also write the raw data, for `ktrial recheck`.")
@click.option(
    "--keep-identity",
    is_flag=True,
    help="With --data: keep names of hosts and users, serial numbers and MAC addresses.",
)
@click.option("--force", is_flag=True, help="Write into FOLDER even if it is not empty.")
@click.pass_obj
def command(app: App, what: str, output: Path, data: bool, keep_identity: bool, force: bool) -> int:
    """Write a comparison or trial as a folder for a git repository.

    The folder has a README.md, charts and the runs as JSON. If ktrial knows commands that repeat the comparison,
    reproduce.sh contains them.

    --data adds the sessions with their raw output, but without names of hosts and users, serial numbers and MAC
    addresses. ktrial then computes the published comparison from these sessions.

    The same version of ktrial writes the same files for the same comparison. --force overwrites files of the same
    names, such as README.md. --force also removes other files of an earlier publication, unless somebody changed them.
    All other files stay.

    \b
    ktrial compare stock tuned -o found.json
    ktrial publish found.json -o results/tuned
    ktrial publish swappiness-3fa9c1 -o results/swappiness
    """
    from ktrial.cli.shared.trial_outcome import comparison_named
    from ktrial.reports.publish import LIST, publication

    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not force)):
        hint = "name another folder, or add --force" if output.is_dir() else "name a folder"
        raise BadInput(f"-o {output}: not an empty folder", hint=hint)
    comparison = comparison_named(app, what)
    if not data:
        files = publication(comparison)
    else:
        from ktrial.cli.shared.evidence import DATA, pack_comparison, tell

        writer, made, comparison = pack_comparison(app, comparison, (), keep_identity=keep_identity)
        within = {f"{DATA}/{name}": content for name, content in writer.files(made.sessions).items()}
        files = publication(comparison, within)
        tell(app, output / DATA, made, kept=keep_identity)
    write_folder(output, files, LIST)
    app.say(f"{output}: {len(files)} files")
    return 0

# SPDX-License-Identifier: Apache-2.0
"""`ktrial profiles`: list profiles, or show one in full."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.completion import profile_names
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import UnknownName


@click.command(short_help="List profiles, or show one profile with its reasons.")
@click.argument("name", shell_complete=profile_names, required=False)
@json_option
@click.pass_obj
def command(app: App, name: str | None, as_json: bool) -> None:
    """List all profiles (named sets of settings), or show every setting of NAME with its reason and source."""
    import msgspec

    from ktrial.kit.tables import columns
    from ktrial.tuning.knobs.profile_text import profile_text, profiles_text

    catalog, names = app.catalog_for([name] if name is not None else [])
    profiles = catalog.profiles
    name = names[0] if names else None
    if name is not None and name not in profiles:
        raise UnknownName("profile", name, profiles, hint="run `ktrial profiles` to list all profiles")
    if as_json:
        chosen = [profiles[name]] if name is not None else list(profiles.values())
        write_json({"schema": "ktrial.profiles/1", "profiles": [msgspec.to_builtins(profile) for profile in chosen]})
    elif name is None:
        sys.stdout.write(profiles_text(profiles, width=columns()))
    else:
        sys.stdout.write(profile_text(name, profiles, catalog.sources, width=columns()))

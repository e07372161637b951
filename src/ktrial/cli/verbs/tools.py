# SPDX-License-Identifier: Apache-2.0
"""`ktrial tools`: build benchmark tools that distributions do not package."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import tool_names
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import KtrialError, UnknownName


@click.group(short_help="Build benchmark tools that have no package.")
def command() -> None:
    """Build, list and remove benchmark tools that distributions do not package.

    Only `get` and `container` download anything.
    """


@command.command(name="list", short_help="List tools that ktrial can build, and tools that it built.")
@json_option
@click.pass_obj
def list_tools(app: App, as_json: bool) -> int:
    """List the tools that ktrial can build, and the tools that it built, with their source."""
    from ktrial.bench.tool_files import load_recipes
    from ktrial.bench.tools_text import list_text
    from ktrial.kit.tables import columns

    recipes = load_recipes()
    receipts, broken = {}, {}
    for name in app.tools.box.names():
        try:
            receipts[name] = app.tools.box.receipt(name)
        except KtrialError as error:
            broken[name] = error.message
    if as_json:
        built = {"recipes": list(recipes.values()), "built": list(receipts.values()), "broken": broken}
        write_json({"schema": "ktrial.tools/1", **built})
        return 0
    sys.stdout.write(list_text(recipes, receipts, broken, width=columns()))
    return 0


@command.command(short_help="Download and build a tool.")
@click.argument("name", shell_complete=tool_names)
@click.option(
    "--from",
    "place",
    metavar="URL|PATH",
    help="Source to use instead of upstream: https address (git repository or archive), folder, or archive.",
)
@click.option("--accept-sha256", metavar="HEX", help="SHA-256 that the archive given with --from must have.")
@click.pass_obj
def get(app: App, name: str, place: str | None, accept_sha256: str | None) -> int:
    """Download the pinned commit of a tool, verify the sources, and build the tool for this user.

    \b
    ktrial tools get schbench
    ktrial tools get schbench --from ~/src/schbench
    ktrial tools get schbench --from https://example.org/schbench.tar.gz --accept-sha256 HEX

    With --from, ktrial builds another source: the pinned commit of a git repository (https address), the last commit of
    a local checkout, an archive, or a folder as it is.
    """
    from ktrial.bench.build_tool import get_tool
    from ktrial.bench.tool_files import load_recipes
    from ktrial.bench.tools_text import built_text
    from ktrial.kit.tables import columns

    recipes = load_recipes()
    if name not in recipes:
        raise UnknownName("tool", name, recipes, hint="run `ktrial tools list` to list all tools")
    recipe = recipes[name]
    app.say(f"getting {name}, {recipe.licence}, from {place or recipe.upstream}")
    with app.tools.workshop as workshop:
        receipt, folder = get_tool(recipe, place, accept_sha256, workshop, app.tools.box, app.clock.unix_ms)
    sys.stdout.write(built_text(receipt, str(folder), width=columns()))
    return 0


@command.command(short_help="Make the image for `ktrial bench --tools container`.")
@click.option("--base", metavar="IMAGE", help="Debian or Ubuntu image to start from.  [Debian stable]")
@click.option(
    "--runtime",
    type=click.Choice(["podman", "docker"]),
    help="Container runtime that makes the image.  [the first one found]",
)
@click.pass_obj
def container(app: App, base: str | None, runtime: Any) -> int:
    """Make the default image of `ktrial bench --tools container`: Debian with the packaged benchmark tools.

    ktrial downloads the base image and the packages.
    """
    from ktrial.machine.container import DEFAULT_BASE, DEFAULT_IMAGE, containerfile

    text = containerfile(
        base or DEFAULT_BASE, (benchmark.packages.get("apt", "") for benchmark in app.benchmarks.values())
    )
    app.say(f"making {DEFAULT_IMAGE}:\n{text.rstrip()}")
    sys.stdout.write(f"{DEFAULT_IMAGE}: {app.tools.runtimes.build(runtime, text)}\n")
    return 0


@command.command(short_help="Remove a tool that ktrial built.")
@click.argument("name", shell_complete=tool_names)
@click.pass_obj
def remove(app: App, name: str) -> int:
    """Remove a tool that `ktrial tools get` built."""
    sys.stdout.write(f"removed: {app.tools.box.remove(name)}\n")
    return 0

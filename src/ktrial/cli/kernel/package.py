# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel package`: a distribution's source package, built with its own packaging."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json

_MOST_JOBS = 1024


@click.command(short_help="Build a distribution's source package with its own packaging.")
@click.argument("source")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FOLDER", help="Folder to build in."
)
@click.option(
    "--patch",
    "patches",
    multiple=True,
    metavar="FILE|URL",
    help="Apply a patch or series first (Debian only). Repeatable.",
)
@click.option("--jobs", type=click.IntRange(1, _MOST_JOBS), help="Number of parallel compilers.  [one per CPU]")
@click.option("--anyway", is_flag=True, help="Continue if build dependencies are missing.")
@json_option
@click.pass_obj
def command(
    app: App, source: str, output: Path, patches: tuple[str, ...], jobs: int | None, anyway: bool, as_json: bool
) -> int:
    """Build SOURCE in FOLDER as its distribution does, and show which kernels are in its packages.

    \b
    ktrial kernel package linux_6.12.dsc -o debian
    ktrial kernel package kernel-6.12.src.rpm -o fedora
    ktrial kernel package linux-6.12 --patch bore.patch -o ubuntu    # a folder with debian/rules

    SOURCE is a .dsc, a .src.rpm, or a folder with debian/rules or a PKGBUILD; ktrial never changes it. Its
    packaging alone decides what is built and how. Run the same command again to continue an interrupted build (an
    RPM build starts over). `ktrial kernel boot`, `inspect` and `trial` take the packages.
    """
    from ktrial.cli.shared.kernel_packages import packaged
    from ktrial.kernels.kernel_package import packaged_text
    from ktrial.kit.tables import columns

    made = packaged(app, source, output, patches, jobs, anyway=anyway)
    if as_json:
        write_json(made)
    else:
        sys.stdout.write(packaged_text(made, width=columns()))
    return 0

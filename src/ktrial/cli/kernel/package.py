# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel package`: build a distribution's source package with its own packaging."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer
from ktrial.kit.errors import BadInput, KtrialError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.kernels.kernel_package import KernelPackaged, PackageFile

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
    help="Patch or series to apply to a copy of SOURCE (Debian packaging only). Repeatable.",
)
@click.option(
    "--jobs", type=click.IntRange(1, _MOST_JOBS), metavar="N", help="Number of parallel compilers.  [one per CPU]"
)
@click.option("--anyway", is_flag=True, help="Continue if build dependencies are missing.")
@json_option
@click.pass_obj
def command(
    app: App, source: str, output: Path, patches: tuple[str, ...], jobs: int | None, anyway: bool, as_json: bool
) -> int:
    """Build SOURCE in FOLDER as its distribution does, and list the kernels in the resulting packages.

    \b
    ktrial kernel package linux_6.12.dsc -o debian
    ktrial kernel package kernel-6.12.src.rpm -o fedora
    ktrial kernel package linux-6.12 --patch bore.patch -o ubuntu    # a folder with debian/rules

    SOURCE is a .dsc, a .src.rpm, or a folder with debian/rules or a PKGBUILD; ktrial never changes it. The
    packaging in SOURCE alone decides what is built and how. To continue an interrupted build, run the same command
    again (an RPM build starts over). `ktrial kernel boot`, `inspect` and `trial` accept the packages.
    """
    from ktrial.kernels.kernel_package import packaged_text

    made = _package(app, source, output, patches, jobs, anyway=anyway)
    write_answer(as_json, lambda: made, lambda width: packaged_text(made, width=width))
    return 0


def _package(
    app: App, word: str, output: Path, patches: Sequence[str], jobs: int | None, *, anyway: bool
) -> KernelPackaged:
    from ktrial.kernels.build.distribution_packages import OwnPackaging, check_packaging, find, package_kernel
    from ktrial.kernels.build.progress import BuildProgress
    from ktrial.kernels.build.run_build import KernelBuild
    from ktrial.kernels.source import parse_patch
    from ktrial.kit import plain_json

    found = find(word)
    words = [parse_patch(one) for one in patches]
    if words and found.packaging != "debian":
        own = "spec file" if found.packaging == "rpm" else "PKGBUILD"
        raise BadInput("--patch supports Debian packaging only", hint=f"add the patch to the {own}")
    check_packaging(found)
    output.mkdir(parents=True, exist_ok=True)
    packs = OwnPackaging(found, output, jobs or len(os.sched_getaffinity(0)), anyway=anyway)
    progress = BuildProgress(0)

    app.say(f"building {found.place} with its own packaging; the log is in {packs.out}")
    with app.interrupts:
        try:
            made = package_kernel(
                packs,
                packs.unpack(app.kernels.patches.read(words)),
                KernelBuild(packs, app.interrupts, progress),
                lambda path: _read(app, path),
                app.clock.unix_ms,
            )
        finally:
            progress.end()
    (packs.out / "ktrial-package.json").write_bytes(plain_json.document(made))
    return made


def _read(app: App, path: Path) -> PackageFile:
    """Return a package and its kernel, if any: packages of headers, tools and modules have none."""
    import hashlib

    from ktrial.kernels.images.images import read_kernel
    from ktrial.kernels.kernel_package import PackageFile

    identity = None
    with contextlib.suppress(KtrialError):
        identity = read_kernel(app.kernels.images, str(path)).identity
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return PackageFile(path=str(path), sha256=digest, identity=identity)

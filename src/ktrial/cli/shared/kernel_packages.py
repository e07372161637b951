# SPDX-License-Identifier: Apache-2.0
"""The steps of `kernel package` after its options were read."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ktrial.kernels.build.distribution_packages import OwnPackaging, check_packaging, find
from ktrial.kernels.build.package import package_kernel
from ktrial.kernels.build.progress import BuildProgress
from ktrial.kernels.build.run_build import KernelBuild
from ktrial.kernels.images.images import read_kernel
from ktrial.kernels.kernel_package import PackageFile
from ktrial.kernels.source import parse_patch
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, KtrialError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.cli.app import App
    from ktrial.kernels.kernel_package import KernelPackaged

RECORD = "ktrial-package.json"


def packaged(
    app: App, word: str, output: Path, patches: Sequence[str], jobs: int | None, *, anyway: bool
) -> KernelPackaged:
    """Unpack, patch, build, and read the packages; the record of it lies beside them."""
    found = find(word)
    words = [parse_patch(one) for one in patches]
    if words and found.packaging != "debian":
        raise BadInput("--patch goes with Debian's packaging only", hint="add it to the spec or the PKGBUILD")
    check_packaging(found)
    output.mkdir(parents=True, exist_ok=True)
    packs = OwnPackaging(found, output, jobs or len(os.sched_getaffinity(0)), anyway=anyway)
    progress = BuildProgress(0)

    app.say(f"building {found.place} in {packs.out} with its own packaging; the log is beside it")
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
    (packs.out / RECORD).write_bytes(plain_json.document(made))
    return made


def _read(app: App, path: Path) -> PackageFile:
    """Return what kernel a package holds; those of headers, tools and modules hold none."""
    identity = None
    with contextlib.suppress(KtrialError):
        identity = read_kernel(app.kernels.images, str(path)).identity
    return PackageFile(path=str(path), sha256=_digest(path), identity=identity)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

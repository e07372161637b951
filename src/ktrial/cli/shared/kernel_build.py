# SPDX-License-Identifier: Apache-2.0
"""The steps of `ktrial kernel build`, with a warning for running trials, which a build slows down."""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING

import msgspec

from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from ktrial.cli.app import App
    from ktrial.cli.shared.kernel_config import PreparedKernel, Wishes
    from ktrial.kernels.build.make import Make
    from ktrial.kernels.build.make_kernel import BuildOrder
    from ktrial.kernels.build_record import KernelMade, PackageKind, Tool
    from ktrial.kernels.identity import KernelFound
    from ktrial.kernels.source import KernelSource


def say_whom_a_build_disturbs(app: App) -> None:
    """Register this build, and warn about each running trial that it slows down."""
    machine = app.measuring_place.machine
    machine.build()
    for trial in machine.others_trying():
        app.say(f"this build takes CPU time from a running trial: {trial}")
        app.say("  next: press Ctrl-C to stop the build; run the same command later to continue it")


def launcher_of(cache: str, *, distributed: bool) -> str | None:
    """Return the program that starts the compiler: a cache, or distcc if `distributed` is set; None for neither."""
    if cache == "auto":
        cache = "ccache" if shutil.which("ccache") else "none"
    if cache == "sccache" and distributed:
        raise BadInput("cannot combine --distcc with sccache", hint="use --cache ccache or --cache none")
    if cache == "none":
        return "distcc" if distributed else None
    return cache


def build_kernel(
    app: App,
    ready: PreparedKernel,
    wishes: Wishes,
    *,
    launcher: str | None,
    distributed: bool,
    jobs: int | None,
    package: PackageKind | None,
) -> tuple[KernelMade, KernelMade | None]:
    """Check, build, read back, package and register a kernel.

    Return the kernel, and an earlier build of the same sources in another folder, if any.
    """
    from ktrial.kernels.build.packages import check_packing, needed_programs

    more: tuple[str, ...] = ()
    if package is not None:
        check_packing(package, ready.opened.folder)
        more = needed_programs(package, ready.opened.folder)
    tools = tools_of(ready, (*launched(launcher, distributed=distributed), *more))
    order = order_of(
        app, ready, tools, wishes.output, launcher=launcher, distributed=distributed, jobs=jobs, anyway=wishes.anyway
    )
    before = next((one for one in app.kernels.built.all() if _same(one, order) and one.cost.objects), None)
    made = build_order(app, ready, order, wishes.output, before, package)
    return made, None if before is not None and before.folder == made.folder else before


def launched(launcher: str | None, *, distributed: bool = False) -> tuple[str, ...]:
    return (*((launcher,) if launcher else ()), *(("distcc",) if distributed else ()))


def tools_of(ready: PreparedKernel, more: tuple[str, ...]) -> tuple[Tool, ...]:
    """Return the toolchain's programs. Raise an error if one of them, or of `more`, is missing or too old."""
    from ktrial.kernels.build.toolchain import check_programs, versions

    check_programs(ready.toolchain, ready.configured.symbols, more)
    return versions(ready.toolchain, ready.configured.symbols, ready.opened.folder)


def stamped(source: KernelSource) -> KernelSource:
    """Return the source with the time of SOURCE_DATE_EPOCH, if that variable is set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return msgspec.structs.replace(source, epoch_s=int(epoch)) if epoch.isascii() and epoch.isdigit() else source


def order_of(
    app: App,
    ready: PreparedKernel,
    tools: tuple[Tool, ...],
    output: Path,
    *,
    launcher: str | None,
    distributed: bool = False,
    jobs: int | None = None,
    anyway: bool = False,
) -> BuildOrder:
    """Return what to build in a folder, with make's variables and environment."""
    from ktrial.kernels.build.make_kernel import BuildOrder, make_environment, make_variables, with_places_left_out

    symbols, source = ready.configured.symbols, stamped(ready.opened.source)
    variables = make_variables(ready.toolchain, ready.architecture, launcher, ready.flagged, ready.optimise)
    variables = with_places_left_out(variables, symbols, str(ready.opened.folder.resolve()), str(output.resolve()))
    variables |= app.kernels.signing(symbols)
    return BuildOrder(
        source=source,
        architecture=ready.architecture,
        toolchain=ready.toolchain,
        tools=tools,
        configured=ready.configured,
        make=variables,
        environment=make_environment(source, distributed=distributed and launcher == "ccache"),
        target=ready.flagged,
        optimise=ready.optimise,
        jobs=jobs or len(os.sched_getaffinity(0)),
        anyway=anyway,
    )


def build_order(
    app: App,
    ready: PreparedKernel,
    order: BuildOrder,
    output: Path,
    before: KernelMade | None = None,
    package: PackageKind | None = None,
) -> KernelMade:
    from ktrial.kernels.build.make import Make

    output.mkdir(parents=True, exist_ok=True)
    config = output / ".config"
    if not config.is_file() or config.read_bytes() != ready.text:
        config.write_bytes(ready.text)
    made = _build_or_fail(app, order, Make(ready.opened.folder, output, order.make, order.environment), before, package)
    app.kernels.built.note(made)
    return made


def _same(one: KernelMade, order: BuildOrder) -> bool:
    mine, theirs = order.source, one.source
    return (mine.place, mine.version, mine.sha256) == (theirs.place, theirs.version, theirs.sha256)


def _build_or_fail(
    app: App, order: BuildOrder, make: Make, before: KernelMade | None, package: PackageKind | None
) -> KernelMade:
    from ktrial.kernels.build.make_kernel import make_kernel
    from ktrial.kernels.build.packages import PACKINGS, PackagesBefore, variables_of
    from ktrial.kernels.build.progress import BuildProgress
    from ktrial.kernels.build.run_build import KernelBuild, read_flags
    from ktrial.kernels.build_record import objects_of
    from ktrial.kernels.images.images import read_kernel

    expected = objects_of(order.configured.symbols)
    if before is not None and before.config_sha256 == order.configured.sha256:
        expected = before.cost.objects
    progress = BuildProgress(expected)
    build = KernelBuild(make, app.interrupts, progress)
    progress.before = build.done_before()

    def found() -> tuple[KernelFound, str]:
        image = build.image(order.architecture)
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        return read_kernel(app.kernels.images, str(image)), digest

    say_whom_a_build_disturbs(app)
    app.say(f"building Linux {order.source.version} in {make.out} with {order.jobs} jobs; the log is in that folder")
    with app.interrupts:
        try:
            made = make_kernel(order, build, found, lambda: read_flags(make.out), app.clock.unix_ms, str(make.out))
        except KeyboardInterrupt:
            app.say(f"the objects stay in {make.out}; run the same command again to continue")
            raise
        finally:
            progress.end()
        if package is None:
            return made
        left = PackagesBefore(package, make.out)
        packing = PACKINGS[package]
        KernelBuild(make.told(variables_of(package, make.out)), app.interrupts, progress).run(
            packing.target, order.jobs
        )
        return msgspec.structs.replace(made, packages=left.collect())

# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel build`: build a kernel from sources and check that it matches the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import write_answer
from ktrial.cli.shared.kernel_build import build_kernel, launcher_of
from ktrial.cli.shared.kernel_config import Wishes, prepared, wish_options

if TYPE_CHECKING:
    from ktrial.kernels.build_record import PackageKind

_CACHES = ("auto", "ccache", "sccache", "none")
_PACKAGES = ("deb", "rpm", "pacman", "tar")
_MOST_JOBS = 1024


@click.command(short_help="Build a kernel and check that it matches the request.")
@wish_options
@click.option("--optimise", type=click.Choice(["2", "3"]), help="Compile with -O2 or -O3.  [as configured]")
@click.option(
    "--target", metavar="TARGET", help="CPU or x86-64 level to compile for; native is this CPU.  [as configured]"
)
@click.option("--package", type=click.Choice(_PACKAGES), help="Also build a package of this format.")
@click.option(
    "--jobs", type=click.IntRange(1, _MOST_JOBS), metavar="N", help="Number of parallel compilers.  [one per CPU]"
)
@click.option(
    "--cache",
    type=click.Choice(_CACHES),
    default="auto",
    show_default=True,
    help="Compiler cache; auto uses ccache if installed.",
)
@click.option("--distcc", is_flag=True, help="Distribute compilation with distcc.")
@click.pass_obj
def command(
    app: App,
    /,
    as_json: bool,
    optimise: str | None,
    target: str | None,
    package: PackageKind | None,
    jobs: int | None,
    cache: str,
    distcc: bool,
    **options: Any,
) -> int:
    """Build the kernel of TREE in FOLDER, outside the tree, with a fixed time stamp, user and host.

    \b
    ktrial kernel build linux.tar.xz --config tinyconfig --fragment guest -o small
    ktrial kernel build linux --config running --target zen3 --package deb -o mine
    ktrial kernel build linux --config running --fragment lto-thin -o thin

    ktrial makes the configuration as `ktrial kernel config` does. Run the same command again to continue an
    interrupted build. At the end ktrial compares the compiler, flags and configuration of the built kernel with the
    request.

    `ktrial kernel trial --tree TREE --target native --mode kvm --suite SUITE` compares a kernel for this CPU with the
    same kernel for any CPU.
    """
    from ktrial.kernels.build.text import made_text

    wishes = Wishes(**options)
    launcher = launcher_of(cache, distributed=distcc)
    ready = prepared(app, wishes, target=target, optimise=optimise)
    made, before = build_kernel(app, ready, wishes, launcher=launcher, distributed=distcc, jobs=jobs, package=package)
    write_answer(as_json, lambda: made, lambda width: made_text(made, before, width=width))
    return 0

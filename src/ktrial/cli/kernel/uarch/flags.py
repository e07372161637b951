# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch flags`: a target for a tree without a patch."""

from __future__ import annotations

import sys

import click

from ktrial.cli.options import json_option, write_json
from ktrial.cli.wiring import App


@click.command(short_help="The flags of a target, for a tree without a patch.")
@click.argument("target", metavar="TARGET")
@click.option("--tune", metavar="TARGET", help="Tune for this one: fast there, while it runs wherever TARGET does.")
@click.option("--cc", metavar="PROGRAM", default="gcc", show_default=True, help="The compiler that must accept it.")
@json_option
@click.pass_obj
def command(app: App, target: str, tune: str | None, cc: str, as_json: bool) -> int:
    """Write what gives a kernel the target without a change of its sources, as lines for a shell.

    \b
    eval "$(ktrial kernel uarch flags x86-64-v3 --tune znver3)"
    make bzImage

    The kernel's build puts these flags last, so that they win over its own. Nothing in its .config tells of them.
    """
    from ktrial.catalog.targets import load_targets
    from ktrial.domain.uarch import build_flags, find_target
    from ktrial.services.kernel_verify import check_accepted

    targets = load_targets()
    chosen = find_target(target, targets)
    tuned = None if tune is None else find_target(tune, targets)
    (compiler,) = app.kernels.compilers.find([cc])
    for one in filter(None, (chosen, tuned)):
        check_accepted(one, compiler)
    flags = build_flags(chosen, tuned)
    if as_json:
        asked = {"target": chosen.name, "tune": None if tuned is None else tuned.name}
        write_json(
            {
                "schema": "ktrial.kernel-flags/1",
                **asked,
                "compiler": f"{compiler.kind} {compiler.version}",
                "make": flags,
            }
        )
    else:
        sys.stdout.write("".join(f"export {name}='{' '.join(words)}'\n" for name, words in flags.items()))
    return 0

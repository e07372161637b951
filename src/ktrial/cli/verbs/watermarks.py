# SPDX-License-Identifier: Apache-2.0
"""`ktrial watermarks`: how early kswapd wakes, under settings side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.completion import setting_words
from ktrial.cli.options import json_option, seconds, write_json
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.watch.watermarks import Lead, WatermarkLayout


_TALKS = "--host guest:KERNEL measures it in a guest that talks"


@click.command(short_help="Show how early kswapd wakes under each setting.")
@click.argument("words", shell_complete=setting_words, nargs=-1, metavar="[PROFILE|KNOB=VALUE[+KNOB=VALUE]…]")
@click.option("--lead", metavar="SIZE|TIME", help="Compute the setting for this lead: 2GiB, or 500ms with a rate.")
@click.option("--rate", metavar="SIZE", help="Memory allocated per second, for lead times: 2GiB.")
@click.option("--measure", metavar="TIME", help="Measure the peak allocation rate over TIME, while the workload runs.")
@click.option("--memory", metavar="SIZE", help="Memory of a PC to compute for, instead of this machine: 96GiB.")
@json_option
@click.pass_obj
def command(
    app: App,
    words: tuple[str, ...],
    lead: str | None,
    rate: str | None,
    measure: str | None,
    memory: str | None,
    as_json: bool,
) -> None:
    """Show the watermarks of each zone under this and other settings: reserve, lead, memory kept free.

    \b
    ktrial watermarks vm.watermark_scale_factor=125,500
    ktrial watermarks micro-stutter-watermarks vm.min_free_kbytes=3145728+vm.watermark_scale_factor=125
    ktrial watermarks --lead 500ms --measure 30s

    ktrial computes like the kernel, in whole pages, and changes nothing.
    """
    from ktrial.kit.tables import columns
    from ktrial.watch.watermarks import compare, layout_elsewhere, layout_here
    from ktrial.watch.watermarks_text import watermarks_text

    if measure is not None and (rate is not None or memory is not None):
        raise BadInput(f"--measure and {'--rate' if rate else '--memory'} exclude each other", hint="choose one")
    if measure is not None and app.host is not None and app.host.is_exact:
        raise BadInput("--measure looks on while time passes here, of which an exact guest sees nothing", hint=_TALKS)
    catalog, names = app.catalog_for(words)
    wanted = None if lead is None else _lead(lead)
    given = None if rate is None else (_size(rate, "--rate"), "as given")
    measured_s = None if measure is None else seconds(measure, "--measure")
    here = layout_here(app.user_session) if memory is None else layout_elsewhere(_size(memory, "--memory"), catalog)
    found = compare(here, names, catalog, lead=wanted, rate=given or _measure_rate(app, here, measured_s))
    if as_json:
        write_json({"schema": "ktrial.watermarks/1", **_fields(found)})
    else:
        sys.stdout.write(watermarks_text(found, width=columns()))


def _fields(found: object) -> dict[str, object]:
    import msgspec

    told: dict[str, object] = msgspec.to_builtins(found)
    return told


def _measure_rate(app: App, here: WatermarkLayout, duration_s: float | None) -> tuple[float, str] | None:
    from ktrial.watch.watermarks import peak_rate

    if duration_s is None:
        return None
    peak = peak_rate(app.user_session, app.clock, duration_s, here.page_bytes)
    if peak <= 0:
        raise BadInput("nothing was allocated in that time", hint="measure while the workload runs, or give --rate")
    return peak, f"the peak over a tenth of a second within {duration_s:g} s (taken and not given back of itself)"


def _lead(text: str) -> Lead:
    from ktrial.watch.watermarks import Lead

    if text.strip().endswith("B"):
        return Lead(text, amount_bytes=_size(text, "--lead"))
    return Lead(text, seconds=seconds(text, "--lead"))


def _size(text: str, option: str) -> float:
    from ktrial.kit.units import parse_quantity

    try:
        size = parse_quantity(text, "bytes")
    except ValueError as error:
        raise BadInput(f"{option} {text}: {error}", hint=f"for example {option} 2GiB") from None
    if not 4096 <= size < 2**60:
        raise BadInput(f"{option} {text}: not a size of memory", hint=f"for example {option} 2GiB")
    return size

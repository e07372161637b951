# SPDX-License-Identifier: Apache-2.0
"""`ktrial watermarks`: show when the kernel starts to reclaim memory, now and under other settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, seconds, settings_words, write_answer
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.watch.watermarks import Lead, WatermarkLayout


@click.command(short_help="Show how early kswapd wakes under each setting.")
@settings_words("[PROFILE|FILE|KNOB=VALUE[+KNOB=VALUE]…]")
@click.option(
    "--lead",
    metavar="SIZE|TIME",
    help="Lead that you want, such as 2GiB, or 500ms with --rate or --measure. ktrial computes the"
    " vm.watermark_scale_factor for this lead.",
)
@click.option("--rate", metavar="SIZE", help="Memory that programs allocate per second, to show leads as times too.")
@click.option("--measure", metavar="TIME", help="Measure the peak allocation rate over TIME, while the workload runs.")
@click.option("--memory", metavar="SIZE", help="Compute for a PC with this much memory, such as 96GiB.")
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
    """Show how low free memory must fall before kswapd starts to reclaim memory, now and under other settings.

    \b
    ktrial watermarks vm.watermark_scale_factor=125,500
    ktrial watermarks micro-stutter-watermarks vm.min_free_kbytes=3145728+vm.watermark_scale_factor=125
    ktrial watermarks --lead 500ms --measure 30s

    Each argument is a profile, settings joined by +, or a setting with a list of values. For the whole machine and for
    each memory zone, ktrial shows the watermarks and the lead. The lead is what programs can allocate after kswapd
    wakes and before they must reclaim memory. ktrial computes these figures as the kernel does, in whole pages, and
    changes nothing.
    """
    import msgspec

    from ktrial.watch.watermarks import compare, layout_elsewhere, layout_here
    from ktrial.watch.watermarks_text import watermarks_text

    if measure is not None and (rate is not None or memory is not None):
        other = "--rate" if rate is not None else "--memory"
        raise BadInput(f"cannot combine --measure with {other}", hint=f"leave out --measure or {other}")
    if measure is not None and app.host is not None and app.host.is_exact:
        why = "cannot use --measure in an exact guest: its clock does not follow real time"
        raise BadInput(why, hint="give the rate with --rate")
    catalog, names = app.catalog_for(words)
    wanted_lead = None if lead is None else _lead(lead)
    given = None if rate is None else (_size(rate, "--rate"), "as given")
    measured_s = None if measure is None else seconds(measure, "--measure")
    here = layout_here(app.user_session) if memory is None else layout_elsewhere(_size(memory, "--memory"), catalog)
    found = compare(here, names, catalog, lead=wanted_lead, rate=given or _measure_rate(app, here, measured_s))
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.watermarks/1", **msgspec.to_builtins(found)},
        lambda width: watermarks_text(found, width=width),
    )


def _measure_rate(app: App, here: WatermarkLayout, duration_s: float | None) -> tuple[float, str] | None:
    from ktrial.watch.watermarks import peak_rate

    if duration_s is None:
        return None
    peak = peak_rate(app.user_session, app.clock, duration_s, here.page_bytes)
    if peak <= 0:
        raise BadInput(
            f"cannot measure a rate: memory in use did not grow within {duration_s:g} s",
            hint="measure while the workload runs, or use --rate",
        )
    return peak, f"the peak over 0.1 s within {duration_s:g} s (allocations minus voluntary frees)"


def _lead(text: str) -> Lead:
    from ktrial.watch.watermarks import Lead

    if text.strip().endswith(tuple("BKMGTi")):  # `2G` is a size without its B, not a time
        return Lead(text, amount_bytes=_size(text, "--lead"))
    return Lead(text, seconds=seconds(text, "--lead"))


def _size(text: str, option: str) -> float:
    from ktrial.kit.units import parse_quantity

    try:
        size = parse_quantity(text, "bytes")
    except ValueError as error:
        raise BadInput(f"{option}: {error}", hint=f"for example  {option} 2GiB") from None
    if not 4096 <= size < 2**60:
        raise BadInput(f"{option} {text}: expected 4 KiB or more, below 1 EiB", hint=f"for example  {option} 2GiB")
    return size

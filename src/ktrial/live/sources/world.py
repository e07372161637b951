# SPDX-License-Identifier: Apache-2.0
"""The parts that live metrics share (clocks, the machine, commands, the network), and the syntax of metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ktrial.agent.session import AgentSession
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.command_benchmark import Metric
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Outcome, OutcomeKind, Unit
from ktrial.kit.units import parse_quantity
from ktrial.live.model import LiveMetric
from ktrial.live.sources.web import Fetch, fetch
from ktrial.machine.ports import Clock, Machine

_POLL_S = (0.1, 3600.0)
_KINDS: Mapping[str, OutcomeKind] = {"s": "time", "ratio": "score", "B/s": "rate", "1/s": "rate"}


class LiveWorld(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a source may use.

    `machine` returns a session of the user on the machine under test. `run` runs a command there, as the user and
    without a shell, for at most the given seconds. `period_s` is the length of a period, if known. `is_remote` is true
    if the files of the machine can only be read through an agent. `open_root` opens a root session for one source; None
    if that is impossible.
    """

    clock: Clock
    machine: Callable[[], Machine]
    run: Callable[[Sequence[str], float], RawOutput]
    period_s: float | None = None
    is_remote: bool = False
    open_root: Callable[[], AgentSession] | None = None
    fetch: Fetch = fetch


def named_outcome(metric: LiveMetric) -> tuple[Outcome, float]:
    """Return the outcome that the metric's name describes, and a factor.

    The factor converts the unit in the name to the outcome's unit.
    """
    found, factor = Metric(metric.name, metric.direction, "").outcome()
    blind = f"Contains only the values of {metric.source}, which may not count everything."
    sentences = {"better": f"{found.name} became better.", "worse": f"{found.name} became worse."}
    return msgspec.structs.replace(found, headline=True, blind_spots=blind, **sentences), factor


def measured_outcome(metric: LiveMetric, unit: Unit) -> Outcome:
    """Return the outcome of a metric whose source measures `unit`.

    Raise BadInput if the metric's name implies another unit.
    """
    found, _ = named_outcome(metric)
    if found.unit not in ("score", unit):
        raise BadInput(
            f"--metric {metric.source!r}: the name {metric.name} implies the unit {found.unit}, but this source "
            f"measures {unit}",
            hint=f"name the metric {found.name}; ktrial knows the unit of this source",
        )
    return msgspec.structs.replace(found, unit=unit, kind=_KINDS.get(unit, found.kind), low=0)


def split_options(metric: LiveMetric, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Split the text after the kind into the part before `?` and the options after it.

    An option ends at the `&` before the next known option, because values may contain `&`. Raise BadInput for an
    unknown or repeated option.
    """
    place, mark, rest = metric.source.partition(":")[2].partition("?")
    if not mark:
        return place, {}
    parts = re.split(rf"&(?=(?:{'|'.join(known)})(?:=|&|$))", rest)
    found: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        if name not in known:
            raise bad_metric(metric, f"unknown option {name!r}", f"use one of: {', '.join(known)}")
        if name in found:
            raise bad_metric(metric, f"{name} is given twice", f"give {name} once")
        found[name] = value
    return place, found


def bad_metric(metric: LiveMetric, why: str, hint: str) -> BadInput:
    return BadInput(f"cannot read --metric {metric.source!r}: {why}", hint=hint)


def check_label(metric: LiveMetric, label: str | None) -> None:
    """Raise BadInput if `label`, the value of the option `version`, is not the name of a label."""
    if label is not None and not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label):
        raise bad_metric(metric, f"{label!r} is not the name of a label", "for example  &version=version")


def poll_option(metric: LiveMetric, options: Mapping[str, str], usual_s: float) -> float:
    """Return the seconds of the option `poll`, or `usual_s` without it. Raise BadInput for an impossible time."""
    text = options.get("poll")
    if text is None:
        return usual_s
    try:
        poll_s = parse_quantity(text, "seconds")
    except ValueError as error:
        raise bad_metric(metric, str(error), "for example  &poll=15s") from None
    if not _POLL_S[0] <= poll_s <= _POLL_S[1]:
        raise bad_metric(
            metric, f"poll={text} is out of range", f"use {_POLL_S[0]:g}s to {_POLL_S[1]:g}s, for example  &poll=15s"
        )
    return poll_s


def refuse_short_period(metric: LiveMetric, every_s: float, period_s: float | None) -> None:
    """Raise BadInput if a period is too short for two readings."""
    if period_s is not None and period_s < 2 * every_s:
        raise BadInput(
            f"--metric {metric.source!r}: ktrial reads the source every {every_s:g} s, less than twice in a period of "
            f"{period_s:g} s",
            hint=f"use --period {2 * every_s:g}s or more, or a shorter --poll",
        )

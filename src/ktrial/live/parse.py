# SPDX-License-Identifier: Apache-2.0
"""Metrics of live work as users write them: `[NAME:lower|higher=]KIND:REST`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ktrial.bench.command_benchmark import Metric
from ktrial.kit.errors import BadInput, nearest
from ktrial.live.model import LiveMetric, MetricSource
from ktrial.live.sources.command import CommandSource, command_words
from ktrial.live.sources.events import EventsSource, traced_of
from ktrial.live.sources.frames import FramePart, open_frames
from ktrial.live.sources.log import MatchedPart, open_log
from ktrial.live.sources.openmetrics import OpenMetricsSource, wanted_of
from ktrial.live.sources.process import kernel_counter, open_kernel_counter
from ktrial.live.sources.prometheus import PrometheusSource, query_of
from ktrial.live.sources.world import LiveWorld, named_outcome

_DIRECTIONS = ("lower", "higher")
_MOST = 16_384
_USAGE = (
    "write [NAME:lower|higher=]KIND:…, where KIND is one of {}, for example  "
    "p99_ms:lower=log:/var/log/app?match=took ([0-9.]+) ms&take=p99"
)


class SourceKind(NamedTuple):
    """A kind of source: `check` raises BadInput for a metric that can never be read."""

    check: Callable[[LiveMetric], object]
    open: Callable[[LiveMetric, LiveWorld], MetricSource]


KINDS: Mapping[str, SourceKind] = {
    "prometheus": SourceKind(query_of, PrometheusSource),
    "openmetrics": SourceKind(wanted_of, OpenMetricsSource),
    "log": SourceKind(MatchedPart, open_log),
    "command": SourceKind(command_words, CommandSource),
    "pid": SourceKind(kernel_counter, open_kernel_counter),
    "cgroup": SourceKind(kernel_counter, open_kernel_counter),
    "pressure": SourceKind(kernel_counter, open_kernel_counter),
    "frames": SourceKind(FramePart, open_frames),
    "events": SourceKind(traced_of, EventsSource),
}


def parse_metric(text: str) -> LiveMetric:
    """Parse the value of `--metric`. If it gives no name, the kind becomes the name, and lower is better.

    Raise BadInput if the text or the source is invalid.
    """
    if len(text) > _MOST:
        raise BadInput(f"--metric {text[:40]!r}… is longer than {_MOST} characters", hint="shorten the metric")
    head, equals, rest = text.partition("=")
    name, _, direction = head.partition(":")
    is_named = bool(equals) and (
        direction in _DIRECTIONS or (name not in KINDS and re.fullmatch(r"[a-z]+", direction) is not None)
    )
    if is_named and direction not in _DIRECTIONS:
        raise BadInput(
            f"cannot read --metric {text!r}: {direction!r} is not a direction", hint="write :lower= or :higher="
        )
    source = rest if is_named else text
    kind, colon, _ = source.partition(":")
    if not colon or kind not in KINDS:
        near = nearest(kind, KINDS)
        hint = f"did you mean {' or '.join(near)}?" if near else _USAGE.format(", ".join(KINDS))
        raise BadInput(f"cannot read --metric {text!r}: unknown kind of source {kind[:40]!r}", hint=hint)
    metric = LiveMetric(
        name=name if is_named else kind,
        direction="higher" if is_named and direction == "higher" else "lower",
        source=source,
    )
    check_metric(metric)
    return metric


def check_metric(metric: LiveMetric) -> None:
    """Raise BadInput if the name is invalid or the source can never be read."""
    kind = metric.source.partition(":")[0]
    if kind not in KINDS:
        raise BadInput(f"unknown kind of source {kind[:40]!r}", hint=_USAGE.format(", ".join(KINDS)))
    for key, error in Metric(metric.name, metric.direction, "()").faults():
        if key == "name":
            raise BadInput(f"--metric: {error.message}", hint=error.hint)
    KINDS[kind].check(metric)


def parse_metrics(texts: Sequence[str]) -> tuple[LiveMetric, ...]:
    """Parse all values of `--metric`. Raise BadInput if two metrics have the same name."""
    found = tuple(map(parse_metric, texts))
    taken: dict[str, LiveMetric] = {}
    for metric in found:
        name = named_outcome(metric)[0].name
        if name in taken:
            raise BadInput(
                f"--metric {metric.source!r} and {taken[name].source!r} both have the name {name}",
                hint=f"give one metric another name, for example  NAME:lower={metric.source}",
            )
        taken[name] = metric
    return found


def note_of_unnamed(text: str) -> str | None:
    """Return a note for the user about a metric without a name; None if the metric has a name."""
    metric = parse_metric(text)
    if metric.source != text:
        return None
    return (
        f"{metric.name}: ktrial assumes that lower is better; if higher is, write NAME:higher={metric.name}:… "
        "(NAME may end in a unit, such as rate_per_s)"
    )


def open_source(metric: LiveMetric, world: LiveWorld) -> MetricSource:
    """Return the source of a metric; the caller then calls its `begin`. Raise BadInput if it cannot be opened."""
    check_metric(metric)
    return KINDS[metric.source.partition(":")[0]].open(metric, world)

# SPDX-License-Identifier: Apache-2.0
"""One series of an endpoint that shows metrics as text: `openmetrics:http://host/metrics?name=NAME{labels}`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktrial.kit.errors import BadInput, BadRun
from ktrial.live.model import LiveMetric, Sample, Stretch, StretchReading
from ktrial.live.sources.exposition import Exposed, Exposition, read_exposition
from ktrial.live.sources.histogram import BucketQuantile, bound_of, bucket_quantile
from ktrial.live.sources.polled import CounterValues, PolledSource, Timeline, UnitGuard, growth, missing
from ktrial.live.sources.web import NotRead, check_address
from ktrial.live.sources.world import LiveWorld, bad_metric, check_label, named_outcome, poll_option, split_options

_OPTIONS = ("name", "quantile", "version", "poll")
_USUAL_POLL_S = 5.0
_MOST_WAIT_S = 5.0
#: A sample with its own time is stale after this many intervals.
_STALE_POLLS = 2.5
_ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
_START = "process_start_time_seconds"
#: Suffixes of sample names in a family.
_ENDS = ("_total", "_created", "_bucket", "_count", "_sum", "_gcount", "_gsum", "_info")


class WantedSeries(NamedTuple):
    """The series that a metric names, and the quantile to compute, if any."""

    address: str
    name: str
    labels: Mapping[str, str]
    quantile: float | None
    version: str | None
    poll_s: float


class Scrape(NamedTuple):
    """The wanted series in one scrape: a number, or counters. `version` is the value of the label for the version."""

    value: float | None
    counts: CounterValues | None
    version: str | None
    started_s: float | None
    unit: str | None


def wanted_of(metric: LiveMetric) -> WantedSeries:
    """Return the series that the metric names. Raise BadInput if the text is invalid."""
    address, options = split_options(metric, _OPTIONS)
    check_address(address, f"--metric {metric.source!r}")
    text = options.get("name", "")
    try:
        sample = read_exposition(f"{text} 0\n".encode(), "name", is_openmetrics=False).samples
    except BadRun:
        sample = ()
    if not text or len(sample) != 1 or sample[0].at_ms is not None:
        why = f"{text!r} is not the name of a series" if text else "name= is missing"
        raise bad_metric(metric, why, 'for example  ?name=requests_total{code="200"}')
    quantile = options.get("quantile")
    try:
        share = None if quantile is None else float(quantile)
    except ValueError:
        share = math.nan
    if share is not None and not 0 < share < 1:
        raise bad_metric(
            metric, f"expected a quantile between 0 and 1, got {quantile!r}", "for example  &quantile=0.99"
        )
    check_label(metric, options.get("version"))
    return WantedSeries(
        address=address,
        name=sample[0].name,
        labels=sample[0].labels,
        quantile=share,
        version=options.get("version"),
        poll_s=poll_option(metric, options, _USUAL_POLL_S),
    )


class OpenMetricsSource(PolledSource):
    """Scrapes an endpoint. Gauges are averaged; counters and histograms count what happened within the stretch."""

    def __init__(self, metric: LiveMetric, world: LiveWorld) -> None:
        wanted = wanted_of(metric)
        outcome, self._factor = named_outcome(metric)
        super().__init__(metric, outcome, world, wanted.poll_s)
        self._wanted = wanted
        self._scrapes: Timeline[Scrape] = Timeline()
        self._guard = UnitGuard()

    def _begin(self) -> None:
        self._scrape()

    def _poll(self) -> Sequence[Sample]:
        before = self._scrapes.last()
        at_ms, scrape = self._scrape()
        if before is None or at_ms <= before[0]:
            return ()
        pair = ((before[0], at_ms), (before[1], scrape)) if scrape.value is None else ((at_ms,), (scrape,))
        value = self._value(*pair).value * self._factor
        why = self._guard.why_changed(value, scrape.started_s, scrape.unit)
        if why is not None:
            raise NotRead(why)
        return (Sample(at_ms, value),)

    def _over(self, stretch: Stretch) -> StretchReading:
        last = self._scrapes.last()
        is_gauge = last is not None and last[1].value is not None
        times, scrapes = self.covered(stretch, self._scrapes, 1 if is_gauge else 2)
        versions = sorted({one.version for one in scrapes if one.version is not None})
        if len(versions) > 1:
            return missing(f"several versions ran: {', '.join(versions[:4])}")
        version = versions[0] if versions else None
        units = list(dict.fromkeys(one.unit for one in scrapes))
        if len(units) > 1:
            return missing(f"its unit changed from {units[0]} to {units[1]}", version=version)
        found = self._value(times, scrapes)
        value = found.value * self._factor
        why = self._guard.why_changed(value, scrapes[-1].started_s, scrapes[-1].unit)
        if why is not None:
            return missing(why, version=version)
        is_bucket = self._wanted.quantile is not None
        return StretchReading(
            value=value,
            samples=len(times),
            low=found.low * self._factor if is_bucket else None,
            high=found.high * self._factor if is_bucket and found.high is not None else None,
            version=version,
        )

    def _value(self, times: Sequence[int], scrapes: Sequence[Scrape]) -> BucketQuantile:
        """Return the value of these scrapes: a mean, a rate or a quantile. Raise NotRead if the type changed."""
        gauges = [one.value for one in scrapes if one.value is not None]
        if len(gauges) == len(scrapes):
            mean = statistics.fmean(gauges)
            return BucketQuantile(mean, mean, mean)
        counts = [one.counts for one in scrapes if one.counts is not None]
        if len(counts) != len(scrapes):
            raise NotRead("the type of the metric changed", hint="run one version of the program throughout")
        grown = growth(counts, together=True)
        if self._wanted.quantile is not None:
            buckets = {bound: count for le, count in grown.items() if (bound := bound_of(le)) is not None}
            return bucket_quantile(buckets, self._wanted.quantile)
        rate = sum(grown.values()) / ((times[-1] - times[0]) / 1000)
        return BucketQuantile(rate, rate, rate)

    def _scrape(self) -> tuple[int, Scrape]:
        begin_ms = self._world.clock.unix_ms()
        answer = self._world.fetch(self._wanted.address, min(_MOST_WAIT_S, max(1.0, self.poll_s)), _ACCEPT)
        at_ms = (begin_ms + self._world.clock.unix_ms()) // 2
        if answer.status != 200:
            raise NotRead(
                f"{self._wanted.address} answers with status {answer.status}",
                hint=f"run `curl {self._wanted.address}` to see the answer",
            )
        try:
            found = read_exposition(
                answer.data,
                self._wanted.address,
                is_openmetrics=answer.content_type.startswith("application/openmetrics-text"),
                wants=self._wants,
            )
        except BadRun as error:
            raise NotRead(error.message, hint=f"run `curl {self._wanted.address}` to see the answer") from None
        scrape = scrape_of(found, self._wanted)
        own_ms = [one.at_ms for one in found.samples if one.at_ms is not None and one.name != _START]
        if own_ms and at_ms - max(own_ms) > _STALE_POLLS * self.poll_s * 1000:
            raise NotRead(
                f"the newest sample is {(at_ms - max(own_ms)) / 1000:.1f} s old",
                hint="check that the program still updates its metrics",
            )
        self._scrapes.add(at_ms, scrape)
        return at_ms, scrape

    def _wants(self, name: str) -> bool:
        family = self._wanted.name
        return (
            name in {family, _START}
            or (name.startswith(_family(family)) and name.endswith(_ENDS))
            or (self._wanted.version is not None and name.endswith("_info"))
        )


def scrape_of(found: Exposition, wanted: WantedSeries) -> Scrape:
    """Return the wanted series in a scrape. Raise NotRead if it has no value now, BadInput if it never can have one."""
    family = next((one for one in (wanted.name, _family(wanted.name)) if one in found.types), wanted.name)
    kind = found.types.get(family, "unknown")
    if kind in {"unknown", "untyped"} and wanted.name.endswith("_total"):
        kind = "counter"
    suffix = "_bucket" if wanted.quantile is not None else ""
    if wanted.quantile is not None and kind == "summary":
        raise BadInput(
            f"cannot read a quantile of {wanted.name}: it is a summary, and the program computes the quantiles of a "
            "summary over its own time window",
            hint=f"expose a histogram, or measure the rate of {family}_sum or {family}_count",
        )
    if wanted.quantile is not None and kind not in {"histogram", "unknown", "untyped"}:
        raise BadInput(f"{wanted.name} is a {kind}, which has no quantiles", hint="leave out &quantile=")
    if wanted.quantile is None and wanted.name == family and kind in {"histogram", "gaugehistogram", "summary"}:
        letter = "g" if kind == "gaugehistogram" else ""
        hint = "add &quantile=0.99" if kind == "histogram" else f"name {family}_{letter}count or {family}_{letter}sum"
        raise BadInput(f"{wanted.name} is a {kind}, not one number", hint=hint)
    name = _family(wanted.name) + suffix if suffix else wanted.name
    names = {name, f"{name}_total"} if kind == "counter" else {name}
    drop = {wanted.version, "le"} if suffix else {wanted.version}
    series = [
        one
        for one in found.samples
        if one.name in names and all(one.labels.get(key) == value for key, value in wanted.labels.items())
    ]
    _check_one([{key: value for key, value in one.labels.items() if key not in drop} for one in series], wanted)
    versions = _versions(found, series, wanted)
    if len(versions) > 1:
        raise NotRead(
            f"several versions are running: {', '.join(sorted(versions)[:4])}",
            hint="wait until only one version runs",
        )
    is_counter = bool(suffix) or kind == "counter" or (wanted.name != family and kind in {"histogram", "summary"})
    counts = None
    if is_counter:
        counts = CounterValues(
            {one.labels.get("le", "") if suffix else "": one.value for one in series}, _epoch(found, series)
        )
        if not all(map(math.isfinite, counts.values.values())):
            raise NotRead(f"{name} is not a finite number", hint="name another series")
    elif not math.isfinite(series[0].value):
        raise NotRead(f"{name} is {series[0].value}, not a finite number", hint="name another series")
    started = [one.value for one in found.samples if one.name == _START]
    return Scrape(
        value=None if is_counter else series[0].value,
        counts=counts,
        version=next(iter(versions), None),
        started_s=max(started, default=None),
        unit=found.units.get(family),
    )


def _family(name: str) -> str:
    return next((name.removesuffix(end) for end in _ENDS if name.endswith(end) and name != end), name)


def _check_one(labels: Sequence[Mapping[str, str]], wanted: WantedSeries) -> None:
    """Raise an error unless all samples are of one series."""
    if not labels:
        raise NotRead(
            f"{wanted.address} has no series {wanted.name}{_braces(wanted.labels)}",
            hint=f"run `curl {wanted.address}` to list the series",
        )
    other = next((one for one in labels if one != labels[0]), None)
    if other is not None:
        both = f"{wanted.name}{_braces(labels[0])} and {wanted.name}{_braces(other)}"
        raise BadInput(
            f"{wanted.address} has several series named {wanted.name}: {both}",
            hint=f"select one series by its labels, or aggregate all with prometheus:…?query=sum({wanted.name})",
        )


def _braces(labels: Mapping[str, str]) -> str:
    return f"{{{','.join(f'{key}={msgspec.json.encode(value).decode()}' for key, value in labels.items())}}}"


def _versions(found: Exposition, series: Sequence[Exposed], wanted: WantedSeries) -> set[str]:
    """Return the values of the version's label on the series, or else on metrics …_info.

    Raise NotRead if nothing has this label. Return none if the user names no label.
    """
    if wanted.version is None:
        return set()
    own = {one.labels[wanted.version] for one in series if wanted.version in one.labels}
    infos = {
        one.labels[wanted.version]
        for one in found.samples
        if one.name.endswith("_info") and one.labels.get(wanted.version)
    }
    if not own and not infos:
        raise NotRead(
            f"{wanted.address} has no label {wanted.version}, neither on {wanted.name} nor on a metric …_info",
            hint="name another label with &version=LABEL",
        )
    return own or infos


def _epoch(found: Exposition, series: Sequence[Exposed]) -> str:
    """Return when the series was created; empty if the scrape does not say."""
    labels = {key: value for key, value in series[0].labels.items() if key != "le"}
    name = f"{_family(series[0].name)}_created"
    created = next((one.value for one in found.samples if one.name == name and one.labels == labels), None)
    return "" if created is None else repr(created)

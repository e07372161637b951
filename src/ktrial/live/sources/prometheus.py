# SPDX-License-Identifier: Apache-2.0
"""A query to a Prometheus server: `prometheus:http://host:9090?query=QUERY[&version=LABEL][&poll=15s]`.

The value of a stretch comes from the samples inside the stretch. Each range in the query becomes the time from the
first of these samples to the last. Series without a range are averaged over that time. A stretch that the samples do
not cover has no value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from ktrial.kit.errors import BadInput
from ktrial.live.model import LiveMetric, Sample, Stretch, StretchReading
from ktrial.live.sources.histogram import BucketQuantile, bound_of, bucket_quantile
from ktrial.live.sources.polled import PolledSource, UnitGuard, missing, why_gap
from ktrial.live.sources.prometheus_api import PrometheusApi, QuerySeries
from ktrial.live.sources.promql import OF_COUNTERS, Query, read_query
from ktrial.live.sources.web import IdleSource, NotRead, check_address
from ktrial.live.sources.world import LiveWorld, bad_metric, check_label, named_outcome, poll_option, split_options

_OPTIONS = ("query", "version", "poll")
#: Prometheus's default interval, which is used before the first scrape.
_USUAL_EVERY_S = 60.0
_LOOK_BACK_S = 900
#: A reading of a moment covers this many intervals before it, which contain two scrapes.
_WITHIN = 2.5
#: A sample is stale after this many intervals.
_STALE = 2.5
_FASTEST_S = 0.5
#: Maximum difference between the server's clock and this machine's clock, which places the samples.
_MOST_SKEW_MS = 2500
#: If the server does not answer, a stretch is read again after these seconds, for at most these nanoseconds.
_AGAIN_S, _AGAIN_FOR_NS = 0.5, 1_500_000_000
_MOST_POINTS = 10_000


def query_of(metric: LiveMetric) -> tuple[str, Query, Mapping[str, str]]:
    """Return the server's address, the query, and the options. Raise BadInput if one of them is invalid."""
    address, options = split_options(metric, _OPTIONS)
    option = f"--metric {metric.source!r}"
    check_address(address, option)
    if "query" not in options:
        raise bad_metric(metric, "query= is missing", "for example  prometheus:http://localhost:9090?query=node_load1")
    check_label(metric, options.get("version"))
    poll_option(metric, options, _USUAL_EVERY_S)
    return address.rstrip("/"), read_query(options["query"], option), options


class PrometheusSource(PolledSource):
    """Reads the value of a query at each scrape, and over stretches of time."""

    def __init__(self, metric: LiveMetric, world: LiveWorld) -> None:
        address, self._query, options = query_of(metric)
        outcome, self._factor = named_outcome(metric)
        super().__init__(metric, outcome, world, poll_option(metric, options, _USUAL_EVERY_S / 2))
        self._api = PrometheusApi(address, world)
        self._version = options.get("version")
        self._usual_poll_s = None if "poll" in options else self.poll_s
        #: Seconds between two scrapes.
        self.every_s = _USUAL_EVERY_S
        self._last_ms = 0
        self._guard = UnitGuard()

    def _begin(self) -> None:
        self._refuse_counters()
        self.every_s = self._interval_s()
        self._refuse_skew()
        if self.poll_s == self._usual_poll_s:
            self.poll_s = max(_FASTEST_S, self.every_s / 2)
        now_s = self._api.now_s()
        within = round(_WITHIN * self.every_s * 1000)
        with suppress(IdleSource):  # the source may have work later
            self._evaluated(self._query.over(within), now_s)
        if self._version is not None:
            self._versions(now_s, within)
        period_s = self._world.period_s
        if period_s is not None and period_s < 2 * self.every_s:
            raise BadInput(
                f"--metric {self.metric.source!r}: the server scrapes this metric every {self.every_s:g} s, less than "
                f"twice in a period of {period_s:g} s",
                hint=f"use --period {2 * self.every_s:g}s or more, or scrape more often",
            )

    def _poll(self) -> Sequence[Sample]:
        newest_s = min(self._newest_s(one.text) for one in self._query.selectors)
        if self._api.skew_ms > _MOST_SKEW_MS:
            raise NotRead(self._skew_text())
        age_s = self._api.now_s() - newest_s
        if age_s > _STALE * self.every_s + _MOST_SKEW_MS / 1000:
            raise NotRead(f"the newest sample is {age_s:.1f} s old", hint="check that the target is up and scraped")
        at_ms = round(newest_s * 1000)
        if at_ms <= self._last_ms:
            return ()
        query = self._query.within(self._range_ms(at_ms))
        value = self._evaluated(query, newest_s).value * self._factor
        why = self._guard.why_changed(value, self._started_s(newest_s))
        if why is not None:
            raise NotRead(why)
        self._last_ms = at_ms
        return (Sample(at_ms, value),)

    def _over(self, stretch: Stretch) -> StretchReading:
        end_ns = self._world.clock.monotonic_ns() + _AGAIN_FOR_NS
        while True:
            try:
                return self._read(stretch)
            except NotRead:
                if not self._api.is_down or self._world.clock.monotonic_ns() >= end_ns:
                    raise
                self._world.clock.sleep(_AGAIN_S)

    def _read(self, stretch: Stretch) -> StretchReading:
        times: set[int] = set()
        begin_ms, end_ms = stretch.end_ms, stretch.begin_ms
        for one in self._query.selectors:
            found = self._sample_times(one.text, stretch)
            why = why_gap(found, stretch, self.every_s)
            if why is not None:
                raise NotRead(f"{one.text}: {why}", hint="check that the target is up and scraped")
            times.update(found)
            begin_ms, end_ms = min(begin_ms, found[0]), max(end_ms, found[-1])
        if self._api.skew_ms > _MOST_SKEW_MS:
            raise NotRead(self._skew_text())
        # The range includes the first sample, whichever end of a range the server excludes.
        range_ms, end_s = end_ms - begin_ms + 1, end_ms / 1000
        if len(times) < 2 and any(one.has_range for one in self._query.selectors):
            raise NotRead("one sample is too few for a rate", hint="use a longer --period, or scrape more often")
        self._refuse_lost_targets(range_ms, end_s)
        versions = [] if self._version is None else self._versions(end_s, range_ms)
        found_value = self._evaluated(self._query.over(range_ms), end_s)
        value = found_value.value * self._factor
        version = versions[0] if versions else None
        why = self._guard.why_changed(value, self._started_s(end_s), self._unit())
        if why is not None:
            return missing(why, version=version)
        is_bucket = found_value.low != found_value.high
        high = found_value.high
        return StretchReading(
            value=value,
            samples=len(times),
            low=found_value.low * self._factor if is_bucket else None,
            high=high * self._factor if is_bucket and high is not None else None,
            version=version,
        )

    def _evaluated(self, query: str, at_s: float) -> BucketQuantile:
        """Return the value of a query at a moment. Raise NotRead, and BadInput for several series."""
        if self._query.quantile is None or self._query.buckets is None:
            value = self._one(self._api.at(query, at_s))
            return BucketQuantile(value, value, value)
        rewritten = read_query(query, "--metric")
        found = self._api.at(rewritten.buckets or "", at_s)
        if any("le" not in one.labels for one in found):
            value = self._one(self._api.at(query, at_s))  # a native histogram has no label `le`
            return BucketQuantile(value, value, value)
        groups = {frozenset((key, text) for key, text in one.labels.items() if key != "le") for one in found}
        if len(groups) > 1:
            self._one([QuerySeries(dict(group), math.nan) for group in groups])
        buckets = {bound: one.value for one in found if (bound := bound_of(one.labels["le"])) is not None}
        if not buckets:
            raise NotRead("the query returns no series", hint="try the query on the server's web page")
        return bucket_quantile(buckets, self._query.quantile)

    def _one(self, found: Sequence[QuerySeries]) -> float:
        """Return the value of the only series.

        Raise NotRead if there is no series or no finite value, BadInput if there are several series.
        """
        if not found:
            raise NotRead("the query returns no series", hint="try the query on the server's web page")
        if len(found) > 1:
            first, second = sorted(one.text for one in found)[:2]
            raise BadInput(
                f"--metric {self.metric.source!r}: the query returns {len(found)} series, such as {first} and {second}",
                hint=f"aggregate the series, for example  query=sum({self._query.text}), or select one by a label",
            )
        if not math.isfinite(found[0].value):
            raise IdleSource(
                f"the query returns {found[0].value} (nothing was counted, or the query divides by 0)",
                hint="start the work that the query measures",
            )
        return found[0].value

    def _refuse_counters(self) -> None:
        """Raise BadInput for a counter that the query uses as a gauge."""
        for one in self._query.selectors:
            if one.name is None or one.function in OF_COUNTERS or not self._api.is_counter(one.name):
                continue
            begin, end = one.begin, one.end
            query = f"{self._query.text[:begin]}rate({one.text}[1m]){self._query.text[end:]}"
            if one.function is not None and one.has_range:
                query = f"rate({one.text}[1m])"
            raise BadInput(
                f"--metric {self.metric.source!r}: {one.name} is a counter, which only grows",
                hint=f"write query={query} to measure how fast the counter grows",
            )

    def _interval_s(self) -> float:
        """Return the longest usual interval between two scrapes of a series. Raise NotRead if there are too few."""
        longest_s = 0.0
        for one in self._query.selectors:
            raw = self._api.raw_times(one.text, one.name, _LOOK_BACK_S)
            if len(raw) < 2:
                raise NotRead(
                    f"{one.text} has fewer than 2 samples in the last {_LOOK_BACK_S // 60} minutes",
                    hint="check that the target is up and scraped",
                )
            gaps = sorted(after - before for before, after in pairwise(raw))
            longest_s = max(longest_s, gaps[len(gaps) // 2])
        return round(longest_s, 1) if longest_s >= 1 else longest_s

    def _refuse_skew(self) -> None:
        if self._api.skew_ms > _MOST_SKEW_MS:
            raise BadInput(
                f"--metric {self.metric.source!r}: {self._skew_text()}", hint="synchronise both clocks, by NTP or PTP"
            )

    def _skew_text(self) -> str:
        return f"the clocks of the server and of this machine are {self._api.skew_ms / 1000:.1f} s apart"

    def _newest_s(self, selector: str) -> float:
        found = self._api.at(f"max(timestamp({selector}))", None)
        if not found:
            raise NotRead(f"{selector} has no sample", hint="check that the target is up and scraped")
        return found[0].value

    def _sample_times(self, selector: str, stretch: Stretch) -> list[int]:
        """Return the times of the samples inside a stretch, of all series together."""
        step_s = max(_FASTEST_S, self.every_s / 2, stretch.seconds / _MOST_POINTS)
        found = self._api.over(f"max(timestamp({selector}))", stretch, step_s)
        times = {round(value * 1000) for value in found}
        return sorted(at for at in times if stretch.begin_ms <= at < stretch.end_ms)

    def _refuse_lost_targets(self, range_ms: int, end_s: float) -> None:
        """Raise NotRead if a target was not scraped during part of the range."""
        step = max(round(self.every_s * 500), range_ms // _MOST_POINTS, 500)
        slack_s = _STALE * self.every_s
        for one in self._query.selectors:
            times = f"(timestamp({one.text})[{range_ms}ms:{step}ms])"
            ended = self._api.at(f"min(max by (job, instance) (max_over_time{times}))", end_s)
            if ended and ended[0].value < end_s - slack_s:
                raise NotRead(
                    f"a target of {one.text} was not scraped for the last {end_s - ended[0].value:.1f} s",
                    hint="check that the target is up and scraped",
                )

    def _range_ms(self, end_ms: int) -> int:
        """Return the milliseconds from an earlier scrape to `end_ms`. Raise NotRead if there was only one scrape."""
        if not any(one.has_range for one in self._query.selectors):
            return 1
        stretch = Stretch(end_ms - round(_WITHIN * self.every_s * 1000), end_ms + 1)
        begin_ms = min(min(self._sample_times(one.text, stretch), default=end_ms) for one in self._query.selectors)
        if begin_ms == end_ms:
            raise NotRead("one sample is too few for a rate", hint="use a longer --period, or scrape more often")
        return end_ms - begin_ms + 1

    def _versions(self, end_s: float, range_ms: int) -> list[str]:
        """Return the version that was running. Raise NotRead if it is unknown, or if several versions ran."""
        label, selector = self._version, self._query.selectors[0].text
        infos = f'{{__name__=~".+_info",{label}!=""}}[{range_ms}ms]'
        series = f"last_over_time({selector}[{range_ms}ms])"
        queries = (
            f"count by ({label}) ({series})",
            f"count by ({label}) (last_over_time({infos}) and on (job, instance) {series})",
        )
        for query in queries:
            found = sorted({text for one in self._api.at(query, end_s) if (text := one.labels.get(str(label)))})
            if len(found) > 1:
                raise NotRead(f"several versions ran: {', '.join(found[:4])}", hint="wait until only one version runs")
            if found:
                return found
        raise NotRead(
            f"the label {label} is neither on {selector} nor on a metric …_info of its target",
            hint="name another label with &version=LABEL",
        )

    def _started_s(self, at_s: float) -> float | None:
        """Return when the newest process behind the query started; None if the server does not know it."""
        selector = self._query.selectors[0].text
        found = self._api.at(f"max(process_start_time_seconds and on (job, instance) {selector})", at_s)
        return found[0].value if found else None

    def _unit(self) -> str | None:
        """Return the units that the server knows for the metrics of the query; None if it knows none."""
        units = [self._api.unit(one.name) for one in self._query.selectors if one.name is not None]
        return ", ".join(one for one in units if one) or None

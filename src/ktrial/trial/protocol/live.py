# SPDX-License-Identifier: Apache-2.0
"""The table `[live]` of a protocol, for a trial whose runs are periods of live work that ktrial watches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.units import parse_quantity

#: The name of what a live trial measures, in place of the benchmark of other trials.
LIVE = "live"
#: The outcome of a person's ratings.
RATING = "rating"
DAY_S = 86400.0
_SPEC = 'for example  metrics = ["latency_ms:lower=log:/var/log/app.log?match=took ([0-9.]+)&take=p99"]'
#: A time of day: hours and minutes.
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_DAYS = re.compile(r"\s*([0-9]{1,4}(?:\.[0-9]{1,3})?)\s*(d|w)\s*")
_LONGEST_S = 60 * DAY_S
#: A larger error rate of guards would not be useful.
MOST_GUARD_ERROR = 0.2


class QuietHours(msgspec.Struct, frozen=True):
    """The quiet hours of each day. `begin` and `end` are minutes since midnight; the hours may cross midnight."""

    begin: int
    end: int

    def left_s(self, second_of_day: float) -> float:
        """Return the seconds until the quiet hours end; 0 outside of the quiet hours."""
        inside = (second_of_day - 60 * self.begin) % DAY_S
        return max(0.0, self.length_s - inside)

    def until_s(self, second_of_day: float) -> float:
        """Return the seconds until the quiet hours begin; 0 within the quiet hours."""
        return 0.0 if self.left_s(second_of_day) else (60 * self.begin - second_of_day) % DAY_S

    @property
    def length_s(self) -> float:
        return 60.0 * ((self.end - self.begin) % (24 * 60))


class LiveFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a trial watches live work.

    `metrics` are read from sources; the first metric is primary unless `primary` names another. `covariates` are read
    too and explain noise; with `adjust`, the verdict is at equal covariates. The trial ends as soon as a metric of
    `guards` is worse by more than its share. `limits` sets limits in the units of the metrics; the trial ends when
    a metric passes its limit.

    After a switch ktrial ignores the time `washout` and then watches for `period`. Without `period`, a pilot plans the
    missing times; if only `washout` is missing, the settings and sources decide. ktrial reads every source at the
    interval `poll`; without `poll`, each source has its own interval. `for` is the time of the whole trial, over which
    the blocks are spread. ktrial switches nothing within the hours `quiet`, and at most `switches` times in 24 hours.

    With `rate` a person rates each period; `blind` hides the arms until the verdict. With `disturbing` the arms may
    have settings whose switch itself disturbs the work. `guard_error` is the chance that the guards stop a harmless
    trial. With `stay` all arms are the control, which stays in force: this is for a machine of a fleet, whose guards
    compare with the time before.
    """

    metrics: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()
    guards: Mapping[str, str | float] = {}
    limits: Mapping[str, float] = {}
    period: str | None = None
    washout: str | None = None
    poll: str | None = None
    for_: str | None = msgspec.field(default=None, name="for")
    quiet: str | None = None
    switches: int | None = None
    rate: bool = False
    blind: bool = False
    disturbing: bool = False
    # Absent by default, so that earlier protocols keep their bytes.
    adjust: bool | msgspec.UnsetType = msgspec.UNSET
    guard_error: float | msgspec.UnsetType = msgspec.UNSET
    stay: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """The name of each covariate: its text before the first colon."""
        return tuple(text.partition(":")[0] for text in self.covariates)

    @property
    def period_s(self) -> float | None:
        return None if self.period is None else long_seconds(self.period, "period")

    @property
    def washout_s(self) -> float | None:
        return None if self.washout is None else long_seconds(self.washout, "washout")

    @property
    def poll_s(self) -> float | None:
        return None if self.poll is None else long_seconds(self.poll, "poll")

    @property
    def for_s(self) -> float | None:
        """Maximum number of seconds from the start of the trial to its end; None for no maximum."""
        return None if self.for_ is None else long_seconds(self.for_, "for")

    @property
    def quiet_hours(self) -> QuietHours | None:
        return None if self.quiet is None else parse_quiet(self.quiet)


def long_seconds(text: str, what: str) -> float:
    """Return a duration such as `90s`, `20min`, `2h` or `2d` in seconds. Raise BadInput for anything else."""
    if days := _DAYS.fullmatch(text):
        number = float(days[1]) * DAY_S * (7 if days[2] == "w" else 1)
    else:
        try:
            number = parse_quantity(text, "seconds")
        except ValueError:
            number = math.nan
    if not 0 <= number <= _LONGEST_S:
        raise BadInput(f"{what}: expected a duration up to 60 days, got {text!r}", hint='for example "10min" or "2d"')
    return number


def parse_quiet(text: str) -> QuietHours:
    """Parse `22:00-06:00`. Raise BadInput for anything else."""
    begin, dash, end = text.partition("-")
    times = [_TIME.fullmatch(part.strip()) for part in (begin, end)]
    minutes = [60 * int(one[1]) + int(one[2]) for one in times if one is not None]
    if not dash or len(minutes) != 2 or minutes[0] == minutes[1]:
        raise BadInput(f"quiet: expected two different times of day, got {text!r}", hint='for example "22:00-06:00"')
    return QuietHours(minutes[0], minutes[1])


def live_faults(live: LiveFile) -> Iterator[tuple[str, BadInput]]:
    """Yield each error in the table with its key."""
    if not live.metrics and not live.rate:
        hint = "add --metric, or `metrics` to [live], with a source that docs/live-sources.md describes"
        yield "metrics", BadInput("a live trial needs a metric or a rating", hint=hint)
    yield from _faults_of_specs(live)
    yield from _faults_of_times(live)
    if live.switches is not None and live.switches < 2:
        hint = "write  switches = 24,  or remove `switches`"
        yield "switches", BadInput(f"switches: expected 2 or more a day, got {live.switches}", hint=hint)
    yield from _faults_of_guards(live)


def _faults_of_guards(live: LiveFile) -> Iterator[tuple[str, BadInput]]:
    if live.guard_error is not msgspec.UNSET and not 0 < live.guard_error <= MOST_GUARD_ERROR:
        why = f"guard_error: expected a number above 0 and at most {MOST_GUARD_ERROR:g}, got {live.guard_error:g}"
        yield "guard_error", BadInput(why, hint="for example  guard_error = 0.01")
    for name, value in live.guards.items():
        if not _share(value) > 0:
            yield (
                "guards",
                BadInput(
                    f"guards: expected a percentage above 0 for {name}, got {value!r}",
                    hint=f'for example  {name} = "20%"',
                ),
            )
    for name, limit in live.limits.items():
        if not math.isfinite(limit):
            yield (
                "limits",
                BadInput(f"limits: expected a number for {name}, got {limit}", hint=f"for example  {name} = 250"),
            )


_TIMES: Mapping[str, Callable[[LiveFile], object]] = {
    "period": lambda live: live.period_s,
    "washout": lambda live: live.washout_s,
    "poll": lambda live: live.poll_s,
    "for": lambda live: live.for_s,
    "quiet": lambda live: live.quiet_hours,
}


def _faults_of_times(live: LiveFile) -> Iterator[tuple[str, BadInput]]:
    for key, read in _TIMES.items():
        try:
            found = read(live)
        except BadInput as error:
            yield key, error
            continue
        if found == 0.0 and key != "washout":
            example = {"poll": "5s", "for": "2d"}.get(key, "10min")
            yield key, BadInput(f"{key} = 0 leaves no time", hint=f'for example  {key} = "{example}"')


def _faults_of_specs(live: LiveFile) -> Iterator[tuple[str, BadInput]]:
    for key, specs in (("metrics", live.metrics), ("covariates", live.covariates)):
        if not all(spec.strip() for spec in specs):
            yield key, BadInput(f"{key}: an entry is empty", hint=_SPEC)
        if twice := next((spec for spec in specs if specs.count(spec) > 1), None):
            yield key, BadInput(f"{key}: {twice} is given twice", hint="give each entry once")
    if live.adjust and not live.covariates:
        yield "adjust", BadInput("`adjust` requires a covariate", hint="add --covariate, or covariates = […]")


def _share(value: str | float) -> float:
    try:
        return parse_quantity(value, "percent") / 100 if isinstance(value, str) else float(value)
    except ValueError:
        return math.nan

# SPDX-License-Identifier: Apache-2.0
"""What adapters of the agent's own loads share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from ktrial.bench.adapters._agent_load_reply import LoadReply, read_load
from ktrial.bench.benchmark import AgentLoad, Invocation, Parameters, ParsedRun, Probe, RawOutput
from ktrial.kit.errors import BadInput, BadRun, UnknownName
from ktrial.kit.outcome import ANOTHER, Measurement, Outcome
from ktrial.machine.facts import FactBook

#: Seconds for a load that has an amount of work and no duration.
_WORK_LIMIT_S = 600.0
#: The agent's own limit.
_MOST_S = 3600.0
_SECOND_NS = 1_000_000_000

Reader = Callable[[LoadReply], tuple[Measurement | None, ...]]
#: Seconds of a run with these parameters on this machine; None if they cannot be told.
Expected = Callable[[Parameters, FactBook], float | None]

_LONGER = "give it a longer duration_s, or a machine with less to do"


class LoadBenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that the agent carries out itself.

    `fixed` are parameters of the load that make this benchmark what it is; `parameters` those that a suite may set.
    `reader` makes the measurements of a reply; None stands for one that the reply has too few values for.
    `spare_s` beyond its own duration it is ended: time for preparations, and a machine that is busy.
    A load that goes on `until_told` is ended by its time limit, which then is the parameter `duration_s`.
    `expected` is for a load that may take longer than its duration.
    On fewer than `least_cpus` its load cannot be carried out.
    `beyond_exact` says why a guest whose clock counts instructions tells nothing of it.
    """

    name: str
    what: str
    load: str
    outcomes: tuple[Outcome, ...]
    reader: Reader
    fixed: Parameters = {}
    parameters: Parameters = {}
    until_told: bool = False
    spare_s: float = 120.0
    expected: Expected | None = None
    beyond_exact: str | None = None
    least_cpus: int = 1

    @property
    def needs(self) -> tuple[str, ...]:
        return ()

    @property
    def packages(self) -> Mapping[str, str]:
        return {}

    @property
    def root_reason(self) -> str | None:
        """Never run as root."""
        return None

    @property
    def user_reason(self) -> str | None:
        """Root may run it too."""
        return None

    @property
    def probe(self) -> Probe | None:
        return None

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        """Return how to run it once; the agent checks what no load can do."""
        complete = self._complete(parameters)
        for name, value in complete.items():
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise BadInput(f"parameter {name} is {value!r}: it must be a finite number that is not negative")
        duration_s = complete.get("duration_s")
        if duration_s is not None:
            if isinstance(duration_s, bool) or not isinstance(duration_s, int | float):
                raise BadInput(f"parameter duration_s is {duration_s!r}: it must be a number of seconds")
            if not 0 < duration_s <= _MOST_S:
                raise BadInput(
                    f"parameter duration_s is {duration_s:g}: it must be above 0 and at most {_MOST_S:g} seconds"
                )
        if duration_s is None:
            limit_s = _WORK_LIMIT_S
        else:
            limit_s = duration_s if self.until_told else min(duration_s + self.spare_s, _MOST_S)
        longer_s = self.expected(complete, facts) if self.expected is not None else None
        return Invocation(
            load=AgentLoad(name=self.load, parameters=self._for_agent(complete)),
            limit_s=limit_s,
            expected_s=duration_s if longer_s is None else max(duration_s or 0.0, longer_s),
        )

    def version_invocation(self) -> Invocation | None:
        """Return the agent's version is known without asking."""
        return None

    def parse_version(self, raw: RawOutput) -> str | None:
        return None

    def parse(self, raw: RawOutput, parameters: Parameters) -> ParsedRun:
        """Return the measurements of a reply; raises BadRun when the load did not do all that it was asked to do."""
        reply = read_load(raw.stdout)
        asked = self._for_agent(self._complete(parameters))
        check_reply(reply, self.load, asked, ended="limit" if self.until_told else "done")
        measured = self.reader(reply)
        missing = len([one for one in measured if one is None])
        if missing == len(measured):
            raise BadRun("nothing was done in the time that the load had: its CPUs did other things", hint=_LONGER)
        note = f"{missing} of the outcomes need more values than this run had and are left out"
        return ParsedRun(
            measurements=tuple(one for one in measured if one is not None),
            details={"results": reply.results, **({"histogram_ns": reply.histogram} if reply.histogram else {})},
            notes=(note,) if missing else (),
        )

    def _complete(self, parameters: Parameters) -> Parameters:
        for name in parameters:
            if name not in self.parameters:
                raise UnknownName(f"parameter of {self.name}", name, self.parameters)
        return {**self.parameters, **parameters, **self.fixed}

    def _for_agent(self, complete: Parameters) -> Parameters:
        """Return what the load is asked for; None stands for the load's own default."""
        own = {"duration_s"} if self.until_told else set()
        return {name: value for name, value in complete.items() if value is not None and name not in own}


def check_reply(reply: LoadReply, load: str, asked: Parameters, ended: str = "done") -> None:
    """Raise BadRun when the load did not do all that it was asked to do, or something else."""
    if reply.ended != ended:
        why = "met its time limit" if reply.ended == "limit" else "ended"
        raise BadRun(f"the load {reply.load} {why} before it had done what it was asked to")
    found = {"load": reply.load, **reply.parameters}
    for name, value in {"load": load, **asked}.items():
        if found.get(name) != value:
            raise BadRun(f"{ANOTHER}: asked for {name} {value}, but the agent reports {found.get(name)}")


def time_of(reply: LoadReply, outcome: str, name: str) -> Measurement | None:
    """Return a result in nanoseconds as seconds; None when it was not measured."""
    value = reply.number(name)
    if value is None:
        return None
    return Measurement(outcome=outcome, value=value / _SECOND_NS, original=f"{value} ns")


def per_second(reply: LoadReply, outcome: str, amount: str, time: str = "elapsed_ns") -> Measurement:
    count, nanoseconds = reply.positive(amount), reply.positive(time)
    return Measurement(outcome=outcome, value=count * _SECOND_NS / nanoseconds, original=f"{count} in {nanoseconds} ns")


def evenness(reply: LoadReply, outcome: str) -> Measurement:
    """Return what the thread that got least did, as a part of what the one that got most did."""
    least, most = reply.number("least_of_a_thread") or 0, reply.positive("most_of_a_thread")
    return Measurement(outcome=outcome, value=least / most, original=f"{least} and {most}")


def latency(name: str, better: str, worse: str, blind_spots: str, *, headline: bool = False) -> Outcome:
    """Return an outcome in seconds where less is better, from nanoseconds to a minute."""
    return Outcome(
        name=name,
        unit="s",
        direction="lower",
        kind="latency-quantile",
        resolution=1e-9,
        low=0.0,
        high=60.0,
        better=better,
        worse=worse,
        blind_spots=blind_spots,
        headline=headline,
    )

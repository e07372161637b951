# SPDX-License-Identifier: Apache-2.0
"""Helpers for the adapters of loads that the agent runs itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from ktrial.bench.adapters._agent_load_reply import LoadReply, read_load
from ktrial.bench.benchmark import AgentLoad, Invocation, Parameters, ParsedRun, Probe, RawOutput
from ktrial.bench.outcomes import outcome
from ktrial.kit.errors import BadInput, BadRun, UnknownName
from ktrial.kit.outcome import ANOTHER, Measurement, Outcome
from ktrial.machine.facts import FactBook

#: Limit of a load that has an amount of work instead of a duration.
_WORK_LIMIT_S = 600.0
#: Longest duration that the agent accepts.
_MOST_S = 3600.0
_SECOND_NS = 1_000_000_000

Reader = Callable[[LoadReply], tuple[Measurement | None, ...]]
#: Seconds of a run with these parameters on this machine; None if unknown.
Expected = Callable[[Parameters, FactBook], float | None]

_LESS_BUSY = "run the benchmark again when the machine is less busy"


class LoadBenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that the agent runs itself.

    A suite may set `parameters`; `fixed` are the other parameters of the load. `reader` converts a reply to
    measurements; a measurement is None if the run has too few values for it. The agent kills the load `spare_s`
    seconds after its duration. A load with `until_told` runs until its time limit, the parameter `duration_s`.
    `expected` estimates the time of a load that may take longer than its duration. `beyond_exact` says why a guest
    whose clock counts instructions cannot run the benchmark.
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

    needs: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[Mapping[str, str]] = {}
    root_reason: ClassVar[str | None] = None
    user_reason: ClassVar[str | None] = None

    @property
    def probe(self) -> Probe | None:
        return None

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        """Return how to run the load once.

        Raise BadInput for an unknown parameter or an invalid number; the agent checks the other values.
        """
        complete = self._complete(parameters)
        for name, value in complete.items():
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise BadInput(
                    f"parameter {name}: expected a finite number of 0 or more, got {value!r}",
                    hint=f"for example -p {name}=1",
                )
        duration_s = complete.get("duration_s")
        if duration_s is not None:
            if isinstance(duration_s, bool) or not isinstance(duration_s, int | float):
                raise BadInput(
                    f"parameter duration_s: expected a number of seconds, got {duration_s!r}",
                    hint="for example -p duration_s=10",
                )
            if not 0 < duration_s <= _MOST_S:
                raise BadInput(
                    f"parameter duration_s: expected more than 0 and at most {_MOST_S:g} seconds, got {duration_s:g}",
                    hint="for example -p duration_s=10",
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
        """Return None: ktrial already knows the agent's version."""
        return None

    def parse_version(self, raw: RawOutput) -> str | None:
        return None

    def parse(self, raw: RawOutput, parameters: Parameters) -> ParsedRun:
        """Return the measurements in a reply. Raise BadRun if the load did not finish its work."""
        reply = read_load(raw.stdout)
        asked = self._for_agent(self._complete(parameters))
        check_reply(reply, self.load, asked, ended="limit" if self.until_told else "done")
        measured = self.reader(reply)
        missing = len([one for one in measured if one is None])
        if missing == len(measured):
            raise BadRun("the load did nothing: its CPUs were busy with other work", hint=_LESS_BUSY)
        return ParsedRun(
            measurements=tuple(one for one in measured if one is not None),
            details={"results": reply.results, **({"histogram_ns": reply.histogram} if reply.histogram else {})},
            notes=(left_out_note(missing),) if missing else (),
        )

    def _complete(self, parameters: Parameters) -> Parameters:
        for name in parameters:
            if name not in self.parameters:
                hint = f"use one of: {', '.join(self.parameters)}"
                raise UnknownName(f"parameter of {self.name}", name, self.parameters, hint=hint)
        return {**self.parameters, **parameters, **self.fixed}

    def _for_agent(self, complete: Parameters) -> Parameters:
        """Return the parameters to send, without those that are None, which leave the choice to the agent."""
        own = {"duration_s"} if self.until_told else set()
        return {name: value for name, value in complete.items() if value is not None and name not in own}


def left_out_note(count: int) -> str:
    which = "1 outcome is left out: it needs" if count == 1 else f"{count} outcomes are left out: they need"
    return f"{which} more values than this run has"


def check_reply(reply: LoadReply, load: str, asked: Parameters, ended: str = "done") -> None:
    """Raise BadRun if the load ended early or did something other than requested."""
    if reply.ended != ended:
        why = "reached its time limit" if reply.ended == "limit" else "ended"
        raise BadRun(f"the load {reply.load} {why} before its work was done", hint=_LESS_BUSY)
    found = {"load": reply.load, **reply.parameters}
    for name, value in {"load": load, **asked}.items():
        if found.get(name) != value:
            raise BadRun(
                f"{ANOTHER}: asked for {name} {value}, but the agent reports {found.get(name)}",
                hint="run the benchmark again",
            )


def time_of(reply: LoadReply, outcome_name: str, name: str) -> Measurement | None:
    """Convert a result in nanoseconds to a measurement; None if the load did not measure it."""
    value = reply.number(name)
    if value is None:
        return None
    return Measurement(outcome=outcome_name, value=value / _SECOND_NS, original=f"{value} ns")


def per_second(reply: LoadReply, outcome_name: str, amount: str, time: str = "elapsed_ns") -> Measurement:
    count, nanoseconds = reply.positive(amount), reply.positive(time)
    return Measurement(
        outcome=outcome_name, value=count * _SECOND_NS / nanoseconds, original=f"{count} in {nanoseconds} ns"
    )


EVENNESS = outcome(
    "evenness",
    "ratio",
    "score",
    "The threads progress [more|less] evenly.",
    "Compares only the thread that did least with the one that did most, over the whole run.",
    (0.0, 1.0),
    direction="higher",
)


def evenness(reply: LoadReply) -> Measurement:
    """Return the work of the slowest thread as a share of the work of the fastest."""
    least, most = reply.number("least_of_a_thread") or 0, reply.positive("most_of_a_thread")
    return Measurement(outcome=EVENNESS.name, value=least / most, original=f"{least} and {most}")

# SPDX-License-Identifier: Apache-2.0
"""Checks which build each visit measured, for trials that need a separate build for each visit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktrial.judge.model.log import ArmFound, BlockVoided, Event, Protocol, RunEnded
from ktrial.kit.errors import Refused
from ktrial.kit.finding import Finding
from ktrial.machine.facts import FactBook
from ktrial.trial.arms.builds import KERNEL_BUILD, Visit, builds_of, kernel_build, repeated
from ktrial.trial.arms.manual import Due


def build_facts(facts: FactBook) -> dict[str, str]:
    return {name: str(value) for name in KERNEL_BUILD if (value := facts.value(name)) is not None}


def refuse_used_build(due: Due, log: Sequence[Event], facts: FactBook) -> None:
    """Raise Refused if another visit has already used this kernel build, or if the kernel does not show its build."""
    if not due.new_build:
        return
    now = kernel_build(build_facts(facts))
    if now is None:
        raise Refused(
            "cannot tell builds apart: this kernel reports neither its build id nor its version",
            hint='start a new trial with  replicate = "boot"  in [design]',
        )
    for (block, arm), build in builds_of(log).items():
        if build == now and (block, arm) != (due.block, due.arm):
            raise Refused(
                f"cannot measure {due.arm} with this kernel build: it was already used for {arm} in block {block}",
                hint=f"build the kernel again first: {due.todo}",
            )


def builds_misused(log: Sequence[Event]) -> Iterator[tuple[int, str]]:
    """Yield runs whose build is unknown, or whose kernel build was used for another visit, each with the reason."""
    protocol = log[0]
    if not isinstance(protocol, Protocol) or protocol.replicate != "build":
        return
    by_hand = any(isinstance(event, ArmFound) for event in log)
    voided = {event.block for event in log if isinstance(event, BlockVoided)}
    builds = builds_of(log)
    visits: dict[str, Visit] = {}
    for event in log:
        if not isinstance(event, RunEnded) or event.block is None or event.block in voided:
            continue
        visit = event.block, event.arm
        build = builds.get(visit)
        if build is None:
            yield event.run, "its build is unknown"
        elif by_hand and (before := visits.setdefault(build, visit)) != visit:
            yield event.run, f"its build already had a visit of {before[1]} in block {before[0]}"


def builds_that_count(log: Sequence[Event]) -> dict[Visit, str]:
    voided = {event.block for event in log if isinstance(event, BlockVoided)}
    measured = {(event.block, event.arm) for event in log if isinstance(event, RunEnded)} if log else set()
    return {visit: build for visit, build in builds_of(log).items() if visit[0] not in voided and visit in measured}


def same_builds(builds: Mapping[Visit, str]) -> tuple[Finding, ...]:
    """Return findings on repeated builds with equal bytes, and on arms that are the same program."""
    found = []
    if again := repeated(builds):
        told = ", ".join(f"{arm} ({made} in {visits} visits)" for arm, (made, visits) in again.items())
        found.append(
            Finding(
                kind="build-repeated",
                level="suspect",
                sentence=f"some builds gave the same bytes, which replicates nothing: {told}; vary the "
                'build by KTRIAL_BUILD (the order of linking, padding), or write replicate = "run"',
                values={arm: float(made) for arm, (made, _) in again.items()},
            )
        )
    arms: dict[str, set[str]] = {}
    for (_, arm), build in builds.items():
        arms.setdefault(arm, set()).add(build)
    names = list(arms)
    shared = [(one, two) for at, one in enumerate(names) for two in names[at + 1 :] if arms[one] & arms[two]]
    if shared:
        told = ", ".join(f"{one} and {two}" for one, two in shared)
        found.append(
            Finding(kind="build-shared", level="suspect", sentence=f"builds of these arms are the same bytes: {told}")
        )
    return tuple(found)


def across(builds: Mapping[Visit, str]) -> str:
    """Return the scope of a verdict on these builds: "across N builds" only if every visit had its own build."""
    number = len(set(builds.values()))
    if not repeated(builds):
        return f"across {number} builds"
    arms = {arm for _, arm in builds}
    return "on this build of each arm" if number <= len(arms) else f"on these {number} builds"

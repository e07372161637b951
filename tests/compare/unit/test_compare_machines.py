# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from ktrial.compare.arms import Arm, ComparedRun
from ktrial.compare.compare import About, CompareQuery, compare, foreign_judge
from ktrial.compare.machines import on_machines, places_there, split
from ktrial.compare.sources import ComparedSource, ReadingOptions, gather
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput
from ktrial.results.model import StoredRun, StoredSession
from ktrial.results.ports import Results
from tests.support.arms import a_run, measured
from tests.support.stores import a_record, a_session

#: Machine -> tuned against stock.
FACTORS = {"desk": 0.80, "laptop": 0.85, "server": 0.78}
HARDWARE = {"threads": "8", "memory": "16 GiB", "virtualisation": "none"}


def arms_on(
    factors: Mapping[str, float], known: Mapping[str, Mapping[str, str]] | None = None, rounds: int = 8, **fields: Any
) -> tuple[Arm, Arm]:
    """Both arms in rounds on each machine; blocks are called alike on all, as in a table of each."""
    runs: dict[str, list[ComparedRun]] = {"stock": [], "tuned": []}
    for number, (machine, factor) in enumerate(factors.items()):
        for block in range(rounds):
            for arm, of_arm in (("stock", 1.0), ("tuned", factor)):
                at = 2 * block + (arm == "tuned") * (1 if block % 3 else -1)
                value = (1 + number) * of_arm * (1 + 0.002 * ((7 * block + 3 * len(arm) * at) % 5))
                told: dict[str, Any] = {"machine": machine, "block": str(block), "clocks": {f"file {machine}": at}}
                told |= {"known": {"governor": "performance", **(known or {}).get(machine, {})}, **fields}
                runs[arm].append(a_run(f"{machine}-{arm}/{block}", measured(value), **told))
    stock, tuned = (Arm(name=name, sources=(), runs=tuple(held)) for name, held in runs.items())
    return stock, tuned


def pooled(arms: Sequence[Arm], **asked: Any) -> Comparison:
    return compare(arms[0], arms[1:], CompareQuery(pool=True, **asked), About(), foreign_judge(0.25))


def test_machines_are_asked_each_by_itself_and_all_together() -> None:
    found = pooled(arms_on(FACTORS))
    (outcome,) = found.outcomes
    (contrast,) = outcome.contrasts
    assert contrast.pooled is not None
    assert [(one.machine, one.blocks) for one in contrast.pooled.machines] == [(name, 8) for name in FACTORS]
    assert contrast.effect is not None
    assert contrast.pooled.tau is not None
    assert found.scope == "across 3 machines"
    assert found.answer.endswith("This holds across 3 machines.")
    assert "On one more machine it may be" in contrast.sentence
    assert [source.machines for source in found.arms] == [3, 3]


def test_without_pool_nothing_is_said_of_machines() -> None:
    arms = arms_on(FACTORS)
    found = compare(arms[0], arms[1:], CompareQuery(), About(), foreign_judge(0.25))
    assert found.outcomes[0].contrasts[0].pooled is None


def test_what_must_be_the_same_must_be_so_on_each_machine_only() -> None:
    differ = {"desk": {"cpu": "A"}, "laptop": {"cpu": "B"}, "server": {"cpu": "C"}}
    assert pooled(arms_on(FACTORS, differ)).outcomes[0].contrasts[0].verdict == "better"
    stock, tuned = arms_on(FACTORS)
    changed = [
        msgspec.structs.replace(run, known={"governor": "powersave"}) if run.machine == "laptop" else run
        for run in tuned.runs
    ]
    found = pooled((stock, msgspec.structs.replace(tuned, runs=tuple(changed))))
    (contrast,) = found.outcomes[0].contrasts
    assert (contrast.verdict, contrast.pooled) == ("not comparable", None)
    assert contrast.why == "on laptop, cpufreq governor differs: performance in stock; powersave in tuned"


def test_the_order_of_each_machine_is_its_own() -> None:
    arms, _ = on_machines(arms_on(FACTORS))
    order = places_there(arms)
    assert sorted(order.values()) == list(range(1, 49))
    assert max(order[run.name] for run in arms[0].runs if run.machine == "desk") <= 16
    lost = [msgspec.structs.replace(run, clocks={}) if run.machine == "server" else run for run in arms[0].runs]
    assert places_there((msgspec.structs.replace(arms[0], runs=tuple(lost)), arms[1])) == {}


def test_results_of_the_store_are_told_apart_by_their_hardware() -> None:
    known = {name: {**HARDWARE, "cpu": f"Example {name}"} for name in FACTORS}
    arms, _ = on_machines(arms_on(FACTORS, known, machine=None))
    assert list(split(arms)) == [f"Example {name}, 8 CPUs, 16 GiB, none" for name in FACTORS]


def test_two_hosts_of_the_same_hardware_are_two_machines() -> None:
    known = {name: {**HARDWARE, "cpu": "Example 1"} for name in FACTORS}
    arms = arms_on(FACTORS, known, session="s")
    hardware = "Example 1, 8 CPUs, 16 GiB, none"
    assert list(split(on_machines(arms)[0])) == [f"{hardware}, no. {number}" for number in (1, 2, 3)]
    of_one = [run for arm in arms for run in arm.runs if run.machine == "desk"]
    of_other = msgspec.structs.replace(of_one[0], known={**of_one[0].known, "cpu": "Example 2"}, machine="laptop")
    named = on_machines([msgspec.structs.replace(arms[0], runs=(*of_one, of_other))])[0]
    assert list(split(named)) == [hardware, "Example 2, 8 CPUs, 16 GiB, none"]


def test_where_one_run_does_not_tell_its_host_the_same_hardware_is_one_machine() -> None:
    known = {name: {**HARDWARE, "cpu": "Example 1" if name != "server" else "Example 2"} for name in FACTORS}
    arms = arms_on(FACTORS, known, session="s")
    lost = [msgspec.structs.replace(run, machine=None) if run.machine == "laptop" else run for run in arms[0].runs]
    found = on_machines((msgspec.structs.replace(arms[0], runs=tuple(lost)), arms[1]))[0]
    assert list(split(found)) == [f"Example {number}, 8 CPUs, 16 GiB, none" for number in (1, 2)]


def test_sessions_that_took_turns_are_blocks_of_their_machine() -> None:
    runs: dict[str, list[ComparedRun]] = {"stock": [], "tuned": []}
    for machine in FACTORS:
        for turn in range(7):
            for arm in sorted(runs, reverse=turn % 2 == 1):
                name = f"{machine}-{arm}-{turn}"
                at = 2.0 * turn + ((arm == "tuned") != (turn % 2 == 1))
                told = {"known": {"cpu": machine}, "session": name, "clocks": {"wall": at}}
                runs[arm].append(a_run(f"{name}/1", measured(1.0 + turn), **told))
    arms, findings = on_machines([Arm(name=name, sources=(), runs=tuple(held)) for name, held in runs.items()])
    assert {run.block for run in arms[0].runs} == {f"{name}, turn {turn}" for name in FACTORS for turn in range(1, 8)}
    assert [one.kind for one in findings] == ["sessions-paired"] * 3
    assert findings[0].sentence.startswith("desk: sessions that took turns count as blocks")


class Kept:
    """Sessions with a run each, the newest first."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[StoredSession, StoredRun]] = {}

    def sessions(self) -> list[StoredSession]:
        found = [session for session, _ in self.held.values()]
        return sorted(found, key=lambda session: -session.started_unix_ms)

    def runs(self, session: str) -> list[StoredRun]:
        return [self.held[session][1]]

    def states(self, session: str) -> dict[str, str]:
        return {}


def test_sessions_of_a_store_from_several_hosts_are_pooled() -> None:
    """As bundles of three hosts bring them: in turns on each, all hosts at the same time."""
    store = Kept()
    for number, (host, factor) in enumerate(FACTORS.items()):
        machine = {"cpu.model": {"value": f"Example {host}"}, "cpu.threads": {"value": 8}}
        for place in range(14):
            arm = "stock" if (place // 2 + place) % 2 == 0 else "tuned"
            name, at = f"{host}-{place:02}", 1_700_000_000_000 + 60_000 * place + number
            value = (1.0 if arm == "stock" else factor) * (1 + number) * (1 + 0.001 * (place * 5 % 7))
            time = {"outcome": "time", "value": value, "unit": "s", "direction": "lower", "original": f"{value} s"}
            document = {"session": name, "machine": machine}
            told = a_session(name, label=arm, boot_id=host, started_unix_ms=at, document=document)
            run = a_record(1, "perf", name, measurements=[time])
            store.held[name] = (told, msgspec.structs.replace(run, started_unix_ms=at))
    reading = ReadingOptions(options=ImportOptions(), as_format=None, importers={}, read=lambda path: b"")
    words = [ComparedSource(word=arm, name=None, target=arm) for arm in ("stock", "tuned")]
    arms = gather(words, lambda: cast(Results, store), reading).arms
    found = pooled(arms)
    (contrast,) = found.outcomes[0].contrasts
    assert contrast.pooled is not None
    assert [(one.machine, one.blocks) for one in contrast.pooled.machines] == [
        (f"Example {host}, 8 CPUs", 7) for host in FACTORS
    ]
    effects = [one.effect.estimate for one in contrast.pooled.machines if one.effect is not None]
    assert effects == pytest.approx([-math.log(factor) for factor in FACTORS.values()], abs=0.01)
    assert contrast.effect is not None
    together = compare(arms[0], arms[1:], CompareQuery(), About(), foreign_judge(0.25))
    assert together.outcomes[0].contrasts[0].verdict == "not comparable", "without --pool the CPUs differ"


def test_runs_without_a_machine_and_a_single_machine_are_refused() -> None:
    stock, tuned = arms_on(FACTORS, machine=None)
    with pytest.raises(BadInput, match="the machine of 48 of 48 runs is unknown, starting with desk-stock/0") as lost:
        pooled((stock, tuned))
    assert "hostname, host or machine" in (lost.value.hint or "")
    with pytest.raises(BadInput, match="all runs are from one machine, desk"):
        pooled(arms_on({"desk": 0.8}))


def test_two_machines_are_shown_side_by_side() -> None:
    found = pooled(arms_on({"desk": 0.8, "laptop": 0.85}))
    (contrast,) = found.outcomes[0].contrasts
    assert (contrast.verdict, contrast.effect) == ("inconclusive", None)
    assert "2 of 2 machines can be pooled, but pooling needs at least 3" in found.answer

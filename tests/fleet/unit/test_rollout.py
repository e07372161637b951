# SPDX-License-Identifier: Apache-2.0
"""Keeping what a fleet's trial has proven, wave by wave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ktrial.fleet.ansible import TaskResult
from ktrial.fleet.log import FleetStanding
from ktrial.fleet.rollout import WaveOutcome, keep_arguments, proven_arm, roll_out, waves_of
from ktrial.fleet.verdict import fleet_result
from ktrial.kit.errors import BadInput, Refused
from ktrial.trial.protocol.file import ArmFile
from tests.support.fleets import began, fleet_trial, hosts, simulated


class Kept:
    """Machines that keep settings; implements `fleet.rollout.Tasks`."""

    def __init__(self, *, fails: str = "", loses: str = "") -> None:
        self.have: set[str] = set()
        self.most = 0
        self._fails, self._loses = fails, loses

    def run(
        self, module: str, arguments: Mapping[str, Mapping[str, Any]], *, check: bool = False
    ) -> Iterator[TaskResult | None]:
        assert module == "keep"
        self.most = max(self.most, len(arguments))
        yield None
        for host, given in arguments.items():
            if host == self._fails:
                yield TaskResult(host, "failed", {"msg": "no sudo"})
                continue
            wanted = given["state"] == "present"
            changed = wanted != (host in self.have)
            if changed and not check:
                (self.have.add if wanted else self.have.discard)(host)
                if host == self._loses and wanted:
                    self.have.discard(host)
            yield TaskResult(host, "ok", {"changed": changed})


def outcomes(world: Kept, waves: list[list[str]], state: str = "present") -> tuple[bool, list[WaveOutcome]]:
    told: list[WaveOutcome] = []
    done = roll_out(world, waves, {"state": state}, 2, told.append)
    return done, told


def test_waves_of_at_most_so_many_machines_and_back() -> None:
    world = Kept()
    assert outcomes(world, [["a"], ["b", "c", "d"]])[0]
    assert world.have == {"a", "b", "c", "d"}
    assert world.most == 2
    done, told = outcomes(world, [["a"], ["b", "c", "d"]])
    assert done
    assert [one.unchanged for one in told] == [("a",), ("b", "c", "d")]
    assert outcomes(world, [["a"], ["b", "c", "d"]], "absent")[0]
    assert world.have == set()


@pytest.mark.parametrize("manner", [{"fails": "c"}, {"loses": "c"}])
def test_a_machine_that_fails_takes_its_wave_back_and_stops(manner: dict[str, str]) -> None:
    world = Kept(**manner)
    done, told = outcomes(world, [["a"], ["b", "c"], ["d"]])
    assert not done
    assert world.have == {"a"}
    assert told[1].failed == {"c": "no sudo" if "fails" in manner else "the settings did not stay"}
    assert len(told) == 3


def test_only_what_was_proven_is_kept() -> None:
    standing, world = simulated(began(fleet_trial(), hosts(8)), effect=lambda _: 0.3)
    found = fleet_result(standing, {place: world.log(trial) for place, trial in standing.finished.items()})
    assert proven_arm(standing.began.trial, found, None, anyway=False) == "big"
    with pytest.raises(BadInput, match="has no arm huge"):
        proven_arm(standing.began.trial, found, "huge", anyway=False)
    standing, world = simulated(began(fleet_trial(), hosts(8)))
    found = fleet_result(standing, {place: world.log(trial) for place, trial in standing.finished.items()})
    with pytest.raises(Refused, match="big is not proven better: its verdict is "):
        proven_arm(standing.began.trial, found, None, anyway=False)
    assert proven_arm(standing.began.trial, found, None, anyway=True) == "big"


def test_what_a_roll_out_keeps_and_where() -> None:
    trial = fleet_trial(waves=(2, "100%"))
    assert keep_arguments(trial, "big", "present")["settings"] == {"net.core.somaxconn": "512"}
    standing = FleetStanding([began(trial, hosts(4))])
    waves = waves_of(standing, ("m1", "m2", "m4", "n1"))
    assert sorted(sum(waves, ())) == ["m1", "m2", "m4", "n1"]
    assert len(waves[0]) == 2
    assert waves[-1][-1] == "n1"
    for change in ({"environment": {"A": "1"}}, {"command": ("other",)}, {"parameters": {"threads": 2}}):
        other = fleet_trial()
        other.arms["big"] = ArmFile(set={"net.core.somaxconn": 512}, **change)  # type: ignore[index]
        with pytest.raises(BadInput, match="does not consist of settings and profiles alone"):
            keep_arguments(other, "big", "present")

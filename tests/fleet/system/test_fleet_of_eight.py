# SPDX-License-Identifier: Apache-2.0
"""Eight machines: an effect on six of them, five A/A fleets, and what was proven rolled out and taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.fleet import SOMAXCONN, Fleet, fleet_of

pytestmark = pytest.mark.timeout(3600)

NAMES = tuple(f"m{number}" for number in range(1, 9))
BEFORE = dict.fromkeys(NAMES, "4096")


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with fleet_of(NAMES) as made:
        yield made


def test_an_effect_on_six_of_eight_machines(fleet: Fleet) -> None:
    fleet.write_trial(dict.fromkeys(NAMES[:6], -0.2), fleet='subgroups = ["inventory.rack"]')
    done = fleet.run("--forks", "4")
    assert done.returncode == 0, done.stderr
    assert fleet.values() == BEFORE
    found = json.loads(fleet.ktrial("report", "--json").stdout)
    (one,) = [contrast for contrast in found["contrasts"] if contrast["role"] == "primary"]
    assert (one["helped"], one["hurt"], one["verdict"]) == (6, 0, "better")
    assert one["pooled"]["i_squared"] > 0.9
    # On one more machine it may do nothing.
    assert one["pooled"]["predicted_low"] < 0 < one["pooled"]["predicted_high"]
    shown = fleet.ktrial("report").stdout
    assert "The machines differ: better on 6, worse on 0 of 8" in shown
    assert [over["decision"] for over in found["waves"]] == ["go on"] * 3


def test_five_fleets_in_which_nothing_matters(fleet: Fleet) -> None:
    verdicts = []
    for seed in range(5):
        fleet.write_trial({}, seed=100 + seed, fleet='waves = ["100%"]')
        done = fleet.run("--forks", "4")
        assert done.returncode == 0, done.stderr
        verdicts.append(json.loads(fleet.ktrial("report", "--json").stdout)["contrasts"][0]["verdict"])
    assert fleet.values() == BEFORE
    assert not {"better", "worse"} & set(verdicts), verdicts


def test_what_was_proven_is_rolled_out_and_taken_back() -> None:
    with fleet_of(NAMES[:4], more=f"mkdir -p /run/systemd/system; echo 4096 > {SOMAXCONN}") as fleet:
        fleet.write_trial(dict.fromkeys(NAMES[:4], -0.2))
        before = {name: one.run("find", "/etc/sysctl.d", "-type", "f") for name, one in fleet.machines.items()}
        assert fleet.run().returncode == 0
        refused = fleet.ktrial("rollout", "-i", str(fleet.inventory), "-y", "--arm", "small")
        assert refused.returncode == 2
        done = fleet.ktrial("rollout", "-i", str(fleet.inventory), "-y")
        assert done.returncode == 0, done.stderr
        assert set(fleet.values().values()) == {"512"}
        again = fleet.ktrial("rollout", "-i", str(fleet.inventory), "-y")
        assert again.returncode == 0, again.stderr
        assert "changed" not in again.stderr
        done = fleet.ktrial("rollout", "--undo", "-i", str(fleet.inventory), "-y")
        assert done.returncode == 0, done.stderr
        assert set(fleet.values().values()) == {"4096"}
        assert before == {name: one.run("find", "/etc/sysctl.d", "-type", "f") for name, one in fleet.machines.items()}

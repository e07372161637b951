# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ktrial.judge.model.log import BlockDrawn, TrialEnd
from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey
from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.results.store.database import Database
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.record import ArmSettings, StoredTrial, protocol_sha256
from ktrial.trial.store import StoredTrials
from tests.support.trials import protocol

FILE = TrialFile(name="t", suite="x", arms={"control": ArmFile(), "case": ArmFile(placebo=True)})


def stored(name: str, started: int = 0) -> StoredTrial:
    return StoredTrial(
        trial=name,
        session=f"session-{name}",
        protocol_sha256="f" * 64,
        started_unix_ms=started,
        file=FILE,
        arms={"control": ArmSettings(), "case": ArmSettings()},
        settle_s=1.0,
        machine="m",
        found={"vm.swappiness": "60"},
    )


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[StoredTrials]:
    database = Database.open(str(tmp_path / "results.db"))
    yield StoredTrials(lambda: database)
    database.close()


def test_a_log_only_grows_and_is_read_as_it_was_written(trials: StoredTrials) -> None:
    trials.begin(stored("a"), protocol())
    trials.begin(stored("b"), protocol(("other",)))
    trials.append("a", [BlockDrawn(block=1, order=("case", "control"))])
    trials.append("b", [TrialEnd(reason="b")])
    trials.append("a", [TrialEnd(reason="x"), TrialEnd(reason="y")])
    assert trials.log("a") == (
        protocol(),
        BlockDrawn(block=1, order=("case", "control")),
        TrialEnd(reason="x"),
        TrialEnd(reason="y"),
    )
    assert trials.log("b")[1:] == (TrialEnd(reason="b"),)


def test_a_trial_begins_once(trials: StoredTrials) -> None:
    trials.begin(stored("a"), protocol())
    with pytest.raises(KtrialError, match="cannot store trial a"):
        trials.begin(stored("a"), protocol())
    assert len(trials.log("a")) == 1


def test_trials_are_found_by_their_beginning_and_the_newest_without_a_name(trials: StoredTrials) -> None:
    with pytest.raises(BadInput, match="no trials yet"):
        trials.find(None)
    for place, name in enumerate(("quick-1", "quick-2", "slow-1")):
        trials.begin(stored(name, place), protocol())
    assert [one.trial for one in trials.all()] == ["slow-1", "quick-2", "quick-1"]
    assert trials.find(None) == stored("slow-1", 2)
    assert trials.find("slow") == stored("slow-1", 2)
    assert trials.find("quick-1").trial == "quick-1"
    with pytest.raises(BadInput, match="2 trials begin with 'quick'"):
        trials.find("quick")
    with pytest.raises(UnknownName) as caught:
        trials.find("quik-1")
    assert caught.value.nearest[0] == "quick-1"
    for other in ("SLOW", "s%w", "sl_w"):
        with pytest.raises(UnknownName):
            trials.find(other)
    named = trials.named("quick-2")
    assert named is not None
    assert named.stored == stored("quick-2", 1)
    assert trials.named("quick") is None
    assert [one.stored.trial for one in trials.of_session(stored("quick-1").session)] == ["quick-1"]


def test_profiles_are_kept_the_newest_first(trials: StoredTrials) -> None:
    key = ProfileKey(machine="m", suite="s", tool_versions={"a": "1"}, kernel_release="6", governor=None)
    for made in (1, 3, 2):
        trials.keep_profile(NoiseProfile(key=key, made_unix_ms=made, differences={"a.time": (0.1 * made,)}))
    assert [one.made_unix_ms for one in trials.profiles("s", "m")] == [3, 2, 1]
    assert trials.profiles("s", "other") == ()
    assert trials.profiles("s", "m")[0].key == key


def test_the_hash_is_of_the_file_the_protocol_and_what_the_arms_came_to() -> None:
    arms = {"control": ArmSettings(), "case": ArmSettings(changes={"vm.swappiness": "10"})}
    first = protocol_sha256(FILE, protocol(), arms)
    assert first == protocol_sha256(FILE, protocol(), dict(reversed(arms.items())))
    others = {
        protocol_sha256(msgspec.structs.replace(FILE, name="u"), protocol(), arms),
        protocol_sha256(FILE, protocol(seed=8), arms),
        protocol_sha256(FILE, protocol(), {**arms, "case": ArmSettings(changes={"vm.swappiness": "11"})}),
    }
    assert len(others | {first}) == 4

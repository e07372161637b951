# SPDX-License-Identifier: Apache-2.0
"""The verdicts of a bundle as those of somebody else: whatever it holds, they are read or refused with a reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.evidence.others import BundleOrigin, others_in
from ktrial.evidence.trials import members_of
from ktrial.evidence.unpack import OwnMachine
from ktrial.kit.errors import BadInput, KtrialError, Refused
from ktrial.studies.ledger.others import OthersLedger, OthersTrial
from ktrial.trial.kept_trial import KeptTrial
from tests.evidence.unit.test_recheck import Bundle, checked
from tests.support.knobs import KNOBS
from tests.support.told_trials import a_trial

ORIGIN = BundleOrigin("b.tar.zst", "0" * 64, None, 5)
STRANGER = OwnMachine(frozenset({"mine"}), frozenset({"boot"}))
FACTS = {"cpu.model": {"value": "Example 1"}, "cpu.threads": {"value": 8}, "os.machine": {"value": "theirs"}}


def a_bundle(**fields: Any) -> Bundle:
    """A bundle with a trial of another machine; its control state has an NVMe disk."""
    kept = a_trial()
    bundle = Bundle()
    bundle.trials = (kept.stored.trial,)
    bundle.files = members_of(KeptTrial(stored=kept.stored, log=kept.log))
    state = {"schema": "ktrial.state/1", "facts": {}, "knobs": {"queue:scheduler@nvme0n1": "/s"}, "files": {}}
    states = {"control": bundle.keep(msgspec.json.encode(state))}
    values: dict[str, Any] = {"document": {"machine": FACTS}, "states": states, "replaced": {}, "boot_id": "there"}
    bundle.add(session=kept.stored.session, **{**values, **fields})
    return bundle


def others(bundle: Bundle, own: OwnMachine = STRANGER) -> tuple[OthersTrial, ...]:
    return others_in(bundle, ORIGIN, own, KNOBS)


def test_verdicts_come_with_the_machine_and_without_placebos() -> None:
    (found,) = others(a_bundle())
    assert [(one.arm, one.verdict) for one in found.entries] == [
        ("sw10", "better"),
        ("sw60", "equivalent"),
        ("sw180", "worse"),
    ]
    assert (found.hardware.cpu, found.hardware.threads, found.hardware.disk) == ("Example 1", 8, "NVMe")
    assert (found.signer, found.bundle, found.imported_unix_ms) == (None, "b.tar.zst", 5)
    assert others(a_bundle())[0].sha256 == found.sha256


@pytest.mark.parametrize(
    "fields, own, told",
    [
        ({"replaced": None}, STRANGER, "may contain names of hosts and users"),
        ({"boot_id": "boot"}, STRANGER, "so its verdicts are your own"),
        ({}, OwnMachine(frozenset({"theirs"}), frozenset()), "so its verdicts are your own"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], own: OwnMachine, told: str) -> None:
    with pytest.raises(Refused, match=told):
        others(a_bundle(**fields), own)


def changed_trial(bundle: Bundle, **fields: Any) -> None:
    name = f"trials/{bundle.trials[0]}/trial.json"
    bundle.files[name] = msgspec.json.encode({**msgspec.json.decode(bundle.files[name]), **fields})


def test_what_holds_no_verdict_or_cannot_be_shown_is_refused() -> None:
    bundle = a_bundle()
    bundle.trials = ()
    with pytest.raises(BadInput, match="no finished trial in this bundle has a verdict on a setting"):
        others(bundle)
    bundle = a_bundle()
    changed_trial(bundle, started_unix_ms=10**15)
    with pytest.raises(BadInput, match="has an impossible date"):
        others(bundle)
    bundle = a_bundle()
    changed_trial(bundle, machine="x" * (1 << 20))
    with pytest.raises(BadInput, match="more than 1 MiB"):
        others(bundle)
    bundle = a_bundle()
    changed_trial(bundle, file={"name": "x", "arms": {"control": {}}, "suite": "s"})
    with pytest.raises(BadInput, match="differs from its protocol in the arms"):
        others(bundle)
    bundle = a_bundle()
    changed_trial(bundle, arms={"control": {}})
    with pytest.raises(BadInput, match="differs from its protocol in the arms"):
        others(bundle)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=9), one, max_size=3),
    max_leaves=4,
)


def spoil(value: Any, choose: Any, new: Any) -> Any:
    """The document with one value somewhere in it replaced, or a key left out."""
    if isinstance(value, dict) and value and choose(st.integers(0, 5)):
        key = choose(st.sampled_from(sorted(value)))
        if not choose(st.integers(0, 9)):
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: spoil(value[key], choose, new)}
    if isinstance(value, list) and value and choose(st.integers(0, 5)):
        place = choose(st.integers(0, len(value) - 1))
        return [*value[:place], spoil(value[place], choose, new), *value[place + 1 :]]
    return new


@settings(max_examples=25)
@given(st.data(), JSON)
def test_any_change_is_read_or_refused_with_a_reason(data: st.DataObject, new: Any) -> None:
    document = {"machine": FACTS}
    what = data.draw(st.sampled_from(["session", "trial.json", "log.jsonl"]))
    bundle = a_bundle(document=spoil(document, data.draw, new)) if what == "session" else a_bundle()
    name = f"trials/{bundle.trials[0]}/{what}"
    if what == "trial.json":
        bundle.files[name] = msgspec.json.encode(spoil(msgspec.json.decode(bundle.files[name]), data.draw, new))
    elif what == "log.jsonl":
        lines = bundle.files[name].splitlines()
        place = data.draw(st.integers(0, len(lines) - 1))
        lines[place] = msgspec.json.encode(spoil(msgspec.json.decode(lines[place]), data.draw, new))
        bundle.files[name] = b"\n".join(lines) + b"\n"
    try:
        checked(bundle)
        found = others(bundle)
    except KtrialError as error:
        assert error.message
    else:
        ledger = OthersLedger(trials=found)
        assert msgspec.json.decode(msgspec.json.encode(ledger), type=OthersLedger) == ledger

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from ktrial.trial.arms.arms import ArmDrift
from ktrial.trial.arms.purity import purity
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.record import ArmSettings, StoredTrial
from ktrial.trial.run.guards import writer_of
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.state.snapshot import take_state
from tests.support.machine import FakeMachine, step_told, transaction_told

FILES = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/sys/vm/dirty_bytes": "0\n",
    "/proc/sys/vm/min_free_kbytes": "67584\n",
}
TRIAL = StoredTrial(
    trial="t-1",
    session="s",
    protocol_sha256="f" * 64,
    started_unix_ms=0,
    file=TrialFile(name="t", suite="x", arms={"control": ArmFile(), "case": ArmFile(set={"vm.swappiness": 10})}),
    arms={"control": ArmSettings(), "case": ArmSettings(changes={"vm.swappiness": "10"})},
    settle_s=1.0,
    machine="m",
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def state(catalog: Catalog, **changed: str) -> bytes:
    files = {**FILES, **{f"/proc/sys/vm/{name}": f"{value}\n" for name, value in changed.items()}}
    return take_state(FakeMachine(files, {"kernel.release": "6.18"}), catalog).canonical()


def of(catalog: Catalog, trial: StoredTrial = TRIAL, **changed: str) -> tuple[Mapping[str, str | None], list[str]]:
    changes, findings = purity(trial, {"control": state(catalog), "case": state(catalog, **changed)}, catalog)
    return {one.name: one.declared for one in changes}, [one.sentence for one in findings]


def test_an_arm_that_changes_what_it_declares_is_pure(catalog: Catalog) -> None:
    assert of(catalog, swappiness="10") == ({"vm.swappiness": "arm case"}, [])


def test_what_nobody_declared_is_a_finding_with_both_values(catalog: Catalog) -> None:
    changes, findings = of(catalog, swappiness="10", dirty_ratio="33")
    assert changes == {"vm.dirty_ratio": None, "vm.swappiness": "arm case"}
    (sentence,) = findings
    assert "vm.dirty_ratio is 33 instead of 20" in sentence


def test_what_the_kernel_changes_with_a_knob_is_declared_with_it(catalog: Catalog) -> None:
    arms = {"control": ArmSettings(), "case": ArmSettings(changes={"vm.dirty_bytes": "1048576"})}
    trial = StoredTrial(**{name: getattr(TRIAL, name) for name in TRIAL.__struct_fields__} | {"arms": arms})
    changes, findings = of(catalog, trial, dirty_bytes="1048576", dirty_ratio="0")
    assert findings == []
    assert changes["vm.dirty_ratio"] == "arm case, with vm.dirty_bytes"


def test_what_tells_a_manual_arm_is_declared_and_what_came_with_it_is_not(catalog: Catalog) -> None:
    def kernel(release: str, modules: list[str], dirty_ratio: str) -> bytes:
        facts = {"kernel.release": release, "kernel.version": f"#1 of {release}", "kernel.modules": modules}
        files = {**FILES, "/proc/sys/kernel/osrelease": release, "/proc/sys/vm/dirty_ratio": dirty_ratio}
        return take_state(FakeMachine(files, facts), catalog).canonical()

    expect = {"kernel.release": "6.19", "kernel.modules": "zram"}
    arms = {"control": ArmSettings(), "case": ArmSettings(manual="boot it", expect=expect)}
    trial = StoredTrial(**{name: getattr(TRIAL, name) for name in TRIAL.__struct_fields__} | {"arms": arms})
    states = {"control": kernel("6.18", ["ext4"], "20"), "case": kernel("6.19", ["ext4", "zram"], "33")}
    changes, findings = purity(trial, states, catalog)
    told = {one.name: one.declared for one in changes}
    assert {name for name, declared in told.items() if declared is None} == {"vm.dirty_ratio"}
    assert {"kernel.release", "kernel.version", "kernel.osrelease", "kernel.modules zram"} <= set(told)
    assert [one.kind for one in findings] == ["impure"]


def test_a_daemon_that_an_arm_stops_is_declared(catalog: Catalog) -> None:
    arms = {"control": ArmSettings(), "case": ArmSettings(changes={"service irqbalance.service": "stopped"})}
    trial = StoredTrial(**{name: getattr(TRIAL, name) for name in TRIAL.__struct_fields__} | {"arms": arms})

    def running(*names: str) -> bytes:
        return take_state(FakeMachine(FILES, {"services.active": list(names)}), catalog).canonical()

    states = {"control": running("irqbalance", "tuned"), "case": running("tuned")}
    changes, findings = purity(trial, states, catalog)
    assert [(one.name, one.declared) for one in changes] == [("services.active irqbalance", "arm case")]
    assert findings == ()
    _, findings = purity(trial, {**states, "case": running()}, catalog)
    assert "services.active tuned" in findings[0].sentence


def test_without_a_state_nothing_is_said(catalog: Catalog) -> None:
    assert purity(TRIAL, {}, catalog) == ((), ())
    assert purity(TRIAL, {"control": state(catalog)}, catalog) == ((), ())


DRIFT = ArmDrift(address="vm.swappiness", path="/proc/sys/vm/swappiness", wanted="60", now="33")


def test_another_transaction_of_ktrial_is_named(catalog: Catalog) -> None:
    machine = FakeMachine({})
    steps = [step_told(path=DRIFT.path, old="60", new="33")]
    machine.answers["status"] = {
        "transactions": [
            transaction_told(transaction=4, title="vm.swappiness=33", steps=steps),
            transaction_told(transaction=5, title="trial t, arm case", steps=steps),
            transaction_told(transaction=6, title="over", state="reverted", steps=steps),
        ]
    }
    assert writer_of(machine, catalog, DRIFT, 5) == "transaction 4 of ktrial set it (vm.swappiness=33)"


def test_a_file_that_names_the_value_is_named(catalog: Catalog) -> None:
    files = {DRIFT.path: "33\n", "/etc/sysctl.d/99-mine.conf": "# mine\nvm.swappiness = 33\n"}
    machine = FakeMachine(files)
    machine.answers["status"] = {"transactions": []}
    assert writer_of(machine, catalog, DRIFT, None) == "/etc/sysctl.d/99-mine.conf:2 names this value"


def test_where_nobody_can_be_named_it_is_said_who_looks(catalog: Catalog) -> None:
    machine = FakeMachine({DRIFT.path: "33\n"})
    machine.answers["status"] = {"transactions": []}
    assert writer_of(machine, catalog, DRIFT, None) == "`ktrial why vm.swappiness` may find out who did it"
    gone = ArmDrift(address="vm.swappiness", path=DRIFT.path, wanted="60", now=None)
    assert writer_of(machine, catalog, gone, None) is None
    assert gone.sentence == "vm.swappiness (/proc/sys/vm/swappiness) is gone instead of '60'"

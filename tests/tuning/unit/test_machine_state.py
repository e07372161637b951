# SPDX-License-Identifier: Apache-2.0
"""The state of a machine made of a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ktrial.kit.errors import AgentError
from ktrial.machine.reading import Reading
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.plans.resolve import requests_from
from ktrial.tuning.state.snapshot import (
    compare_states,
    declared_knobs,
    declared_settings,
    declared_transactions,
    moving_files,
    take_state,
)
from ktrial.tuning.state.state import StateValue
from tests.support.machine import FakeMachine, step_told, transaction_told

FILES: dict[str, str | Reading] = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/unheard_of": "7\n",
    "/proc/sys/net/ipv4/conf/eth0/rp_filter": "2\n",
    "/proc/sys/fs/dentry-state": "1 2 3\n",
    "/proc/sys/kernel/hostname": "box\n",
    "/proc/sys/vm/compact_memory": Reading(unreadable="read /proc/sys/vm/compact_memory: Permission denied"),
    "/sys/module/zswap/parameters/enabled": "N\n",
    "/sys/module/nvidia/version": "550.1\n",
    "/sys/block/sda/queue/scheduler": "[none] bfq\n",
    "/sys/kernel/debug/sched/features": "PLACE_LAG NO_NEXT_BUDDY\n",
    "/sys/kernel/debug/sched/debug": "a dump\n",
    "/sys/kernel/debug/sched": "",
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_knobs_other_sysctls_and_modules_are_there_and_counters_are_not(catalog: Catalog) -> None:
    state = take_state(FakeMachine(FILES, {"kernel.release": "6.18"}), catalog)
    assert state.knobs["vm.swappiness"] == "/proc/sys/vm/swappiness"
    assert state.knobs["queue:scheduler@sda"] == "/sys/block/sda/queue/scheduler"
    assert state.files["/proc/sys/vm/unheard_of"] == StateValue(text="7")
    assert state.files["/proc/sys/vm/compact_memory"] == StateValue(unreadable="Permission denied")
    assert state.files["/sys/module/nvidia/version"] == StateValue(text="550.1")
    assert "/sys/kernel/debug/sched/features" in state.files
    assert "/sys/kernel/debug/sched/debug" not in state.files
    named = {path for path, why in state.left_out.items() if why != "a secret"}
    assert named == {"/proc/sys/fs/dentry-state", "/proc/sys/kernel/hostname"}
    assert not set(state.left_out) & set(state.files)
    assert state.facts["kernel.release"] == StateValue(text="6.18")
    assert state.hidden == {}
    assert "box" not in state.canonical().decode()


def test_the_counters_of_a_machine_do_not_change_its_state(catalog: Catalog) -> None:
    before = take_state(FakeMachine(FILES), catalog)
    assert take_state(FakeMachine({**FILES, "/proc/sys/fs/dentry-state": "9 9 9\n"}), catalog).sha256 == before.sha256
    assert take_state(FakeMachine({**FILES, "/proc/sys/vm/unheard_of": "8\n"}), catalog).sha256 != before.sha256


def test_without_debugfs_the_state_says_so(catalog: Catalog) -> None:
    files = {path: text for path, text in FILES.items() if "debug" not in path}
    assert take_state(FakeMachine(files, is_root=False), catalog).hidden == {
        "/sys/kernel/debug/": "only root can see debugfs"
    }


def test_a_tree_too_large_for_one_reply_is_listed_in_parts(catalog: Catalog) -> None:
    class Small(FakeMachine):
        def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
            if patterns[0] in {"/proc/sys/**", "/proc/sys/vm/**"}:
                raise AgentError("oversized", "the reply is too long")
            found = dict(super().list(patterns))
            if patterns[0] == "/proc/sys/*":
                found[patterns[0]] = ("/proc/sys/vm", "/proc/sys/net", "/proc/sys/fs", "/proc/sys/kernel")
            return found

    assert take_state(Small(FILES), catalog) == take_state(FakeMachine(FILES), catalog)


def test_declared_by_name_profile_couple_and_transaction(catalog: Catalog) -> None:
    before = take_state(FakeMachine(FILES), catalog)
    machine = FakeMachine(
        {**FILES, "/proc/sys/vm/swappiness": "10\n", "/proc/sys/vm/unheard_of": "8\n", "/proc/sys/vm/odd": "1\n"}
    )
    machine.answers["status"] = {
        "transactions": [
            transaction_told(transaction=3, steps=[step_told(path="/proc/sys/vm/unheard_of")]),
            transaction_told(transaction=2, state="reverted", steps=[step_told(path="/proc/sys/vm/odd")]),
        ]
    }
    declarations = (*declared_knobs(["vm/swappiness"], catalog), *declared_transactions(machine, catalog))
    found = compare_states(before, take_state(machine, catalog), declarations)
    assert [(one.name, one.declared) for one in found.declared] == [
        ("vm.swappiness", "--declared"),
        ("vm.unheard_of", "transaction 3"),
    ]
    assert [one.name for one in found.undeclared] == ["vm.odd"]
    by_plan = declared_settings(requests_from(["vm.dirty_ratio=10"], catalog), catalog)
    assert [(one.by, one.knob) for one in by_plan] == [
        ("setting vm.dirty_ratio=10", "vm.dirty_ratio"),
        ("setting vm.dirty_ratio=10, with vm.dirty_ratio", "vm.dirty_bytes"),
    ]


@pytest.mark.parametrize("path", ["", "systemctl stop tuned"])
def test_a_step_without_a_file_declares_nothing(catalog: Catalog, path: str) -> None:
    machine = FakeMachine({})
    step = step_told(path=path)
    machine.answers["status"] = {"transactions": [transaction_told(steps=[step])]}
    assert declared_transactions(machine, catalog) == ()


def test_what_the_kernel_changes_with_a_transaction_is_declared(catalog: Catalog) -> None:
    files = {"/proc/sys/vm/dirty_ratio": "20\n", "/proc/sys/vm/dirty_bytes": "0\n"}
    machine = FakeMachine({"/proc/sys/vm/dirty_ratio": "0\n", "/proc/sys/vm/dirty_bytes": "4096\n"})
    step = step_told(path="/proc/sys/vm/dirty_bytes", knob="vm.dirty_bytes")
    machine.answers["status"] = {"transactions": [transaction_told(steps=[step])]}
    declarations = declared_transactions(machine, catalog)
    found = compare_states(take_state(FakeMachine(files), catalog), take_state(machine, catalog), declarations)
    assert found.undeclared == ()
    assert [(one.name, one.declared) for one in found.declared] == [
        ("vm.dirty_bytes", "transaction 1"),
        ("vm.dirty_ratio", "transaction 1, with vm.dirty_bytes"),
    ]


def test_a_value_that_the_kernel_lowers_is_compared_and_noted(catalog: Catalog) -> None:
    path = "/proc/sys/kernel/perf_event_max_sample_rate"
    states = [take_state(FakeMachine({path: rate}), catalog) for rate in ("100000\n", "79000\n")]
    (one,) = compare_states(states[0], states[1]).undeclared
    assert (one.before, one.after) == ("100000", "79000")
    assert one.note is not None
    assert "lowers it" in one.note


def test_every_reason_is_given_once() -> None:
    entries = moving_files()
    assert len({entry.path for entry in entries}) == len(entries)
    assert all(entry.path.startswith(("/proc/sys/", "/sys/module/")) and entry.why for entry in entries)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import BadInput, Contradiction, Refused, UnknownName
from ktrial.machine.facts import FactKind
from ktrial.machine.reading import Reading
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.knobs.profile import Requirement
from ktrial.tuning.plans.model import Plan, Why
from ktrial.tuning.plans.plan import with_same
from ktrial.tuning.plans.resolve import make_plan
from ktrial.tuning.plans.wire import wire_plan
from tests.support.knobs import KNOBS, catalog, knob, profile
from tests.support.machine import FakeMachine

FILES = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/sys/vm/dirty_bytes": "0\n",
    "/proc/sys/net/ipv4/tcp_syncookies": "1\n",
    "/sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline kyber\n",
    "/sys/block/nvme0n1/queue/nr_requests": "1023\n",
    "/sys/block/sda/queue/scheduler": "none [mq-deadline]\n",
    "/sys/block/sda/queue/nr_requests": "256\n",
    "/sys/kernel/debug/sched/base_slice_ns": "2800000\n",
    "/sys/kernel/debug/sched": "",
    "/sys/kernel/debug/sched/features": "PLACE_LAG NO_NEXT_BUDDY TTWU_QUEUE\n",
}
FACTS = {
    "memory.total": 8 * 2**30,
    "os.android": False,
    "block.devices": [
        {"name": "nvme0n1", "rotational": False, "hardware_queues": 8},
        {"name": "sda", "rotational": True, "hardware_queues": 1},
    ],
}


def plan(*words: str, using: Catalog | None = None, dangerous: bool = False, **files: Any) -> Plan:
    machine = FakeMachine({**FILES, **files.get("files", {})}, FACTS)
    return make_plan(machine, using or catalog(), words, allow_dangerous=dangerous)[0]


def test_a_change_holds_all_that_the_agent_needs() -> None:
    (change,) = plan("vm.dirty_ratio=10").changes
    assert (change.path, change.old, change.old_text, change.new_text) == (
        "/proc/sys/vm/dirty_ratio",
        b"20\n",
        "20",
        "10",
    )
    assert change.couples == ("/proc/sys/vm/dirty_bytes",)


def test_wire_form() -> None:
    wire = wire_plan(plan("vm.dirty_ratio=10"), {"kind": "keep"})
    assert wire["schema"] == "ktrial.plan/2"
    assert wire["steps"] == [
        {
            "kind": "write",
            "knob": "vm.dirty_ratio",
            "path": "/proc/sys/vm/dirty_ratio",
            "new": "10\n",
            "verify": "integer",
            "couples": ["/proc/sys/vm/dirty_bytes"],
            "expect": "20\n",
        }
    ]


def test_a_plan_upon_which_others_may_stack_says_so() -> None:
    found = plan("vm.swappiness=10")
    assert "stacks" not in wire_plan(found, {"kind": "keep"})
    assert wire_plan(found, {"kind": "keep"}, stacks=True)["stacks"] is True


def test_a_value_already_in_force_is_no_change() -> None:
    resolved = plan("vm.swappiness=60")
    assert resolved.empty
    assert [change.knob for change in resolved.same] == ["vm.swappiness"]


def test_what_is_set_already_can_be_among_the_changes_in_its_order() -> None:
    found = plan("queue:nr_requests@sda=64", "queue:scheduler@sda=none", "vm.swappiness=60")
    whole = with_same(found, KNOBS)
    assert found.same
    assert not whole.same
    assert {one.address for one in whole.changes} == {one.address for one in (*found.changes, *found.same)}
    names = [one.knob for one in whole.changes]
    assert names.index("queue:scheduler") < names.index("queue:nr_requests")


def test_instances_by_name_pattern_and_fact() -> None:
    assert [c.address for c in plan("queue:scheduler@*=kyber").changes] == ["queue:scheduler@nvme0n1"]
    assert [c.address for c in plan("queue:scheduler@[rotational=true]=none").changes] == ["queue:scheduler@sda"]
    assert [c.address for c in plan("queue:nr_requests@sd*=64").changes] == ["queue:nr_requests@sda"]


def test_a_value_that_this_device_does_not_offer_is_refused_with_what_it_offers() -> None:
    (refusal,) = plan("queue:scheduler@sda=kyber").refusals
    assert refusal.kind is Why.NOT_OFFERED
    assert refusal.hint == "use one of: none, mq-deadline"


def test_a_disk_without_a_queue_is_passed_over() -> None:
    queue = "/sys/block/zram0/queue"
    files = {f"{queue}/scheduler": "none\n", f"{queue}/nr_requests": "128\n"}
    found = plan("queue:nr_requests@*=64", using=load_catalog(), files=files)
    assert [one.address for one in found.changes] == ["queue:nr_requests@nvme0n1", "queue:nr_requests@sda"]
    (refusal,) = found.refusals
    assert (refusal.address, refusal.kind) == ("queue:nr_requests@zram0", Why.ABSENT)
    assert refusal.reason == "the kernel refuses every value: this device has no scheduler"


def test_instances_must_be_named() -> None:
    with pytest.raises(BadInput, match="one value per instance") as caught:
        plan("queue:scheduler=none")
    assert "nvme0n1" in str(caught.value.hint)


def test_selector_on_a_knob_without_instances() -> None:
    with pytest.raises(BadInput, match="no instances"):
        plan("vm.swappiness@x=1")


HIGH = knob("cgroup:memory.high", kind="sysfs", places=["/sys/fs/cgroup/{slice}/memory.high"], value={"type": "text"})
WITH_GROUPS = msgspec.structs.replace(catalog(), knobs={**KNOBS, HIGH.id: HIGH})
GROUPS = {
    f"/sys/fs/cgroup/{group}/memory.high": "max\n"
    for group in ("user.slice", "user.slice/user-1000.slice", "user.slice/user-1000.slice/user@1000.service", "b.slice")
}


@pytest.mark.parametrize(
    "selector, groups",
    [
        ("*", ["b.slice", "user.slice"]),
        ("user.slice", ["user.slice"]),
        ("user.slice/*", ["user.slice/user-1000.slice"]),
        ("user.slice/user-?000.slice/user@1000.service", ["user.slice/user-1000.slice/user@1000.service"]),
    ],
)
def test_control_groups_within_groups_are_each_meant_by_themselves(selector: str, groups: list[str]) -> None:
    found = plan(f"cgroup:memory.high@{selector}=1", using=WITH_GROUPS, files=GROUPS)
    assert sorted(change.address for change in found.changes) == [f"cgroup:memory.high@{group}" for group in groups]
    paths = {f"/sys/fs/cgroup/{group}/memory.high" for group in groups}
    assert {change.path for change in found.changes} == paths


def test_a_group_and_one_in_it_may_have_values_of_their_own() -> None:
    words = ("cgroup:memory.high@user.slice=1", "cgroup:memory.high@user.slice/user-1000.slice=2")
    found = plan(*words, using=WITH_GROUPS, files=GROUPS)
    assert [(change.address.partition("@")[2], change.new_text) for change in found.changes] == [
        ("user.slice", "1"),
        ("user.slice/user-1000.slice", "2"),
    ]


@pytest.mark.parametrize("selector", ["/user.slice", "user.slice/", "user.slice/../b.slice", "a//b", "./b.slice"])
def test_a_path_that_leads_elsewhere_names_no_group(selector: str) -> None:
    with pytest.raises(BadInput, match="is not the path of a control group"):
        plan(f"cgroup:memory.high@{selector}=1", using=WITH_GROUPS, files=GROUPS)


def test_no_instance_is_meant() -> None:
    (refusal,) = plan("queue:scheduler@mmcblk*=none").refusals
    assert refusal.kind is Why.NO_INSTANCE


def test_scheduler_comes_before_nr_requests() -> None:
    resolved = plan("queue:nr_requests@sda=64", "queue:scheduler@sda=none")
    assert [change.knob for change in resolved.changes] == ["queue:scheduler", "queue:nr_requests"]


def test_a_knob_that_left_the_kernel_is_refused_with_its_successor() -> None:
    (refusal,) = plan("sched:latency_ns=10000000").refusals
    assert refusal.kind is Why.ABSENT
    assert "EEVDF" in refusal.reason
    assert refusal.hint is not None
    assert "sched:base_slice_ns" in refusal.hint


def test_the_old_sysctl_name_finds_the_knob() -> None:
    (refusal,) = plan("kernel.sched_latency_ns=10000000").refusals
    assert refusal.knob == "sched:latency_ns"


def test_the_first_place_that_is_present_is_used() -> None:
    resolved = plan("sched:latency_ns=10000000", files={"/proc/sys/kernel/sched_latency_ns": "6000000\n"})
    assert resolved.changes[0].path == "/proc/sys/kernel/sched_latency_ns"


def test_features() -> None:
    (change,) = plan("feature:NEXT_BUDDY=on").changes
    assert (change.old_text, change.new_text, change.rule) == ("NO_NEXT_BUDDY", "NEXT_BUDDY", "token")
    (refusal,) = plan("feature:NEXT_BUDDY=on", files={"/sys/kernel/debug/sched/features": "PLACE_LAG\n"}).refusals
    assert refusal.kind is Why.ABSENT


def test_boot_parameters_are_left_out_with_the_next_step() -> None:
    for setting, step in {
        "boot:nohz_full=2-9": "add  nohz_full=2-9  to the kernel command line",
        "boot:nowatchdog=on": "add  nowatchdog  to the kernel command line",
        "boot:psi=off": "add  psi=0  to the kernel command line",
        "boot:nowatchdog=off": "remove  nowatchdog  from the kernel command line",
    }.items():
        (refusal,) = plan(setting, using=load_catalog()).refusals
        assert (refusal.kind, refusal.hint) == (Why.AT_BOOT, step)


def test_dangerous_settings_need_consent() -> None:
    assert plan("net.ipv4.tcp_syncookies=0").refusals[0].kind is Why.DANGEROUS
    assert plan("net.ipv4.tcp_syncookies=0", dangerous=True).changes[0].new_text == "0"


def test_back_to_the_default_of_a_dangerous_knob_needs_none() -> None:
    back = plan("net.ipv4.tcp_syncookies=1")
    assert [refusal.kind for refusal in back.refusals] == []
    assert [change.new_text for change in (*back.changes, *back.same)] == ["1"]


def test_a_misspelt_knob_gets_a_did_you_mean() -> None:
    with pytest.raises(UnknownName) as caught:
        plan("vm.dirty-ratio=10")
    assert caught.value.nearest == ("vm.dirty_ratio",)
    assert caught.value.hint == "did you mean vm.dirty_ratio?"


@pytest.mark.parametrize(
    "words", [("vm.swappiness=10", "vm.swappiness=20"), ("vm.dirty_ratio=10", "vm.dirty_bytes=1MiB")]
)
def test_contradictions(words: tuple[str, ...]) -> None:
    with pytest.raises(Contradiction):
        plan(*words)


def test_within_a_profile_the_later_setting_wins() -> None:
    parent = profile("parent", ("vm.swappiness", 10))
    child = profile("child", ("vm.swappiness", 20), extends=("parent",))
    (change,) = plan("child", using=catalog(parent, child)).changes
    assert change.new_text == "20"


def test_conditions_leave_settings_out_with_the_reason() -> None:
    from ktrial.tuning.knobs.profile import Profile, Setting

    only_phones = Profile("phones", "x", setting=(Setting("vm.swappiness", 100, when="os.android == true"),))
    only_spinning = Profile(
        "spinning", "x", setting=(Setting("queue:nr_requests@*", 64, when="device.rotational == true"),)
    )
    (refusal,) = plan("phones", using=catalog(only_phones)).refusals
    assert refusal.kind is Why.CONDITION
    resolved = plan("spinning", using=catalog(only_spinning))
    assert [change.address for change in resolved.changes] == ["queue:nr_requests@sda"]
    assert [refusal.address for refusal in resolved.refusals] == ["queue:nr_requests@nvme0n1"]


def test_computed_values() -> None:
    chosen = profile("p", ("vm.dirty_bytes", {"compute": "share", "of": "memory.total", "percent": 1}))
    (change,) = plan("p", using=catalog(chosen)).changes
    assert change.new_text == str(8 * 2**30 // 100)
    chosen = profile("p", ("queue:scheduler@*", {"compute": "first-offered", "of": ["bfq", "kyber", "none"]}))
    resolved = plan("p", using=catalog(chosen))
    assert {change.address: change.new_text for change in resolved.changes} == {
        "queue:scheduler@nvme0n1": "kyber",
        "queue:scheduler@sda": "none",
    }


def test_requirements_stop_a_profile() -> None:
    strict = profile("strict", ("vm.swappiness", 10), require=(Requirement("os.android == true", "phones only"),))
    with pytest.raises(Refused, match=r"os\.android") as caught:
        plan("strict", using=catalog(strict))
    assert caught.value.exit_status == 4


def test_read_only_and_unreadable_files() -> None:
    files = {"/proc/sys/vm/swappiness": Reading(data=b"60\n", mode=0o444)}
    assert plan("vm.swappiness=10", files=files).refusals[0].kind is Why.READ_ONLY
    files = {"/proc/sys/vm/swappiness": Reading(unreadable="Permission denied")}
    (refusal,) = plan("vm.swappiness=10", files=files).refusals
    assert (refusal.kind, refusal.reason) == (
        Why.UNREADABLE,
        "it is locked down here: not even root can read it: Permission denied",
    )
    user = FakeMachine({**FILES, **files}, FACTS, is_root=False)
    (change,) = make_plan(user, catalog(), ["vm.swappiness=10"])[0].changes
    assert change.old_text is None


def test_debugfs_under_lockdown_is_named_as_that() -> None:
    files = {"/sys/kernel/debug/sched/base_slice_ns": Reading(unreadable="Operation not permitted")}
    (refusal,) = plan("sched:base_slice_ns=3000000", files=files).refusals
    assert refusal.reason.startswith("debugfs is locked down here: not even root can read it")
    assert "Secure Boot" in str(refusal.hint)


def test_stock_is_computed_here() -> None:
    using = catalog(profile("stock", generated="stock"))
    moved = {"/proc/sys/vm/swappiness": "10\n", "/sys/block/sda/queue/scheduler": "[none] mq-deadline\n"}
    resolved = plan("stock", using=using, files=moved)
    assert {change.address: change.new_text for change in resolved.changes} == {
        "vm.swappiness": "60",
        "queue:scheduler@sda": "mq-deadline",
    }


def test_stock_leaves_virtual_disks_and_bare_states_alone() -> None:
    facts = {"block.devices": [{"name": "sda", "hardware_queues": 1, "virtual": True}], "cpu.threads": 2}
    smt = knob(
        "cpu:smt_control",
        kind="sysfs",
        places=["/sys/smt"],
        value={"type": "choice", "choices": ["on", "off"], "states": {"notsupported": "no second threads"}},
        default="on",
    )
    base = catalog(profile("stock", generated="stock"))
    kinds = {
        **base.kinds,
        "device.virtual": FactKind("device.virtual", "bool", "", of="block.devices", field="virtual"),
    }
    using = msgspec.structs.replace(base, knobs={**base.knobs, smt.id: smt}, kinds=kinds)
    machine = FakeMachine(
        {"/sys/block/sda/queue/scheduler": "[none] mq-deadline\n", "/sys/smt": "notsupported\n"}, facts
    )
    assert make_plan(machine, using, ["stock"])[0].changes == ()
    (refusal,) = make_plan(machine, using, ["cpu:smt_control=on"])[0].refusals
    assert refusal.reason == "nothing to set here: no second threads"


def test_switches_that_follow_each_other_do_not_exclude_each_other() -> None:
    fields: dict[str, Any] = {"value": {"type": "bool"}, "default": True}
    both = knob("kernel.watchdog", couples=["kernel.soft_watchdog"], **fields)
    soft = knob("kernel.soft_watchdog", couples=["kernel.watchdog"], **fields)
    using = msgspec.structs.replace(catalog(), knobs={both.id: both, soft.id: soft})
    machine = FakeMachine({"/proc/sys/kernel/watchdog": "0\n", "/proc/sys/kernel/soft_watchdog": "0\n"})
    plan_ = make_plan(machine, using, ["kernel.watchdog=1", "kernel.soft_watchdog=1"])[0]
    assert len(plan_.changes) == 2


def test_one_list_serves_all_knobs() -> None:
    machine = FakeMachine(FILES, FACTS)
    observe(machine, KNOBS.values())
    assert machine.listings == 1


def test_nothing_asked() -> None:
    with pytest.raises(BadInput, match="no profile or setting given"):
        plan()

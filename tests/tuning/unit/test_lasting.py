# SPDX-License-Identifier: Apache-2.0
"""Which file makes which setting last, what the files say, and who wins."""

from __future__ import annotations

import string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.machine.transactions import Journaled, JournaledStep, Lease, Status
from ktrial.tuning.exports.model import UNTESTED, Omission
from ktrial.tuning.lasting.drift import DriftReport, KeptSetting, is_pending
from ktrial.tuning.lasting.drift_text import drift_text
from ktrial.tuning.lasting.keep_plan import plan_keep, wire_keep, without
from ktrial.tuning.lasting.kept_files import is_kept, kept_transactions
from ktrial.tuning.lasting.kept_text import note_of, read_kept, render
from ktrial.tuning.lasting.model import FORMS, PLACES, Form, KeptFile, LastingEntry, Proof, Rival
from ktrial.tuning.lasting.places import Grounds, left_out_of, place_change, place_zram
from ktrial.tuning.lasting.rivals import rivals_of
from ktrial.tuning.lasting.scheduler_files import HEADER
from ktrial.tuning.origin.configured import Claims, ConfiguredValue
from ktrial.tuning.origin.formats import modprobe_d, sysctl_d, tmpfiles_d, tuned, udev
from ktrial.tuning.plans.model import Change, Plan, Refusal, Why, ZramStep
from ktrial.tuning.plans.transaction_text import status_text
from tests.support.knobs import DIRTY_BYTES, DIRTY_RATIO, SCHEDULER, SWAPPINESS, knob

KNOBS = {one.id: one for one in (SWAPPINESS, DIRTY_BYTES, DIRTY_RATIO, SCHEDULER)}
SWAP_PATH = "/proc/sys/vm/swappiness"


def change(address: str, path: str, new: str, old: str | None = "60", **more: Any) -> Change:
    fields = {"couples": (), "effective": None, "why": None, "origin": f"setting {address}={new}", "risk": "safe"}
    return Change(
        knob=address.partition("@")[0],
        address=address,
        path=path,
        rule="integer",
        new_text=new,
        old_text=old,
        old=None if old is None else f"{old}\n".encode(),
        **{**fields, **more},
    )


def swappiness(value: str = "10", **more: Any) -> Change:
    return change("vm.swappiness", SWAP_PATH, value, **more)


def plan_of(*changes: Change, **more: Any) -> Plan:
    wanted = tuple(one for one in changes if not one.already)
    return Plan("x", wanted, tuple(one for one in changes if one.already), more.pop("refusals", ()), **more)


def keep(*changes: Change, kept: dict[Form, KeptFile] | None = None, proofs: Any = None, **more: Any) -> Any:
    named = more.pop("named", ())
    return plan_keep(plan_of(*changes, **more), kept or {}, proofs or {}, Grounds(), KNOBS, named)


def kept_file(*changes: Change) -> dict[Form, KeptFile]:
    return {one.form: KeptFile(one.form, one.after, one.after) for one in keep(*changes).files}


@pytest.mark.parametrize(
    "path, form, holds",
    [
        (SWAP_PATH, "sysctl.d", {"path": SWAP_PATH, "value": "1"}),
        ("/proc/sys/net/ipv4/conf/eth0.1/x", "sysctl.d", {"path": "/proc/sys/net/ipv4/conf/eth0.1/x", "value": "1"}),
        ("/sys/kernel/mm/ksm/run", "tmpfiles.d", {"path": "/sys/kernel/mm/ksm/run", "value": "1"}),
        ("/sys/module/zswap/parameters/a", "tmpfiles.d", {"path": "/sys/module/zswap/parameters/a", "value": "1"}),
        ("/sys/module/nvme_core/parameters/a", "modprobe.d", {"module": "nvme_core", "parameter": "a", "value": "1"}),
        (
            "/sys/block/sda/queue/nr_requests",
            "udev",
            {
                "match": {"ACTION": "add|change", "SUBSYSTEM": "block", "KERNEL": "sda"},
                "set": [{"attribute": "queue/nr_requests", "value": "1"}],
            },
        ),
        (
            "/sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us",
            "udev",
            {
                "match": {"ACTION": "add|change", "SUBSYSTEM": "nvme", "KERNEL": "nvme0"},
                "set": [{"attribute": "power/pm_qos_latency_tolerance_us", "value": "1"}],
            },
        ),
        (
            "/sys/class/net/eth0/tx_queue_len",
            "udev",
            {
                "match": {"ACTION": "add|change|move", "SUBSYSTEM": "net", "KERNEL": "eth0"},
                "set": [{"attribute": "tx_queue_len", "value": "1"}],
            },
        ),
        (
            "/sys/bus/workqueue/devices/writeback/cpumask",
            "udev",
            {
                "match": {"ACTION": "add|change", "SUBSYSTEM": "workqueue", "KERNEL": "writeback"},
                "set": [{"attribute": "cpumask", "value": "1"}],
            },
        ),
        (
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            "tmpfiles.d",
            {"path": "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "value": "1"},
        ),
    ],
)
def test_a_setting_lasts_in_the_file_that_its_place_asks_for(path: str, form: Form, holds: dict[str, Any]) -> None:
    found = place_change(change("x", path, "1"), Grounds(modules=["nvme_core"]))
    assert isinstance(found, LastingEntry)
    assert (found.form, dict(found.holds), dict(found.values)) == (form, holds, {"x": "1"})


@pytest.mark.parametrize(
    "path, value, why",
    [
        ("/sys/fs/cgroup/user.slice/memory.high", "1", "systemd itself sets memory.high"),
        ("/sys/fs/cgroup/user.slice/user-7.slice/cpu.uclamp.min", "1", "only when it is needed"),
        ("/sys/kernel/debug/sched/features", "$(id)", "cannot hold"),
        ("/proc/irq/9/smp_affinity", "1", "interrupts may have other numbers"),
        ("/dev/cpuctl/top-app/cpu.shares", "1", "Android"),
        (SWAP_PATH, "1\n2", "cannot hold"),
        (SWAP_PATH, "$(id)", "cannot hold"),
        ("/sys/kernel/mm/ksm/run", "-", "cannot hold"),
        ("/sys/module/nvme_core/parameters/a", "1 b=2", "cannot hold"),
        ("/sys/class/net/*/tx_queue_len", "1", "can name"),
        ("/sys/block/cciss!c0d0/queue/nr_requests", "1", "can name"),
        ("/proc/sys/net/ipv4/conf/eth0@x/rp_filter", "1", "can name"),
    ],
)
def test_what_has_no_native_place_is_refused_by_name(path: str, value: str, why: str) -> None:
    found = place_change(change("x", path, value), Grounds(modules=["nvme_core"]))
    assert isinstance(found, Omission)
    assert (found.address, found.value) == ("x", value)
    assert why in found.reason


def test_a_read_only_parameter_of_a_loadable_module_lasts_from_its_next_load_on() -> None:
    queues = knob("nvme:poll_queues", kind="module", places=["/sys/module/nvme/parameters/poll_queues"])
    refusal = Refusal(queues.id, queues.id, Why.READ_ONLY, "read-only", "2", "profile x")

    def found(*modules: str) -> Any:
        return plan_keep(plan_of(refusals=(refusal,)), {}, {}, Grounds(modules=modules), {queues.id: queues})

    kept = found("nvme")
    assert (kept.left_out, kept.live.changes) == ((), ())
    assert str(kept.files[0].after).endswith("\noptions nvme poll_queues=2\n")
    # Of a module that is a part of the kernel, only the command line sets it.
    assert str(found().files[0].after).endswith(' nvme.poll_queues=2"\n')


def test_what_the_kernel_is_built_with_is_not_kept() -> None:
    refusal = Refusal("kconfig:x", "kconfig:x", Why.AT_BUILD, "decided when it is built", "y", "setting x", "build")
    assert keep(refusals=(refusal,)).left_out == (left_out_of(refusal),)


def test_zram_lasts_by_its_generator_alone() -> None:
    step = ZramStep(device=None, size_bytes=2**30 + 1, algorithm="zstd", priority=100, origin="profile x")
    assert isinstance(place_zram(step, Grounds()), Omission)
    found = place_zram(step, Grounds(has_zram_generator=True))
    assert isinstance(found, LastingEntry)
    assert found.holds["zram-size"] == "1025"
    assert found.values == {"zram:disksize@zram0": str(1025 * 2**20), "zram:comp_algorithm@zram0": "zstd"}


def test_the_zram_device_of_now_has_the_size_that_is_kept() -> None:
    step = ZramStep(device="zram0", size_bytes=2**30 + 1, algorithm=None, priority=100, origin="profile x")
    found = plan_keep(plan_of(zram=step), {}, {}, Grounds(has_zram_generator=True), KNOBS)
    assert found.live.zram is not None
    assert found.live.zram.size_bytes == 1025 * 2**20


def test_a_file_says_why_each_setting_is_there() -> None:
    proof = Proof(verdict="better", text="better: time -4 % (-6 to -2 %), trial t-1, 2026-11-20")
    found = keep(
        swappiness(), change("vm.dirty_ratio", "/proc/sys/vm/dirty_ratio", "5"), proofs={("vm.swappiness", "10"): proof}
    )
    (file,) = found.files
    assert file.after == (
        f"{HEADER}# vm.swappiness: better: time -4 % (-6 to -2 %), trial t-1, 2026-11-20\n"
        "vm.swappiness = 10\n"
        "# vm.dirty_ratio: not tested on this machine; kept by name\n"
        "vm.dirty_ratio = 5\n"
    )
    assert file.path == PLACES["sysctl.d"]


@pytest.mark.parametrize("verdict", ["worse", "equivalent", "inconclusive", "different", "refuted"])
def test_what_is_not_better_is_kept_only_if_it_is_named(verdict: str) -> None:
    proofs = {("vm.swappiness", "10"): Proof(verdict=verdict, text=f"{verdict}: …")}
    of_profile = swappiness(origin="profile x")
    found = keep(of_profile, proofs=proofs)
    assert (found.files, found.live.changes) == ((), ())
    (left,) = found.left_out
    assert left.reason.startswith(f"it is {verdict}")
    assert "vm.swappiness=10" in str(left.hint)
    named = keep(swappiness(), proofs=proofs, named=["setting vm.swappiness=10"])
    assert named.left_out == ()
    assert f"# vm.swappiness: {verdict}: ?" in named.files[0].after


def test_another_value_replaces_the_kept_one_and_only_what_differs_is_written() -> None:
    scheduler = change("queue:scheduler@sda", "/sys/block/sda/queue/scheduler", "kyber")
    ratio = change("vm.dirty_ratio", "/proc/sys/vm/dirty_ratio", "5")
    kept = kept_file(swappiness(), ratio, scheduler)
    assert set(kept) == {"sysctl.d", "udev"}
    assert [one.form for one in keep(swappiness(old="10"), kept=kept).files] == []
    assert [one.form for one in keep(swappiness("20"), kept=kept).files] == ["sysctl.d"]
    text = str(keep(swappiness("20"), kept=kept).files[0].after)
    assert "vm.swappiness = 20\n" in text
    assert "vm.swappiness = 10" not in text
    assert "vm.dirty_ratio = 5\n" in text
    step = wire_keep(keep(swappiness("20"), kept=kept), next_boot=True)["steps"]
    assert [one["kind"] for one in step] == ["file"]
    assert step[0]["expect"] == kept["sysctl.d"].text


def test_the_partner_that_the_kernel_clears_leaves_the_file() -> None:
    kept = kept_file(change("vm.dirty_ratio", "/proc/sys/vm/dirty_ratio", "5"), swappiness())
    found = keep(change("vm.dirty_bytes", "/proc/sys/vm/dirty_bytes", "4096"), kept=kept)
    assert "dirty_ratio" not in found.files[0].after
    assert "vm.swappiness = 10\n" in found.files[0].after


@pytest.mark.parametrize("old", ["none", "mq-deadline"])
def test_a_scheduler_stands_before_what_it_resets(old: str) -> None:
    queue = "/sys/block/sda/queue"
    throttling = knob("queue:wbt_lat_usec", kind="sysfs", places=["/sys/block/{block}/queue/wbt_lat_usec"])
    throttling = msgspec.structs.replace(throttling, after=("queue:scheduler",))
    knobs = {**KNOBS, throttling.id: throttling}
    wbt = change("queue:wbt_lat_usec@sda", f"{queue}/wbt_lat_usec", "0", "2000")
    scheduler = change("queue:scheduler@sda", f"{queue}/scheduler", "none", old)
    (first,) = plan_keep(plan_of(wbt), {}, {}, Grounds(), knobs).files
    text = str(first.after)
    kept_already: dict[Form, KeptFile] = {"udev": KeptFile("udev", text, text)}
    cases: list[tuple[dict[Form, KeptFile], tuple[Change, ...]]] = [
        ({}, (scheduler, wbt)),
        (kept_already, (scheduler,)),
    ]
    for kept, changes in cases:
        (file,) = plan_keep(plan_of(*changes), kept, {}, Grounds(), knobs).files
        assert [list(entry.values) for entry in file.entries] == [["queue:scheduler@sda"], ["queue:wbt_lat_usec@sda"]]


def test_a_verdict_stays_when_the_same_value_is_kept_again_without_one() -> None:
    proofs = {("vm.swappiness", "10"): Proof(verdict="better", text="better: …")}
    (file,) = keep(swappiness(), proofs=proofs).files
    kept: dict[Form, KeptFile] = {"sysctl.d": KeptFile("sysctl.d", file.after, file.after)}
    assert keep(swappiness(old="10"), kept=kept).files == ()
    assert keep(swappiness(old="10"), kept=kept_file(swappiness()), proofs=proofs).files[0].after == file.after


def test_single_settings_leave_their_files() -> None:
    kept = kept_file(swappiness(), change("vm.dirty_ratio", "/proc/sys/vm/dirty_ratio", "5"))
    (less,) = without(kept, {"vm.swappiness"})
    assert "swappiness" not in str(less.after)
    (none,) = without(kept, {"vm.swappiness", "vm.dirty_ratio"})
    assert none.after is None
    assert without(kept, {"vm.other"}) == ()


WORDS = st.text(string.ascii_letters + string.digits + " _.,:/+=-", min_size=1, max_size=12).map(str.strip)
VALUES = WORDS.filter(lambda text: text not in {"", "-"})
PARAMETERS = VALUES.map(lambda text: text.replace(" ", "_").replace("=", "_"))
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
REASONS = st.text(min_size=1, max_size=300).map(lambda text: f"why {text}")


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    found = {}
    for _ in range(draw(st.integers(1, 6))):
        name = draw(NAMES)
        path, value = draw(
            st.sampled_from(
                [
                    (f"/proc/sys/vm/{name}", draw(VALUES)),
                    (f"/proc/sys/net/ipv4/conf/{name}.1/{name}", draw(VALUES)),
                    (f"/sys/kernel/mm/{name}", draw(VALUES)),
                    (f"/sys/module/own/parameters/{name}", draw(PARAMETERS)),
                    (f"/sys/block/{name}/queue/{name}", draw(VALUES)),
                    (f"/sys/kernel/debug/sched/{name}", draw(VALUES)),
                ]
            )
        )
        found[path] = change(f"knob:{name}@{path.replace('/', '')}", path, value, None, why=draw(REASONS))
    return list(found.values())


@given(changes())
def test_what_is_rendered_is_read_back_and_says_the_same_to_readers_of_others(wanted: list[Change]) -> None:
    found = plan_keep(plan_of(*wanted), {}, {}, Grounds(modules=["own"]), {})
    assert not found.left_out
    for file in found.files:
        text = str(file.after)
        assert text.isascii()
        assert render(read_kept(file.form, text)) == text
        back = {address: value for entry in read_kept(file.form, text) for address, value in entry.values.items()}
        own = [entry for entry in found.entries if entry.form == file.form]
        assert back == {address: value for entry in own for address, value in entry.values.items()}
        readers: dict[str, Any] = {
            "sysctl.d": sysctl_d.parse,
            "tmpfiles.d": tmpfiles_d.parse,
            "modprobe.d": modprobe_d.parse,
            "udev": lambda text, name: udev.parse(text, name).reading(),
        }
        if file.form not in readers:  # no reader of ktrial's own
            continue
        told = readers[file.form](text, file.path)
        assert not told.unread
        assert [one.value for one in told.assignments] == [value for entry in own for value in entry.values.values()]


@given(st.dictionaries(NAMES, REASONS, min_size=1, max_size=3))
def test_a_note_is_what_the_agent_takes(reasons: dict[str, str]) -> None:
    entry = LastingEntry(form="sysctl.d", holds={}, values={}, reasons=reasons)
    lines = note_of(entry)
    assert 1 <= len(lines) <= 8
    assert all(1 <= len(line) <= 240 and all(" " <= one <= "~" and one != "\\" for one in line) for line in lines)


def test_zram_is_read_back() -> None:
    step = ZramStep(device="zram1", size_bytes=2**30, algorithm="zstd", priority=5, origin="x")
    found = plan_keep(plan_of(zram=step), {}, {}, Grounds(has_zram_generator=True), {})
    (file,) = found.files
    (entry,) = read_kept("zram-generator", str(file.after))
    assert entry == found.entries[0]
    assert render([entry]) == file.after


def test_what_the_agent_takes_from_others_in_these_files_is_no_kept_setting() -> None:
    (computed,) = read_kept("zram-generator", "[zram0]\nzram-size = min(ram / 2, 4096)\n")
    assert (computed.holds["zram-size"], dict(computed.values)) == ("min(ram / 2, 4096)", {})
    (bare,) = read_kept("udev", 'SUBSYSTEM=="block", ATTR{queue/nr_requests}="64"\n')
    assert dict(bare.values) == {}


def claims(sysctl: dict[str, str] | None = None, *others: ConfiguredValue) -> Claims:
    merged = sysctl_d.merge(list((sysctl or {}).items()))
    return Claims(sysctl=merged, others=others, unread=(), untold=())


def rivals(found: Claims, *services: str, value: str = "10") -> list[Rival]:
    return list(rivals_of(swappiness(value), "sysctl.d", KNOBS, found, services))


@pytest.mark.parametrize(
    "file, wins",
    [
        ("/etc/sysctl.d/10-a.conf", False),
        ("/etc/sysctl.d/99-z.conf", False),
        ("/etc/sysctl.d/99-sysctl.conf", False),
        ("/usr/lib/sysctl.d/50-default.conf", False),
        ("/etc/sysctl.d/zz.conf", True),
        ("/run/sysctl.d/own.conf", True),
        ("/etc/sysctl.conf", False),
    ],
)
def test_the_kept_file_wins_over_every_numbered_one(file: str, wins: bool) -> None:
    (found,) = rivals(claims({file: "vm.swappiness = 60\n", PLACES["sysctl.d"]: "vm.swappiness = 10\n"}))
    assert (found.place, found.value, found.wins) == (f"{file}:1", "60", wins)


@pytest.mark.parametrize(
    "reapplies, told",
    [
        (True, [("/etc/sysctl.conf:1", True), ("/etc/tuned/a/tuned.conf:2", False)]),
        (False, [("/etc/sysctl.conf:1", False), ("/etc/tuned/a/tuned.conf:2", True)]),
    ],
)
def test_tuned_may_let_sysctl_d_win_and_reads_sysctl_conf_last(reapplies: bool, told: list[tuple[str, bool]]) -> None:
    (item,) = tuned.parse(b"[sysctl]\nvm.swappiness = 30\n", "/etc/tuned/a/tuned.conf").units[0].assignments
    files = {"/etc/sysctl.conf": "vm.swappiness = 60\n"}
    found = claims(files, ConfiguredValue(source="tuned", assignment=item))
    found = msgspec.structs.replace(found, tuned_reapplies=reapplies)
    assert sorted((one.place, one.wins) for one in rivals(found)) == told


def test_a_later_line_with_the_same_value_does_not_matter() -> None:
    assert [one.wins for one in rivals(claims({"/etc/sysctl.d/zz.conf": "vm.swappiness = 10\n"}))] == [False]


def test_a_later_glob_does_not_win_over_a_line_of_its_own() -> None:
    assert [one.wins for one in rivals(claims({"/etc/sysctl.d/zz.conf": "vm.swapp* = 60\n"}))] == [False]


def test_who_writes_the_partner_clears_the_kept_value() -> None:
    found = claims({"/etc/sysctl.d/zz.conf": "vm.dirty_ratio = 5\n", "/etc/sysctl.d/10-a.conf": "vm.dirty_ratio = 7\n"})
    one = change("vm.dirty_bytes", "/proc/sys/vm/dirty_bytes", "4096")
    told = [(rival.place, rival.value, rival.wins) for rival in rivals_of(one, "sysctl.d", KNOBS, found, ())]
    assert told == [
        ("/etc/sysctl.d/10-a.conf:1", "vm.dirty_ratio = 7", False),
        ("/etc/sysctl.d/zz.conf:1", "vm.dirty_ratio = 5", True),
    ]


def test_the_first_line_of_tmpfiles_d_wins_and_a_pattern_is_another_path() -> None:
    def found(file: str, path: str) -> bool:
        (item,) = tmpfiles_d.parse(f"w {path} - - - - 0\n", file).assignments
        one = change("mm:run", "/sys/kernel/mm/ksm/run", "1")
        knobs = {"mm:run": knob("mm:run", kind="sysfs", places=["/sys/kernel/mm/ksm/run"])}
        told = claims(None, ConfiguredValue(source="tmpfiles.d", assignment=item))
        return [rival.wins for rival in rivals_of(one, "tmpfiles.d", knobs, told, ())] == [True]

    assert not found("/etc/tmpfiles.d/99-own.conf", "/sys/kernel/mm/ksm/run")
    assert found("/etc/tmpfiles.d/00-a.conf", "/sys/kernel/mm/ksm/run")
    assert found("/etc/tmpfiles.d/99-own.conf", "/sys/kernel/mm/*/run")


def test_a_rule_of_udev_and_tuned_act_after_sysctl_d() -> None:
    (rule,) = udev.parse('KERNEL=="zram0", SYSCTL{vm.swappiness}="150"\n', "/usr/lib/udev/rules.d/30-zram.rules").rules
    found = rivals(claims(None, ConfiguredValue(source="udev", assignment=rule.assignments[0], rule=rule)))
    assert [(one.wins, one.when) for one in found] == [(True, 'later if KERNEL=="zram0"')]


def test_a_service_that_writes_the_knob_is_named() -> None:
    governor = knob("cpufreq:scaling_governor", kind="sysfs", places=["/sys/devices/system/cpu/cpufreq/{policy}/x"])
    path = "/sys/devices/system/cpu/cpufreq/policy0/x"
    one = change("cpufreq:scaling_governor@policy0", path, "performance")
    services = ["tlp", "irqbalance"]
    (found,) = rivals_of(one, "tmpfiles.d", {governor.id: governor}, claims(), services)
    assert (found.place, found.wins) == ("the service tlp", True)
    assert rivals(claims(), "tlp", "power-profiles-daemon") == []


def journaled(number: int, *paths: str, state: Any = "applied") -> Journaled:
    steps = tuple(JournaledStep(at, path, None, "x") for at, path in enumerate(paths))
    return Journaled(number, "title", state, Lease("keep"), 0, True, steps)


def test_status_tells_kept_from_applied() -> None:
    applied = journaled(1, SWAP_PATH)
    kept = journaled(2, SWAP_PATH, PLACES["sysctl.d"])
    over = journaled(3, PLACES["udev"], state="reverted")
    others = journaled(4, "/etc/sysctl.d/90-ktrial.conf")
    found = Status((applied, kept, over, others))
    assert [is_kept(one) for one in found.transactions] == [False, True, False, False]
    assert kept_transactions(found) == (kept,)
    text = status_text(found, width=100)
    assert "kept" in text
    assert text.count("until `ktrial keep --undo`") == 1


def kept_setting(**more: Any) -> KeptSetting:
    fields: dict[str, Any] = {
        "address": "vm.swappiness",
        "file": PLACES["sysctl.d"],
        "value": "10",
        "now": "10",
        "state": "live",
        "reason": "better: time -4 %, across boots, Linux 6.12.1-own, trial t-1, 2026-11-20",
        "kept_unix_ms": 1_764_374_400_000,
    }
    return KeptSetting(**{**fields, **more})


@pytest.mark.parametrize("kernel, told", [("6.12.1-own", {}), ("6.13.0", {"vm.swappiness": "6.12.1-own"}), (None, {})])
def test_a_verdict_of_another_kernel_is_told(kernel: str | None, told: dict[str, str]) -> None:
    untested = kept_setting(address="vm.other", reason=f"{UNTESTED}; from profile x: since Linux 6.1 it helps")
    assert DriftReport(settings=(kept_setting(), untested), edited=(), kernel=kernel).other_kernels == told


def test_drift_shows_what_is_not_live_as_kept() -> None:
    edited = KeptFile("sysctl.d", "vm.swappiness = 10\n", None)
    writer = "sysctl.d, /etc/sysctl.d/zz.conf:1"
    found = DriftReport(
        settings=(kept_setting(), kept_setting(now="60", state="differs", written_by=writer)),
        edited=(edited,),
        kernel="6.13.0",
    )
    assert found.has_drifted
    text = drift_text(found, width=120)
    assert "differs: set by sysctl.d, /etc/sysctl.d/zz.conf:1" in text
    assert "2025-11-29" in text
    assert "/etc/sysctl.d/ktrial.conf: removed" in text
    assert "1 verdict was reached on another kernel (6.12.1-own; now 6.13.0)" in text
    assert "1 of 2 kept settings are live" in text
    calm = DriftReport(settings=(kept_setting(), kept_setting(state="pending")), edited=(), kernel=None)
    assert not calm.has_drifted


def test_each_form_has_a_place() -> None:
    assert set(PLACES) == set(FORMS)


def boot_of(
    value: str, *knobs: str, old: str | None = None, next_boot: bool = False, this_boot: bool = True
) -> Journaled:
    """A transaction that puts a value of vm.swappiness into its file and writes these knobs."""
    text = keep(swappiness(value)).files[0].after
    steps = [JournaledStep(at, f"/{name}", "60", "10", name) for at, name in enumerate(knobs)]
    before = None if old is None else keep(swappiness(old)).files[0].after
    steps.append(JournaledStep(len(steps), PLACES["sysctl.d"], before, text))
    sources = {"next_boot": True} if next_boot else None
    return Journaled(1, "keep x", "applied", Lease("keep"), 0, this_boot, tuple(steps), sources=sources)


@pytest.mark.parametrize(
    "transactions, can_be_written, pending",
    [
        ([boot_of("10", next_boot=True)], True, True),
        ([boot_of("10", next_boot=True, this_boot=False)], True, False),
        ([boot_of("10")], False, True),
        # It had the value already, and somebody changed it since.
        ([boot_of("10")], True, False),
        ([boot_of("10", "vm.swappiness")], True, False),
        # A later transaction about another setting of the file does not make it wait.
        ([boot_of("10", "vm.page-cluster", old="10"), boot_of("10", "vm.swappiness")], True, False),
        ([boot_of("10", old="10"), boot_of("10", next_boot=True)], True, True),
        ([], True, False),
    ],
)
def test_only_what_was_left_for_the_next_boot_is_pending(
    transactions: list[Journaled], can_be_written: bool, pending: bool
) -> None:
    assert is_pending("sysctl.d", "vm.swappiness", "10", transactions, can_be_written=can_be_written) is pending

# SPDX-License-Identifier: Apache-2.0
"""The tuning verbs through the real agent on a fake machine."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.tree import FakeRoot


def test_apply_verify_status_revert(root: FakeRoot) -> None:
    before = root.values()
    applied = root.run("apply", "vm.swappiness=10", "vm.dirty_ratio=30", "--yes")
    assert (applied.status, applied.err) == (0, "")
    assert "2 settings are in force (transaction 1)" in applied.out
    assert root.read("/proc/sys/vm/swappiness") == "10\n"
    assert root.run("verify").out == "All 2 settings are in force.\n"
    assert "until reverted or reboot" in root.run("status").out
    reverted = root.run("revert")
    assert (reverted.status, reverted.out) == (0, "Transaction 1: 2 of 2 restored.\n")
    assert root.values() == before
    assert root.run("status").out.startswith("Nothing is applied.")


def test_a_control_group_deep_within_others_is_set_tried_and_put_back(root: FakeRoot) -> None:
    group = "user.slice/user-1000.slice/user@1000.service/app.slice/app-a\\x2db.scope"
    for path in (group, "user.slice", "user.slice/user-1000.slice"):
        root.write(f"/sys/fs/cgroup/{path}/memory.high", "67108864\n")
    before = root.values()
    setting = f"cgroup:memory.high@{group}=104857600"
    assert root.run("apply", setting, "--yes").status == 0
    assert root.read(f"/sys/fs/cgroup/{group}/memory.high") == "104857600\n"
    assert sum(text != before[name] for name, text in root.values().items()) == 1
    assert "ktrial, transaction 1" in root.run("why", setting.partition("=")[0]).out
    assert root.run("revert").status == 0
    assert root.values() == before
    tried = root.run("try", setting, "--dry-run", "--", "true")
    assert tried.status == 0, tried.err
    assert "high-app-a-x2db.scope-104857600" in tried.out
    refused = root.run("apply", "cgroup:memory.high@user.slice/../user.slice=5", "--yes")
    assert (refused.status, root.values()) == (2, before)


def test_the_whole_micro_stutter_profile_comes_back(root: FakeRoot) -> None:
    before = root.values()
    assert root.run("apply", "micro-stutter-watermarks", "--yes").status == 0
    changed = {name for name, text in root.values().items() if text != before[name]}
    assert {name.rpartition("/")[2] for name in changed} == {
        "swappiness",
        "page-cluster",
        "min_free_kbytes",
        "watermark_scale_factor",
        "dirty_background_ratio",
        "dirty_ratio",
    }
    assert root.run("revert").status == 0
    assert root.values() == before


def test_plan_writes_nothing_and_its_json_is_what_the_agent_takes(root: FakeRoot) -> None:
    before = root.values()
    answer = root.run("plan", "vm.swappiness=10", "boot:nohz_full=1", "--json").json
    assert answer["plan"]["steps"][0]["new"] == "10\n"
    assert answer["plan"]["schema"] == "ktrial.plan/2"
    assert answer["refusals"][0]["why"] == "at-boot"
    assert root.values() == before


def test_to_goes_back_several_steps(root: FakeRoot) -> None:
    for value in (50, 40, 30):
        assert root.run("apply", f"vm.swappiness={value}", "--yes").status == 0
    assert root.run("revert", "--to", "1").status == 0
    assert root.read("/proc/sys/vm/swappiness") == "50\n"
    assert root.run("revert", "--all").status == 0
    assert root.read("/proc/sys/vm/swappiness") == "60\n"


def test_what_somebody_else_changed_is_left_alone_unless_forced(root: FakeRoot) -> None:
    root.run("apply", "vm.swappiness=10", "vm.stat_interval=5", "--yes")
    root.write("/proc/sys/vm/swappiness", "77\n")
    drifted = root.run("verify")
    assert drifted.status == 3
    assert "77" in drifted.out
    reverted = root.run("revert")
    assert "changed by somebody else" in " ".join(reverted.out.split())
    assert root.read("/proc/sys/vm/swappiness") == "77\n"
    assert root.read("/proc/sys/vm/stat_interval") == "1\n"


def test_force_puts_back_what_somebody_else_changed(root: FakeRoot) -> None:
    root.run("apply", "vm.swappiness=10", "--yes")
    root.write("/proc/sys/vm/swappiness", "77\n")
    assert root.run("revert", "--force").status == 0
    assert root.read("/proc/sys/vm/swappiness") == "60\n"


def test_for_reverts_by_itself(root: FakeRoot) -> None:
    applied = root.run("apply", "vm.swappiness=10", "--yes", "--for", "1s")
    assert "reverts in 1s" in applied.err
    assert root.read("/proc/sys/vm/swappiness") == "10\n"
    deadline = time.monotonic() + 15
    while root.read("/proc/sys/vm/swappiness") != "60\n" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert root.read("/proc/sys/vm/swappiness") == "60\n"


def test_confirm_keeps(root: FakeRoot) -> None:
    root.run("apply", "vm.swappiness=10", "--yes", "--for", "2s")
    assert root.run("confirm", "1").status == 0
    time.sleep(2.5)
    assert root.read("/proc/sys/vm/swappiness") == "10\n"
    assert "until reverted or reboot" in root.run("status").out


def test_a_dangerous_setting_is_refused_with_status_4(root: FakeRoot) -> None:
    refused = root.run("apply", "net.ipv4.tcp_syncookies=0", "--yes")
    assert refused.status == 4
    assert "--yes-dangerous" in refused.err
    assert root.read("/proc/sys/net/ipv4/tcp_syncookies") == "1\n"
    assert root.run("apply", "net.ipv4.tcp_syncookies=0", "--yes", "--yes-dangerous").status == 0
    assert root.run("revert").status == 0


@pytest.mark.parametrize(
    "argv,status,words",
    [
        (("plan", "vm.page_cluster=0"), 2, "did you mean vm.page-cluster"),
        (("plan", "vm.swappiness=900"), 2, "out of range (0 to 200)"),
        (("plan", "vm.swappiness=high"), 2, "not a whole number"),
        (("plan", "ktweek"), 2, "did you mean ktweak"),
        (("plan",), 2, "no profile or setting given"),
        (("plan", "vm.dirty_ratio=30", "vm.dirty_bytes=1GiB"), 2, "exclude each other"),
        (("plan", "vm.swappiness=1", "vm.swappiness=2"), 2, "set twice"),
        (("apply", "vm.swappiness=1", "--for", "soon"), 2, "not a duration"),
        (("apply", "vm.swappiness=1", "--for", "1s", "--confirm", "1s"), 2, "cannot combine --for with --confirm"),
        (("revert", "--to", "1", "--all"), 2, "cannot combine"),
        (("revert", "--to", "99"), 2, "99"),
        (("frobnicate",), 2, "unknown command"),
        (("explain",), 2, "Missing argument"),
        (("explain", "vm.swapiness"), 2, "did you mean vm.swappiness"),
        (("plan", "--frob"), 2, "No such option"),
    ],
)
def test_bad_input_is_one_message_and_writes_nothing(
    root: FakeRoot, argv: tuple[str, ...], status: int, words: str
) -> None:
    before = root.values()
    ran = root.run(*argv)
    assert ran.status == status
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert root.values() == before


def test_absent_knobs_are_left_out_and_the_rest_is_applied(root: FakeRoot) -> None:
    applied = root.run("apply", "vm.swappiness=10", "sched:latency_ns=10000000", "--yes")
    assert applied.status == 0
    assert "skipped:" in applied.out
    assert "sched:base_slice_ns" in applied.out


def test_nothing_to_do(root: FakeRoot) -> None:
    assert root.run("apply", "vm.swappiness=60", "--yes").status == 0
    assert root.run("revert").out == "Nothing to do.\n"


def test_json_of_every_step(root: FakeRoot) -> None:
    applied = root.run("apply", "vm.swappiness=10", "--json").json
    assert (applied["schema"], applied["state"]) == ("ktrial.applied/1", "applied")
    assert root.run("status", "--json").json["transactions"][0]["title"] == "vm.swappiness=10"
    verified = root.run("verify", "--json").json
    assert verified["transactions"][0]["steps"][0]["outcome"] == "in-force"
    assert root.run("revert", "--json").json["transactions"][0]["steps"][0]["outcome"] == "restored"
    assert root.run("recover", "--json").json["transactions"] == []


def test_journal_that_cannot_be_written_means_that_nothing_is_written(root: FakeRoot) -> None:
    root.write("/var/lib/ktrial", "a file where the folder should be\n")
    ran = root.run("apply", "vm.swappiness=10", "--yes")
    assert ran.status == 1
    assert "var/lib/ktrial" in ran.err
    assert root.read("/proc/sys/vm/swappiness") == "60\n"


def test_install_and_remove_recovery(root: FakeRoot) -> None:
    for folder in ("etc/systemd/system", "usr/local"):
        (root.folder / folder).mkdir(parents=True)
    installed = root.run("install-recovery")
    assert installed.status == 0, installed.err
    unit = root.folder / "etc/systemd/system/ktrial-recover.service"
    agent = root.folder / "usr/local/libexec/ktrial/ktrial-agent"
    assert unit.exists()
    assert agent.stat().st_mode & 0o777 == 0o755
    removed = root.run("install-recovery", "--remove")
    assert removed.status == 0
    assert not unit.exists()
    assert not agent.exists()


def test_uninstall_reverts_all_and_names_what_remains(root: FakeRoot) -> None:
    before = root.values()
    (root.folder / "etc/systemd/system").mkdir(parents=True)
    root.run("apply", "vm.swappiness=10", "--yes")
    root.run("apply", "vm.stat_interval=9", "--yes")
    root.run("install-recovery")
    ran = root.run("uninstall", "--yes")
    assert ran.status == 0, ran.err
    assert root.values() == before
    assert "removed: /var/lib/ktrial" in ran.out
    assert "remains: " in ran.out
    assert not (root.folder / "var/lib/ktrial").exists()
    assert not list((root.folder / "etc/systemd/system").rglob("ktrial*"))
    assert root.run("uninstall", "--yes").status == 0
    assert not (root.folder / "var/lib/ktrial").exists()


def test_own_profile(root: FakeRoot) -> None:
    from pathlib import Path

    folder = Path.home() / ".config/ktrial/profiles"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(
        'name = "mine"\nsummary = "own"\n[[setting]]\nknob = "vm.swappiness"\nvalue = 33\n'
    )
    assert root.run("plan", "mine", "--json").json["plan"]["steps"][0]["new"] == "33\n"
    (folder / "mine.toml").write_text('name = "mine"\nsummary = 3\n')
    broken = root.run("plan", "mine")
    assert broken.status == 2
    assert "mine.toml:2:1" in broken.err


def test_explain_says_what_a_value_means_here(root: FakeRoot) -> None:
    text = " ".join(root.run("explain", "vm.dirty_ratio").out.split())
    assert "of the 11.4 GiB available now" in text
    assert "claimed" in text
    assert json.loads(root.run("explain", "vm.dirty_ratio", "--json").out)["here"] == {"": "20"}


def test_a_read_only_mount_is_known_before_anything_is_tried(root: FakeRoot) -> None:
    root.write("/proc/self/mounts", "proc /proc proc rw 0 0\nproc /proc/sys proc ro 0 0\n")
    planned = root.run("plan", "vm.swappiness=10")
    assert "/proc/sys is mounted read-only, as in containers" in " ".join(planned.out.split())
    applied = root.run("apply", "vm.swappiness=10", "--yes")
    assert applied.status == 1
    assert root.read("/proc/sys/vm/swappiness") == "60\n"

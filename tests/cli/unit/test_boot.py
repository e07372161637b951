# SPDX-License-Identifier: Apache-2.0
"""`ktrial boot` on folders that stand for machines: what is shown, what is written, and what is refused."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from ktrial.agent.session import AgentSession
from ktrial.cli.shared import boots
from ktrial.cli.shared.boot_trials import boots_in_vain, refuse_own_store
from ktrial.kit.errors import Refused
from ktrial.machine.transactions import Reverted, RevertedStep
from ktrial.tuning.boots.boot_status import AttemptEntry, BootEvent, BootStatus, EventKind
from tests.support.boot_machine import ENTRIES, ENVIRONMENT, boot_with_grub
from tests.support.tree import FakeRoot
from tests.tuning.unit.test_boot_obstacles import bzimage

OTHER = "6.1.0-12-amd64"
SD_BOOT = "/boot/efi/EFI/systemd/systemd-bootx64.efi"


@pytest.fixture
def machine(root: FakeRoot) -> FakeRoot:
    return boot_with_grub(root)


def files(machine: FakeRoot) -> dict[str, str]:
    """Return the digests of all files but the agent's own."""
    places = sorted(path for path in machine.folder.rglob("*") if path.is_file())
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in places
        if not (name := str(path.relative_to(machine.folder))).startswith("var/lib/ktrial/")
    }


def test_without_yes_it_says_how_the_machine_comes_back_and_writes_nothing(machine: FakeRoot) -> None:
    before = files(machine)
    done = machine.run("boot", "try", "nohz_full=2-9", "-quiet")
    assert done.status == 0, done.err
    said = " ".join(done.out.split())
    for part in ("adds nohz_full=2-9", "removes quiet", "the machine reboots 10 s after", "rehearsal first: one boot"):
        assert part in said
    assert "nothing was written; add --yes to prepare this boot" in done.err
    assert files(machine) == before
    assert not (machine.folder / "var/lib/ktrial").exists()


def test_a_profile_in_a_file_gives_its_kernel_arguments(machine: FakeRoot, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nsummary = "Mine."\n[[setting]]\nknob = "boot:threadirqs"\nvalue = "on"\nwhy = "I like it."\n'
    )
    done = machine.run("boot", "try", str(file))
    assert done.status == 0, done.err
    assert "adds threadirqs" in " ".join(done.out.split())


def custom(machine: FakeRoot) -> None:
    machine.write(ENTRIES, "menuentry mine { linux /mine }\n")


def no_loader(machine: FakeRoot) -> None:
    (machine.folder / "boot/grub/grub.cfg").unlink()


def two_loaders(machine: FakeRoot) -> None:
    machine.write(SD_BOOT, "")


def other_loader(machine: FakeRoot) -> None:
    no_loader(machine)
    machine.write("/boot/limine.conf", "")


def damaged_environment(machine: FakeRoot) -> None:
    machine.write("/boot/grub/grubenv", ENVIRONMENT[:-1])


def on_btrfs(machine: FakeRoot) -> None:
    machine.write("/proc/self/mountinfo", "1 0 254:0 / / rw - btrfs /dev/sda2 rw\n")


def trial_boot(machine: FakeRoot) -> None:
    machine.write("/proc/cmdline", machine.read("/proc/cmdline").strip() + " ktrial.boot=ktrial-trial\n")


def busy(machine: FakeRoot) -> None:
    machine.write("/run/systemd/sessions/1", "USER=ann\nREMOTE=1\nSTATE=active\n")


@pytest.mark.parametrize(
    "change, words, status, message, step",
    [
        (custom, ["threadirqs"], 4, "ktrial's entry would replace /boot/grub/custom.cfg", "40_custom"),
        (no_loader, ["threadirqs"], 4, "cannot prepare a boot: cannot find a boot loader", "ktrial trial next"),
        (two_loaders, ["threadirqs"], 4, "the firmware does not say which one boots", "--loader grub"),
        (other_loader, ["threadirqs"], 4, "ktrial cannot boot an entry only once with limine", "ktrial trial next"),
        (damaged_environment, ["threadirqs"], 4, "grubenv is damaged", "grub-editenv"),
        (on_btrfs, ["threadirqs"], 4, "is on btrfs, which GRUB only reads", "ext4"),
        (trial_boot, ["threadirqs"], 4, "this boot is a trial boot already", "ktrial boot keep"),
        (busy, ["threadirqs"], 4, "would lose their work: ann", "--anyway"),
        (boot_with_grub, ["nohz_full='2'"], 2, "is not a kernel argument", "NAME=VALUE"),
        (boot_with_grub, ["ro"], 2, "ro is on the kernel command line already", "leave out ro"),
        (boot_with_grub, ["-rhgb"], 2, "cannot remove rhgb: it is not on the kernel command line", "/proc/cmdline"),
        (boot_with_grub, ["ktrial.boot=x"], 2, "cannot set ktrial.boot", ""),
        (boot_with_grub, [OTHER, "/boot/vmlinuz-7.0"], 2, "two kernels", "name only one kernel"),
        (boot_with_grub, ["/boot/none"], 2, "unknown kernel: '/boot/none'", "install this kernel"),
    ],
)
def test_what_cannot_be_tried_is_named_with_the_next_step(
    machine: FakeRoot, change: Callable[[FakeRoot], Any], words: list[str], status: int, message: str, step: str
) -> None:
    change(machine)
    before = files(machine)
    done = machine.run("boot", "try", *words, "--yes")
    assert done.status == status, done.err
    assert message in done.err
    assert step in done.err.partition("next: ")[2]
    assert files(machine) == before


def test_two_loaders_are_told_apart_by_name(machine: FakeRoot) -> None:
    two_loaders(machine)
    assert machine.run("boot", "try", "threadirqs", "--loader", "grub").status == 0


def test_what_anyway_overrules_is_shown(machine: FakeRoot) -> None:
    busy(machine)
    done = machine.run("boot", "try", "threadirqs", "--anyway")
    assert done.status == 0, done.err
    assert "accepted    others are logged in" in done.out


def test_a_kernel_needs_to_be_packaged_or_confirmed(machine: FakeRoot) -> None:
    (machine.folder / f"boot/vmlinuz-{OTHER}").write_bytes(bzimage(OTHER.encode()))
    machine.write(f"/lib/modules/{OTHER}/modules.dep", "")
    done = machine.run("boot", "try", OTHER)
    assert (done.status, "--yes-kernel" in done.err) == (4, True)
    shown = machine.run("boot", "try", OTHER, "--yes-kernel")
    assert shown.status == 0, shown.err
    assert f"kernel      /boot/vmlinuz-{OTHER}" in shown.out


@pytest.mark.parametrize("word", ["mitigations=off", "nokaslr"])
def test_yes_alone_does_not_weaken_the_machine(machine: FakeRoot, word: str) -> None:
    before = files(machine)
    done = machine.run("boot", "try", word, "--yes")
    assert (done.status, f"cannot use {word}, which weakens" in done.err) == (4, True), done.err
    assert files(machine) == before


def test_a_folder_that_stands_for_a_machine_never_reboots_the_real_one(machine: FakeRoot) -> None:
    done = machine.run("boot", "try", "threadirqs", "--yes")
    assert done.status == 1
    assert "cannot run systemctl: it would change the running machine" in done.err
    assert machine.run("boot", "undo").status == 0


def test_kexec_needs_its_program_and_a_kernel_that_takes_another_one(machine: FakeRoot) -> None:
    before = files(machine)
    refused = machine.run("boot", "try", "threadirqs", "--kexec")
    assert (refused.status, "install the package kexec-tools" in refused.err) == (4, True), refused.err
    machine.write("/usr/sbin/kexec", "")
    shown = machine.run("boot", "try", "threadirqs", "--kexec", "--json")
    assert shown.status == 0, shown.err
    assert shown.json["plan"]["steps"][-1]["path"] == "/etc/ktrial-kexec/ktrial-trial.conf"
    entry = shown.json["plan"]["steps"][-1]["holds"]["boot-entry"]
    assert (entry["kernel"], entry["file"]) == (entry["file"], "/boot/vmlinuz-6.1.0-13-amd64")
    assert entry["initrds"] == ["/boot/initrd.img-6.1.0-13-amd64"]
    text = " ".join(machine.run("boot", "try", "threadirqs", "--kexec").out.split())
    assert "The running kernel starts one entry itself, past firmware and boot loader" in text
    assert "note kexec does not reset the hardware" in text
    by_hand = machine.run("boot", "try", "threadirqs", "--kexec", "--yes", "--no-reboot")
    assert (by_hand.status, "leave out --no-reboot" in by_hand.err) == (2, True), by_hand.err
    done = machine.run("boot", "try", "threadirqs", "--kexec", "--yes")
    assert (done.status, "cannot run kexec: it would change the running machine" in done.err) == (1, True), done.err
    (machine.folder / "usr/sbin/kexec").unlink()
    assert files(machine) == before
    machine.write("/usr/sbin/kexec", "")
    machine.write("/proc/sys/kernel/kexec_load_disabled", "1\n")
    locked = machine.run("boot", "try", "threadirqs", "--kexec")
    assert (locked.status, "kernel.kexec_load_disabled is 1" in locked.err) == (4, True), locked.err
    both = machine.run("boot", "try", "threadirqs", "--kexec", "--loader", "grub")
    assert (both.status, "leave out --loader or --kexec" in both.err) == (2, True), both.err


def test_what_was_prepared_is_undone_byte_for_byte(machine: FakeRoot) -> None:
    before = files(machine)
    done = machine.run("boot", "try", "threadirqs", "--yes", "--no-reboot")
    assert (done.status, "the next boot uses the prepared entry" in done.err) == (0, True), done.err
    entries = machine.read(ENTRIES)
    assert "panic=5 init=/nonexistent rdinit=/nonexistent ktrial.boot=ktrial-rehearsal\n" in entries
    assert " threadirqs panic=10 oops=panic " in entries
    assert "next_entry=ktrial-rehearsal\n" in machine.read("/boot/grub/grubenv")
    shown = machine.run("boot", "status", "--json").json
    assert (shown["armed"], shown["running"], shown["loader"]) == ("ktrial-rehearsal", None, "grub")
    assert [one["event"] for one in shown["events"]] == ["armed"]
    assert "The next boot is the rehearsal" in machine.run("boot", "status").out
    again = machine.run("boot", "try", "skew_tick=1", "--yes")
    assert (again.status, "another boot is prepared already (transaction 1)" in again.err) == (4, True)
    kept = machine.run("boot", "keep", "--yes")
    assert (kept.status, "trial boot: it has not passed its health check yet" in kept.err) == (4, True)
    undone = machine.run("boot", "undo", "--json")
    assert [one["state"] for one in undone.json["transactions"]] == ["reverted"]
    assert files(machine) == before
    assert machine.run("boot", "undo").out == "No boot is prepared.\n"


def test_an_undo_waits_until_the_boot_was_checked(machine: FakeRoot) -> None:
    assert machine.run("boot", "try", "threadirqs", "--yes", "--no-reboot").status == 0
    trial_boot(machine)
    boot_id = machine.run("boot", "status", "--json").json["boot_id"]
    record = machine.folder / "var/lib/ktrial/boots.jsonl"

    def happened(event: str) -> None:
        line = {"event": event, "entry": "ktrial-trial", "boot_id": boot_id, "at": 1, "transaction": 1}
        with record.open("a") as file:
            file.write(json.dumps(line) + "\n")

    happened("started")
    checked = threading.Timer(1.5, happened, ["healthy"])
    checked.start()
    done = machine.run("boot", "undo")
    assert (done.status, checked.is_alive()) == (0, False), done.err
    assert "waiting until this boot has been checked" in done.err
    assert "reboot for the default entry" in done.err


def test_with_a_rehearsal_the_attempt_itself_is_armed(machine: FakeRoot) -> None:
    event = {"event": "rehearsed", "entry": "ktrial-rehearsal", "boot_id": "a", "at": 1, "loader": "grub"}
    assert machine.run("boot", "try", "threadirqs", "--yes", "--no-reboot").status == 0
    assert machine.run("boot", "undo").status == 0
    with (machine.folder / "var/lib/ktrial/boots.jsonl").open("a") as record:
        record.write(json.dumps(event) + "\n")
    shown = machine.run("boot", "try", "threadirqs")
    assert "rehearsal   done on 1970-01-01 with grub" in shown.out
    assert machine.run("boot", "try", "threadirqs", "--yes", "--no-reboot").status == 0
    assert "ktrial-rehearsal" not in machine.read(ENTRIES)
    assert "next_entry=ktrial-trial\n" in machine.read("/boot/grub/grubenv")


def test_a_profile_counts_with_its_kernel_arguments(machine: FakeRoot, tmp_path: Path) -> None:
    (tmp_path / "own" / "profiles").mkdir(parents=True)
    settings = [("boot:threadirqs", '"on"'), ("boot:preempt", '"full"'), ("vm.swappiness", "10")]
    text = "".join(f'[[setting]]\nknob = "{knob}"\nvalue = {value}\nwhy = "I like it."\n' for knob, value in settings)
    (tmp_path / "own" / "profiles" / "mine.toml").write_text(f'name = "mine"\nsummary = "Mine."\n{text}')
    done = machine.run("--catalog", str(tmp_path / "own"), "boot", "try", "mine", "--json")
    assert done.status == 0, done.err
    entries = done.json["plan"]["steps"][-1]["holds"]["grub-entries"]
    assert entries[-1]["words"] == [{"name": "threadirqs"}, {"name": "preempt", "value": "full"}]
    refused = machine.run("boot", "try", "micro-stutter")
    assert (refused.status, "has no kernel arguments" in refused.err) == (2, True)


def boots_of(*boots: str) -> BootStatus:
    """Return the record of boots: of each the entry, and the events since it was armed."""
    events = [
        BootEvent(event=event, entry=boot.split()[0], boot_id="b", at=1, transaction=7)
        for boot in boots
        for event in msgspec.convert(("armed", *boot.split()[1:]), tuple[EventKind, ...])
    ]
    return BootStatus(transaction=7, events=tuple(events))


@pytest.mark.parametrize(
    "boots, is_vain",
    [
        (["a started healthy"] * 20, False),
        (["a started failed"] * 7, False),
        (["a started failed"] * 8, True),
        (["a fell-back"] * 8, True),
        (["a"] * 8, True),
        # The boots were healthy, but the trial could not continue in them.
        (["a started healthy failed"] * 8, True),
        (["a started failed"] * 4 + ["a started healthy"] + ["a fell-back"] * 7, False),
        (["a started failed"] * 4 + ["b started failed"] + ["a fell-back"] * 7, False),
        (["b started failed"] * 9, False),
    ],
)
def test_a_trial_ends_if_boots_of_an_entry_fail_in_a_row(boots: list[str], is_vain: bool) -> None:
    assert boots_in_vain(boots_of(*boots), "a") == is_vain


@pytest.mark.parametrize(
    "happened, why",
    [
        ("", "it has not passed its health check yet"),
        ("started", "it has not passed its health check yet"),
        ("started failed", "it failed"),
        ("started healthy failed", "it failed"),
        ("fell-back", "it failed"),
    ],
)
def test_only_a_healthy_boot_can_be_kept(happened: str, why: str) -> None:
    now = msgspec.structs.replace(boots_of(f"ktrial-trial {happened}"), entries=(AttemptEntry(id="ktrial-trial"),))
    with pytest.raises(Refused, match=f"^cannot keep the trial boot: {why}$"):
        boots.words_to_keep(cast(AgentSession, None), now)


PROTOCOL = """
name = "t"
suite = "wakeups-busy"
[arms.control]
[arms.full]
boot = ["preempt=full", "-quiet"]
[arms.lts]
kernel = "6.99"
"""


def test_a_trial_is_stored_where_the_service_finds_it() -> None:
    refuse_own_store(None, None)
    refuse_own_store(None, "")
    with pytest.raises(Refused, match=r"ktrial would not look for the trial in /mine\.db"):
        refuse_own_store("/mine.db", None)
    with pytest.raises(Refused, match="look for the trial in /mine"):
        refuse_own_store(None, "/mine")


def test_a_trial_over_boots_shows_its_entries_and_starts_nothing_without_yes(machine: FakeRoot) -> None:
    before = files(machine)
    done = machine.run("try", "boot:preempt=none,full", "vm.swappiness=10", "--suite", "wakeups-busy")
    assert done.status == 0, done.err
    said = " ".join(done.out.split())
    for part in ("control as booted now", "preempt-none preempt=none", "first one boot that fails on purpose"):
        assert part in said
    assert "nothing was started; add --yes" in done.err
    assert files(machine) == before
    assert machine.run("trial", "list", "--json").json["trials"] == []


def test_without_a_trial_over_boots_there_is_nothing_to_stop(machine: FakeRoot) -> None:
    done = machine.run("trial", "stop")
    assert done.status == 4
    assert "cannot stop a trial: no live or unattended trial is running, and no trial boots this machine\n" in done.err
    assert "next: interrupt any other trial with Ctrl-C" in done.err


def test_yes_alone_does_not_weaken_the_machine_in_a_trial(machine: FakeRoot) -> None:
    done = machine.run("try", "boot:nokaslr=on", "--suite", "wakeups-busy", "--yes")
    assert (done.status, "cannot use nokaslr, which weakens" in done.err) == (4, True), done.err


def test_a_kernel_of_an_arm_must_be_installed(machine: FakeRoot, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(PROTOCOL)
    done = machine.run("trial", "run", str(tmp_path / "t.toml"), "--yes")
    assert (done.status, "unknown kernel: '6.99'" in done.err) == (2, True), done.err


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let systemd say which units are active, to the head; the agent runs no systemctl for a folder."""
    request = AgentSession.request

    def answered(self: AgentSession, do: str, **fields: Any) -> dict[str, Any]:
        reply = request(self, do, **fields)
        return {**reply, "units": ["ssh.service", "sshd-agent.scope", "tmp.mount"]} if fields.get("units") else reply

    monkeypatch.setattr(AgentSession, "request", answered)


@pytest.mark.usefixtures("units")
@pytest.mark.parametrize(
    "unit, message, step",
    [
        ("shh", "cannot guard a boot with shh.service: no active unit has this name", "did you mean ssh.service?"),
        ("sshd", "sshd.service: no active unit has this name", "did you mean ssh.service? (an alias does not count)"),
        ("nginx.service", "nginx.service: no active unit has this name", "systemctl list-units"),
        ("sshd-agent.scope", "cannot guard a boot with sshd-agent.scope", ".service, .socket, .target"),
    ],
)
def test_a_unit_that_is_not_active_guards_nothing(machine: FakeRoot, unit: str, message: str, step: str) -> None:
    before = files(machine)
    done = machine.run("boot", "try", "threadirqs", "--guard", unit, "--yes")
    assert (done.status, message in done.err, step in done.err) == (2, True, True), done.err
    assert files(machine) == before


@pytest.mark.usefixtures("units")
def test_the_agent_looks_at_guards_itself(machine: FakeRoot) -> None:
    before = files(machine)
    done = machine.run("boot", "try", "threadirqs", "--guard", "ssh", "--guard", "tmp.mount", "--yes")
    assert "guards      healthy only if active: ssh.service, tmp.mount" in done.out
    assert (done.status, "cannot run systemctl: it would change the running machine" in done.err) == (4, True), done.err
    assert files(machine) == before


def test_without_systemd_there_are_no_guards(machine: FakeRoot) -> None:
    done = machine.run("boot", "try", "threadirqs", "--guard", "ssh")
    assert (done.status, "systemd does not list the active units" in done.err) == (4, True), done.err


def try_healthy(machine: FakeRoot, *words: str) -> None:
    """Try a boot on Debian that is found healthy."""
    machine.write("/etc/default/grub", 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')
    machine.write("/run/systemd/system/a", "")
    assert machine.run("boot", "try", *words, "--yes", "--no-reboot").status == 0
    event = {"event": "healthy", "entry": "ktrial-trial", "boot_id": "a", "at": 1, "loader": "grub", "transaction": 1}
    with (machine.folder / "var/lib/ktrial/boots.jsonl").open("a") as record:
        record.write(json.dumps(event) + "\n")


def test_a_healthy_boot_is_kept_with_its_removals_and_its_kernel(machine: FakeRoot) -> None:
    (machine.folder / f"boot/vmlinuz-{OTHER}").write_bytes(bzimage(OTHER.encode()))
    machine.write(f"/lib/modules/{OTHER}/modules.dep", "")
    try_healthy(machine, "-quiet", "threadirqs", OTHER, "--yes-kernel")
    done = machine.run("boot", "keep", "--yes")
    for line in (
        "ktrial_remove quiet any",
        'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX threadirqs"',
        f'gnulinux-{OTHER}-advanced-1" # /boot/vmlinuz-{OTHER}',
    ):
        assert line in done.out, done.err
    # grub-mkconfig would make the menu of the machine that runs the test.
    assert (done.status, "cannot run grub-mkconfig" in done.err) == (4, True), done.err
    assert machine.run("boot", "status", "--json").json["transaction"] == 1


def test_what_kexec_started_is_kept_by_the_loader_of_the_machine(
    machine: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_healthy(machine, "threadirqs")
    named = machine.run("boot", "keep", "--loader", "systemd-boot")
    assert (named.status, "grub booted it" in named.err) == (2, True), named.err
    request = AgentSession.request

    def of_kexec(self: AgentSession, do: str, **fields: Any) -> dict[str, Any]:
        reply = request(self, do, **fields)
        return {**reply, "loader": "kexec"} if do == "boot-status" else reply

    monkeypatch.setattr(AgentSession, "request", of_kexec)
    done = machine.run("boot", "keep", "--yes")
    assert 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX threadirqs"' in done.out, done.err
    assert (done.status, "cannot run grub-mkconfig" in done.err) == (4, True), done.err
    two_loaders(machine)
    doubt = machine.run("boot", "keep", "--yes")
    assert (doubt.status, "--loader grub or --loader systemd-boot" in doubt.err) == (4, True), doubt.err
    named = machine.run("boot", "keep", "--yes", "--loader", "grub")
    assert "cannot run grub-mkconfig" in named.err, named.err


def test_what_overrides_a_kept_boot_is_named_with_a_step_that_exists(machine: FakeRoot) -> None:
    try_healthy(machine, "preempt=full")
    machine.write("/etc/default/grub.d/zz.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX preempt=none"\n')
    done = machine.run("boot", "keep", "--yes")
    assert (done.status, "/etc/default/grub.d/zz.cfg" in done.err) == (4, True), done.err
    assert "next: remove that override\n" in done.err
    kept = machine.run("keep", "boot:preempt=full", "--yes")
    assert "next: remove that override, or add --anyway" in kept.err


@pytest.mark.parametrize(
    "state, outcome, status, said",
    [
        ("reverted", "restored", 0, ""),
        ("reverted", "changed-by-others", 0, "`ktrial revert --only 7 --force`"),
        ("unfinished", "refused", 1, "transaction 7 is unfinished"),
    ],
)
def test_what_stays_of_a_kept_boot_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: Any,
    outcome: str,
    status: int,
    said: str,
) -> None:
    step = RevertedStep(step=0, path=ENTRIES, outcome=outcome, now=None, message="the disk is read-only")
    done = Reverted(transaction=7, state=state, steps=(step,))
    monkeypatch.setattr(boots, "remove_boots", lambda session, now: done)
    app: Any = SimpleNamespace(say=lambda text: sys.stderr.write(f"{text}\n"))
    session: Any = None
    assert boots.end_kept(app, session, BootStatus(transaction=7)) == status
    shown = capsys.readouterr()
    assert said in " ".join(shown.err.split())
    assert (shown.out, bool(shown.err)) == ("", bool(said))


def test_no_export_removes_an_argument(machine: FakeRoot) -> None:
    done = machine.run("export", "boot:-quiet", "--to", "grub")
    assert (done.status, "cannot export boot:-quiet: no target removes" in done.err) == (2, True), done.err

# SPDX-License-Identifier: Apache-2.0
"""`ktrial keep` of the sched_ext scheduler that a trial found better: the service's file, and its undo."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ktrial.cli.app import App
from ktrial.machine.facts import machine_of
from ktrial.results.store.recorder import Recorder
from ktrial.trial.kept_trial import KeptTrial
from ktrial.trial.protocol.file import ArmFile, SchedExtFile
from ktrial.trial.record import ArmSettings
from ktrial.tuning.lasting.model import PLACES
from tests.support.told_trials import a_trial
from tests.support.tree import FakeRoot
from tests.tuning.system.test_keep import exists, reboot, tree

ARM = "swappiness-abcdef/sw10"
LOADER, FOLDER, SERVICE, WANTS = (
    PLACES[form] for form in ("scx-loader", "scx-loader-folder", "scx-service", "scx-wants")
)
UNITS, ENABLED = "/usr/lib/systemd/system", "/etc/systemd/system/graphical.target.wants"
STATE, OPS = "/sys/kernel/sched_ext/state", "/sys/kernel/sched_ext/root/ops"
OWN = '# mine\ndefault_sched = "scx_rusty"\n\n[scheds.scx_lavd]\ngaming_mode = ["--performance"]\n'
BY_LOADER = SchedExtFile(run=("scx_lavd",), mode="gaming")
BY_SERVICE = SchedExtFile(run=("/usr/bin/scx_lavd", "--performance", "-s", "5000"))


def tried(root: FakeRoot, scheduler: SchedExtFile, *units: str, enabled: str | None = None) -> FakeRoot:
    """A machine with these services, and with a trial in which a scheduler was better than the kernel's own."""
    app = App(may_ask=False, machine_root=root.folder)
    try:
        trial = a_trial()
        arms = {"sw10": ArmFile(sched_ext=scheduler), "sw180": ArmFile(sched_ext=scheduler)}
        changed = ArmSettings(changes={"sched_ext": f"lavd ({scheduler.text})"})
        stored = msgspec.structs.replace(
            trial.stored,
            machine=machine_of(app.user_session.facts()),
            file=msgspec.structs.replace(trial.stored.file, arms={**trial.stored.file.arms, **arms}),
            arms={**trial.stored.arms, "sw10": changed, "sw180": changed},
        )
        Recorder(lambda: app.store, lambda: 0).begin(trial.records[0].session, stored.protocol_sha256)
        app.trials.bring([KeptTrial(stored=stored, log=trial.log)])
    finally:
        app.close()
    for unit in units:
        root.write(f"{UNITS}/{unit}", "[Service]\n")
    if enabled is not None:
        link = Path(f"{root.folder}{ENABLED}/{enabled}")
        link.parent.mkdir(parents=True)
        link.symlink_to(f"../../../..{UNITS}/{enabled}")
    for folder in ("/etc/systemd/system", "/etc/default"):
        (root.folder / folder[1:]).mkdir(parents=True, exist_ok=True)
    root.write(STATE, "disabled\n")
    return root


def test_the_loaders_file_keeps_its_other_lines_and_comes_back_byte_for_byte(root: FakeRoot) -> None:
    machine = tried(root, BY_LOADER, "scx_loader.service", enabled="scx_loader.service")
    machine.write(FOLDER, OWN)
    before = tree(machine)
    planned = machine.run("keep", ARM, "--dry-run", "--json").json
    assert tree(machine) == before
    done = machine.run("keep", ARM, "--yes")
    assert done.status == 0, done.err
    (file,) = planned["files"]
    assert (file["path"], machine.read(FOLDER)) == (FOLDER, file["after"])
    text = machine.read(FOLDER)
    assert "\n# sched_ext:scheduler: better: tool.rate" in text
    assert '\ndefault_sched = "scx_lavd"\ndefault_mode = "Gaming"\n' in text
    assert text.endswith(f"# mine\n# set aside by ktrial: {OWN.partition(chr(10))[2]}")
    assert "systemctl restart scx_loader" in done.out
    (kept,) = machine.run("drift", "--json").json["settings"]
    assert (kept["value"], kept["state"]) == ("scx_lavd Gaming", "pending")
    undone = machine.run("keep", "--undo")
    assert undone.status == 0, undone.err
    assert tree(machine) == before
    assert machine.run("drift").out == "Nothing is kept.\n"


def test_the_services_file_is_made_and_the_service_starts_at_boot(root: FakeRoot) -> None:
    machine = tried(root, BY_SERVICE, "scx.service", "scx_loader.service")
    before = tree(machine)
    planned = machine.run("keep", ARM, "--dry-run", "--json").json
    assert machine.run("keep", ARM, "vm.swappiness=10", "--yes").status == 0
    assert {one["path"]: one["after"] for one in planned["files"]} == {
        path: machine.read(path) for path in (SERVICE, WANTS)
    }
    assert machine.read(SERVICE).endswith('\nSCX_SCHEDULER=scx_lavd\nSCX_FLAGS="--performance -s 5000"\n')
    assert machine.read(WANTS).endswith("[Unit]\nWants=scx.service\n")
    again = machine.run("keep", ARM, "--yes")
    assert "Nothing to write" in again.out
    dropped = machine.run("keep", "--undo", "sched_ext:scheduler")
    assert dropped.status == 0, dropped.err
    assert not exists(machine, SERVICE)
    assert not exists(machine, WANTS)
    assert exists(machine, PLACES["sysctl.d"])
    assert machine.run("keep", "--undo").status == 0
    assert tree(machine) == before


def test_one_setting_undone_gives_the_users_file_back(root: FakeRoot) -> None:
    machine = tried(root, BY_LOADER, "scx_loader.service")
    machine.write(LOADER, OWN)
    assert machine.run("keep", ARM, "vm.swappiness=10", "--yes").status == 0
    assert machine.read(WANTS).endswith("[Unit]\nWants=scx_loader.service\n")
    assert machine.run("keep", "--undo", "sched_ext:scheduler").status == 0
    assert machine.read(LOADER) == OWN
    machine.write(LOADER, OWN + "# a line of mine\n")
    assert machine.run("drift").status == 0, "the file is the user's again"


@pytest.mark.parametrize(
    "state, ops, status, detail",
    [
        ("enabled", "lavd_1.0.4", 0, None),
        ("enabled", "rusty_1.0", 3, "another scheduler is in force"),
        ("disabled", None, 3, "no sched_ext scheduler is in force; `systemctl status scx_loader.service`"),
    ],
)
def test_after_a_boot_sysfs_says_what_is_in_force(
    root: FakeRoot, state: str, ops: str | None, status: int, detail: str | None
) -> None:
    machine = tried(root, BY_LOADER, "scx_loader.service")
    assert machine.run("keep", ARM, "--yes").status == 0
    reboot(machine, {STATE: f"{state}\n", **({OPS: f"{ops}\n"} if ops else {})})
    drift = machine.run("drift", "--json")
    (kept,) = drift.json["settings"]
    assert (drift.status, kept["now"]) == (status, ops or state)
    assert (kept["detail"] or "").startswith(detail or "")
    assert machine.run("status", "--check").status == status


def test_an_edit_since_is_told_and_stays(root: FakeRoot) -> None:
    machine = tried(root, BY_LOADER, "scx_loader.service")
    machine.write(LOADER, OWN)
    assert machine.run("keep", ARM, "--yes").status == 0
    edited = machine.read(LOADER) + "# added\n"
    machine.write(LOADER, edited)
    again = machine.run("keep", ARM, "--yes")
    assert (again.status, "somebody has edited it" in again.err) == (4, True), again.err
    machine.run("keep", "--undo")
    assert machine.read(LOADER) == edited


def test_what_else_starts_a_scheduler_is_named(root: FakeRoot) -> None:
    machine = tried(root, BY_LOADER, "scx.service", "scx_loader.service", enabled="scx.service")
    machine.write(SERVICE, "SCX_SCHEDULER=scx_rusty\n")
    refused = machine.run("keep", ARM, "--yes")
    assert refused.status == 4
    told = "cannot keep sched_ext:scheduler: scx.service, which is enabled too, (= scx_rusty) overrides it at boot"
    assert told in refused.err
    assert not exists(machine, LOADER)


@pytest.mark.parametrize(
    "scheduler, units, why",
    [
        (BY_LOADER, ("scx.service",), "scx_loader.service is not here"),
        (BY_SERVICE, (), "scx.service is not here"),
        (SchedExtFile(run=("/opt/x/scx_lavd",)), ("scx.service",), "scx.service finds no programs in /opt/x"),
        (SchedExtFile(run=("scx_lavd", "-x", "/etc/a")), ("scx.service",), "cannot write the option '/etc/a'"),
        (SchedExtFile(run=("my-scheduler",)), ("scx.service",), "start only programs with names such as scx_lavd"),
    ],
)
def test_what_no_service_starts_is_refused(
    root: FakeRoot, scheduler: SchedExtFile, units: tuple[str, ...], why: str
) -> None:
    machine = tried(root, scheduler, *units)
    refused = machine.run("keep", ARM, "--yes")
    assert (refused.status, why in " ".join(refused.err.split())) == (4, True), refused.err


@pytest.mark.parametrize(
    "text, why",
    [
        ("SCX_SCHEDULER=scx_rusty\nSCX_FLAGS='-a \\\n-b'\n", "cannot edit a value of several lines"),
        ("", "/etc/default/scx is empty"),
    ],
)
def test_a_file_that_cannot_be_edited_is_told(root: FakeRoot, text: str, why: str) -> None:
    machine = tried(root, BY_SERVICE, "scx.service")
    machine.write(SERVICE, text)
    refused = machine.run("keep", ARM, "--yes")
    assert (refused.status, why in refused.err) == (4, True), refused.err
    assert machine.read(SERVICE) == text


def test_options_of_the_distribution_are_not_lost(root: FakeRoot) -> None:
    machine = tried(root, BY_LOADER, "scx_loader.service")
    machine.write("/usr/share/scx_loader/config.toml", OWN)
    refused = machine.run("keep", ARM, "--yes")
    assert (refused.status, "sudo install -D -m 644" in refused.err) == (4, True), refused.err
    machine.write("/usr/share/scx_loader/config.toml", '#default_sched = "scx_flash"\n\n#[scheds.x]\n')
    assert machine.run("keep", ARM, "--yes").status == 0


def test_one_that_was_not_better_and_an_export_are_refused_in_words(root: FakeRoot) -> None:
    machine = tried(root, BY_LOADER, "scx_loader.service")
    worse = machine.run("keep", "swappiness-abcdef/sw180", "--yes")
    assert (worse.status, "which is worse" in worse.err) == (4, True), worse.err
    exported = machine.run("export", ARM, "--to", "sysctl.d")
    assert exported.status == 2
    assert "no target starts a sched_ext scheduler" in exported.err

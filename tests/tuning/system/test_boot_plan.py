# SPDX-License-Identifier: Apache-2.0
"""Plans of boots, checked by the real agent on folders that stand for machines with the loaders that ktrial knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.tuning.boots.command_line import find_guarded_words, parse_changes
from ktrial.tuning.boots.entry import BootGrounds, plan_boot, plan_rehearsal
from ktrial.tuning.boots.wire import (
    GUARD_KINDS,
    MOST_GUARDS,
    OTHER_KINDS,
    UNIT_BYTES,
    ResumedTrial,
    name_guards,
    wire_boots,
)
from ktrial.tuning.catalog.loader import load_catalog
from tests.support.boot_machine import ENVIRONMENT
from tests.support.tree import FakeRoot
from tests.tuning.unit.test_boot_entry import arch, debian, fedora, opensuse, systemd_boot, ubuntu

TRIAL = ResumedTrial(program="/opt/ktrial/ktrial", user=1000, name="full-1")
KNOBS = load_catalog().knobs
NAMES = st.sampled_from(sorted(knob.short_name for knob in KNOBS.values() if knob.kind == "boot"))
VALUES = st.from_regex(r"(=[A-Za-z0-9_.,:/+=@-]{1,8})?", fullmatch=True)


@contextmanager
def agent_on(folder: Path, grounds: BootGrounds) -> Iterator[AgentSession]:
    """Start a root session on a machine that has booted from these grounds."""
    root = FakeRoot(folder)
    for path in grounds.files:
        root.write(path, "text")
    for path, text in grounds.entries.items():
        root.write(path, text)
    root.write("/etc/systemd/system/README", "")
    root.write("/proc/cmdline", grounds.command_line)
    if grounds.grub_path is not None:
        root.write(grounds.grub_path, grounds.grub_text)
        root.write(str(Path(grounds.grub_path).parent / "grubenv"), ENVIRONMENT)
    session = AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "root", "--root", str(folder)]))
    try:
        yield session
    finally:
        session.close()


def outcomes(session: AgentSession, plan: dict[str, Any]) -> dict[str, str]:
    steps = session.request("plan", plan=plan)["steps"]
    return {step["path"]: step["outcome"] if not step["message"] else step["message"] for step in steps}


@pytest.mark.parametrize("grounds", [debian, ubuntu, fedora, opensuse, systemd_boot])
def test_the_agent_takes_every_step(grounds: Callable[[], BootGrounds], tmp_path: Path) -> None:
    with agent_on(tmp_path, grounds()) as session:
        plans = [
            plan_rehearsal(grounds(), watchdog_s=60),
            plan_boot(grounds(), parse_changes(["nohz_full=2-9", "threadirqs", "-quiet"])),
            plan_boot(grounds(), (), entry="ktrial-control"),
        ]
        wired = wire_boots("boots", plans, limit_s=300, trial=None, sources={"a": 1})
        found = outcomes(session, wired)
        assert set(found.values()) == {"ready"}, found
        assert len(found) == (5 if plans[0].form == "grub-entries" else 7)
        assert wired["sources"] == {"a": 1}


def test_a_kernel_in_a_subvolume_is_not_the_file_that_was_checked(tmp_path: Path) -> None:
    """GRUB sees other paths on Btrfs, where it cannot clear its one-shot entry either."""
    with agent_on(tmp_path, arch()) as session:
        found = outcomes(session, wire_boots("boots", [plan_rehearsal(arch())], limit_s=300))
        assert "the loader's /@/boot/vmlinuz-linux is not /boot/vmlinuz-linux" in found["/boot/grub/custom.cfg"]


def test_a_word_that_weakens_passes_with_its_confirmation_only(tmp_path: Path) -> None:
    with agent_on(tmp_path, debian()) as session:
        plans = [plan_boot(debian(), parse_changes(["mitigations=off"]))]
        confirmed = outcomes(session, wire_boots("boots", plans, limit_s=300, confirmed=["mitigations"]))
        assert set(confirmed.values()) == {"ready"}
        refused = outcomes(session, wire_boots("boots", plans, limit_s=300))
        assert "it needs a confirmation of its own" in refused["/boot/grub/custom.cfg"]


def test_a_trial_goes_on_with_a_ktrial_that_only_root_can_change(tmp_path: Path) -> None:
    with agent_on(tmp_path, debian()) as session:
        wired = wire_boots("boots", [plan_rehearsal(debian())], limit_s=300, trial=TRIAL)
        assert wired["steps"][2]["holds"] == {
            "boot-next": {"trial": {"program": "/opt/ktrial/ktrial", "user": 1000, "name": "full-1"}}
        }
        (tmp_path / "opt/ktrial").mkdir(parents=True)
        program = tmp_path / "opt/ktrial/ktrial"
        program.write_text("")
        program.chmod(0o755)
        found = outcomes(session, wired)
        assert set(found.values()) == {"ready"}, found


def test_every_word_of_the_catalog_passes_with_what_the_head_confirms(tmp_path: Path) -> None:
    with agent_on(tmp_path, debian()) as session:

        @settings(max_examples=60, deadline=None)
        @given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
        def check(words: dict[str, str]) -> None:
            try:
                changes = parse_changes(name + value for name, value in words.items())
                plan = plan_boot(debian(), changes, watchdog_s=60)
            except KtrialError:
                return
            confirmed = [one.name for one in find_guarded_words(plan.line, KNOBS)]
            found = outcomes(session, wire_boots("boots", [plan], limit_s=300, confirmed=confirmed))
            assert found["/boot/grub/custom.cfg"] == "ready", (words, found)

        check()


GUARDS = (
    *("ssh.service", "getty@tty1.service", "a:b_c.d-e.socket", "x.target", "y.mount", "z.timer", "p.path", "s.swap"),
    "a" * 247 + ".service",
)
NO_GUARDS = ("a\\x2db.mount", "-a.service", ".service", "a b.service", "%n.service", "a/b.service", "ü.service")


def test_guards_are_named_as_the_agent_takes_them(tmp_path: Path) -> None:
    assert name_guards(["ssh", "ssh.service", "tmp.mount"]) == ("ssh.service", "tmp.mount")
    assert name_guards(GUARDS) == GUARDS
    many = [f"a{number}.service" for number in range(MOST_GUARDS + 1)]
    with pytest.raises(BadInput, match="33 units: expected at most 32"):
        name_guards(many)
    refused = [[one] for one in (*NO_GUARDS, "a" * 248 + ".service", *(f"a.{kind}" for kind in OTHER_KINDS))]
    for names in refused:
        with pytest.raises(BadInput, match="cannot guard a boot with"):
            name_guards(names)
    with agent_on(tmp_path, debian()) as session:
        for guards in (GUARDS, name_guards(many[:-1])):
            found = outcomes(session, wire_boots("boots", [plan_rehearsal(debian())], limit_s=300, guards=guards))
            # Only whether they are active cannot be learnt from a folder.
            assert "systemctl" in found["/etc/systemd/system/ktrial-boot.service"]
        for names in (many, *refused):
            with pytest.raises(KtrialError):
                outcomes(session, wire_boots("boots", [plan_rehearsal(debian())], limit_s=300, guards=names))


def test_the_agent_has_the_same_limits_of_guards() -> None:
    source = (Path(__file__).parents[3] / "agent/src/transact/forms/boot.rs").read_text()
    kinds = re.search(r"const UNITS: \[&str; \d+\] = \[(.*?)\];", source, re.DOTALL)
    assert kinds is not None
    assert tuple(re.findall(r'"([a-z]+)"', kinds[1])) == GUARD_KINDS
    assert f"const GUARDS: usize = {MOST_GUARDS};" in source
    assert f"const UNIT_BYTES: usize = {UNIT_BYTES};" in source

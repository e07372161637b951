# SPDX-License-Identifier: Apache-2.0
"""What a trial boot has to know, read by the real agent from a folder that stands for a machine."""

from __future__ import annotations

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.tuning.boots.command_line import parse_changes
from ktrial.tuning.boots.entry import find_kernel, plan_boot
from ktrial.tuning.boots.gather import FACTS, gather_kernel, gather_scene
from ktrial.tuning.boots.refusals import find_obstacles, other_kernel_obstacles
from tests.support.boot_machine import boot_with_grub
from tests.support.tree import FakeRoot
from tests.tuning.unit.test_boot_entry import debian

OTHER = "6.1.0-12-amd64"


def test_a_debian_machine(root: FakeRoot) -> None:
    grounds = debian()
    boot_with_grub(root)
    root.write("/run/systemd/sessions/1", "USER=ann\nREMOTE=1\nSTATE=active\n")
    root.write(f"/lib/modules/{OTHER}/modules.dep", "kernel/fs/ext4/ext4.ko:\n")
    root.write("/var/lib/dkms/nvidia/1/6.1.0-13-amd64/x86_64/module/nvidia.ko", "")
    root.write(f"/var/lib/dpkg/info/linux-image-{OTHER}.list", f"/boot/vmlinuz-{OTHER}\n")
    transport = ProcessTransport([str(find_agent()), "serve", "--role", "user", "--root", str(root.folder)])
    session = AgentSession(transport)
    try:
        facts = session.facts(FACTS)
        scene = gather_scene(session, facts)
        assert scene.grounds is not None
        assert (set(grounds.files) <= set(scene.grounds.files), scene.watchdog) == (True, "iTCO_wdt")
        assert [one.kind for one in find_obstacles(scene)] == ["users"]
        assert plan_boot(scene.grounds, parse_changes(["threadirqs"])).entry.kernel == "/boot/vmlinuz-6.1.0-13-amd64"
        plan = plan_boot(scene.grounds, (), kernel=find_kernel(OTHER, scene.grounds))
        kernel = gather_kernel(session, facts, plan, scene)
    finally:
        session.close()
    assert (kernel.is_packaged, kernel.has_modules, kernel.modules) == (True, True, frozenset(["ext4"]))
    assert (kernel.architecture, kernel.release) == ("x86_64", OTHER)
    assert [one.kind for one in other_kernel_obstacles(plan, kernel, scene)] == ["not-a-kernel"]
    assert kernel.dkms == ("/var/lib/dkms/nvidia/1/6.1.0-13-amd64/x86_64/module/nvidia.ko",)

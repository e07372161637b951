# SPDX-License-Identifier: Apache-2.0
"""Apply, verify and revert 30 sysctls through the agent, journal included, against `sysctl -w`.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.apply

Values change by one and are restored; the journal is in a temporary folder.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from perf.side_by_side import measure, report

ROUNDS = 15
WANTED = 30
PEER = "3 rounds of sysctl -w, a process a key"
SYSCTL = "/sbin/sysctl"
NAMES = [
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    "vm.stat_interval",
    "vm.extfrag_threshold",
    "vm.watermark_scale_factor",
    "vm.watermark_boost_factor",
    "vm.laptop_mode",
    "vm.max_map_count",
    "vm.compaction_proactiveness",
    "vm.page_lock_unfairness",
    "vm.admin_reserve_kbytes",
    "vm.user_reserve_kbytes",
    "kernel.watchdog_thresh",
    "kernel.hung_task_timeout_secs",
    "kernel.sched_cfs_bandwidth_slice_us",
    "kernel.msgmni",
    "kernel.perf_cpu_time_max_percent",
    "kernel.perf_event_max_stack",
    "kernel.pty.max",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.dev_weight",
    "net.core.somaxconn",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_reordering",
    "net.ipv4.ip_default_ttl",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_syn_retries",
    "fs.inotify.max_user_watches",
    "fs.lease-break-time",
]


def candidates() -> dict[str, tuple[int, int]]:
    """Return, by name, the current value and the value to write of the first keys that exist and contain one number."""
    found: dict[str, tuple[int, int]] = {}
    for name in NAMES:
        path = Path("/proc/sys") / name.replace(".", "/")
        text = path.read_text().strip() if path.exists() else ""
        if text.isdigit() and len(found) < WANTED:
            value = int(text)
            found[name] = (value, value - 1 if value > 1 else value + 1)
    return found


def through_agent(keys: dict[str, tuple[int, int]], state: str) -> None:
    """Apply, verify and revert in one session."""
    session = AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "root", "--state", state]))
    steps: list[dict[str, Any]] = [
        {
            "kind": "write",
            "knob": name,
            "path": "/proc/sys/" + name.replace(".", "/"),
            "new": f"{wanted}\n",
            "verify": "integer",
            "expect": f"{now}\n",
        }
        for name, (now, wanted) in keys.items()
    ]
    plan = {"schema": "ktrial.plan/2", "title": "perf", "lease": {"kind": "keep"}, "keep_going": False, "steps": steps}
    applied = session.request("apply", plan=plan)
    assert applied["state"] == "applied", applied
    (verified,) = session.request("verify")["transactions"]
    assert all(step["outcome"] == "in-force" for step in verified["steps"]), verified
    session.request("revert", select="newest")
    session.close()


def one_process_a_key(keys: dict[str, tuple[int, int]]) -> None:
    """Write, write again, restore: three rounds with one process per key."""
    for column in (1, 1, 0):
        for name, values in keys.items():
            subprocess.run([SYSCTL, "-q", "-w", f"{name}={values[column]}"], check=True)


def one_process(keys: dict[str, tuple[int, int]]) -> None:
    """Write all keys with a single `sysctl -w`, and restore them with another one."""
    for column in (1, 0):
        subprocess.run([SYSCTL, "-q", "-w", *(f"{name}={v[column]}" for name, v in keys.items())], check=True)


@contextlib.contextmanager
def put_back(keys: dict[str, tuple[int, int]]) -> Iterator[None]:
    """Restore the original values of the keys, whatever happens during the measurement."""
    try:
        yield
    finally:
        for name, (now, _) in keys.items():
            (Path("/proc/sys") / name.replace(".", "/")).write_text(f"{now}\n")


def main() -> int:
    """Measure and print; return 1 if the goal was missed."""
    keys = candidates()
    if len(keys) < WANTED:
        print(f"only {len(keys)} of {WANTED} keys are on this kernel", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as state, put_back(keys):
        actions = {
            PEER: lambda: one_process_a_key(keys),
            "ktrial-agent apply+verify+revert": lambda: through_agent(keys, state),
            "sysctl -w, all keys at once, and back": lambda: one_process(keys),
        }
        met = report(measure(actions, ROUNDS), PEER, {"ktrial-agent apply+verify+revert": 1.0})
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

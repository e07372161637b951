# SPDX-License-Identifier: Apache-2.0
"""Keep 30 sysctls, with files, fsync and journal, against `sysctl --system` with the same file; and drift of 60.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.keep

ktrial works on folders that stand for a machine, sysctl works in a mount namespace with its own `/proc/sys` and
`/etc/sysctl.d`: nothing on this machine changes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ktrial.agent.binary import find_agent
from ktrial.agent.lent_root import LAUNCHED
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.kit.mounts import file_system
from ktrial.tuning.catalog.loader import load_catalog
from perf.side_by_side import measure, report

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 15
KEPT, WATCHED = 30, 60
GOAL_S = 0.3
FILE = "etc/sysctl.d/ktrial.conf"
PEER = f"sysctl --system, {KEPT} keys"
KEEP = f"ktrial keep, {KEPT} settings"
DRIFT = f"ktrial drift, {WATCHED} settings"
#: The namespace ends when its standard input closes.
_NAMESPACE = """
set -e
for folder in /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d /usr/local/lib/sysctl.d /lib/sysctl.d; do
    [ ! -d "$folder" ] || mount -t tmpfs none "$folder"
done
[ ! -e /etc/sysctl.conf ] || mount --bind /dev/null /etc/sysctl.conf
cp "$1/etc/sysctl.d/ktrial.conf" /etc/sysctl.d/
mount -t tmpfs none /proc/sys
cp -r "$1/proc/sys/." /proc/sys/
echo ready
exec cat > /dev/null
"""


def settings(count: int) -> dict[str, tuple[str, int]]:
    """Return, by knob, the path below the root and the value to keep, for the first sysctls that contain one number."""
    found = {}
    for knob in load_catalog().knobs.values():
        is_number = knob.kind == "sysctl" and knob.value.type == "int"
        if is_number and not knob.couples and not knob.value.special and knob.risk != "dangerous":
            least = knob.value.min or 0
            found[knob.id] = knob.files[0].lstrip("/"), least + 1 if knob.value.max is None else knob.value.max
    return dict(list(found.items())[:count])


def make_machine(folder: Path, count: int) -> list[str]:
    """Make a folder that stands for a machine with another value of each setting; return the words of `keep`."""
    chosen = settings(count)
    for path, value in chosen.values():
        _write(folder / path, f"{value - 1}\n")
    _write(folder / "proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n")
    _write(folder / "run/systemd/system/README", "")
    _write(folder / "etc/sysctl.d/README", "")
    return [f"{name}={value}" for name, (_, value) in chosen.items()]


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def ktrial(folder: Path, *words: str) -> bytes:
    """Run the head like the launcher; return its output."""
    head = [str(ROOT / ".venv/bin/python"), "-I", "-S", str(ROOT / "src/ktrial/__main__.py")]
    argv = [*head, "--machine-root", str(folder), *words]
    return subprocess.run(
        argv, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, LAUNCHED: "root"}
    ).stdout


def apply_alone(folder: Path, plan: Mapping[str, Any]) -> None:
    """Let an agent carry out the plan of `keep`."""
    session = AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "root", "--root", str(folder)]))
    applied = session.request("apply", plan=plan)
    assert applied["state"] == "applied", applied
    session.close()


@contextlib.contextmanager
def namespace(folder: Path) -> Iterator[list[str]]:
    """Yield words that run a command in a place where `sysctl` sees the folder's settings and its kept file."""
    argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", _NAMESPACE, "sh", str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            raise SystemExit("perf/keep: cannot make a mount namespace: run it as root")
        yield ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt"]
        assert holder.stdin is not None
        holder.stdin.close()


def run_sysctl(inside: Sequence[str]) -> None:
    subprocess.run([*inside, "sysctl", "--system"], check=True, stdout=subprocess.DEVNULL)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure and print; return 1 if drift took too long."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = make_machine(folder / "peer", KEPT)
        for number in range(ROUNDS + 1):
            make_machine(folder / f"head{number}", KEPT)
            make_machine(folder / f"agent{number}", KEPT)
        plan = msgspec.json.decode(ktrial(folder / "head0", "keep", *words, "--dry-run", "--json"))["plan"]
        ktrial(folder / "peer", "keep", *words, "--yes", "--next-boot")
        ktrial(folder / "watched", "keep", *make_machine(folder / "watched", WATCHED), "--yes")
        heads, agents = iter(range(ROUNDS + 1)), iter(range(ROUNDS + 1))
        with namespace(folder / "peer") as inside:
            actions = {
                PEER: lambda: run_sysctl(inside),
                KEEP: lambda: ktrial(folder / f"head{next(heads)}", "keep", *words, "--yes"),
                "its agent alone": lambda: apply_alone(folder / f"agent{next(agents)}", plan),
                DRIFT: lambda: ktrial(folder / "watched", "drift"),
            }
            times_s = measure(actions, ROUNDS)
            _check(folder, inside)
        report(times_s, PEER, {})
        before_s = cpu_s()
        for _ in range(5):
            ktrial(folder / "watched", "drift")
        busy_s = (cpu_s() - before_s) / 5
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
        print(f"files and journals lie on {file_system(name, mounts)}")
    median_s, least_s = statistics.median(times_s[DRIFT]), min(times_s[DRIFT])
    verdict = "met" if median_s <= GOAL_S else "MISSED"
    shown = f"at least {least_s:.2f} s, median {median_s:.2f} s, goal {GOAL_S:g} s: {verdict}"
    print(f"{DRIFT}: {busy_s:.2f} s of CPU time, {shown}")
    return 0 if median_s <= GOAL_S else 1


def _check(folder: Path, inside: Sequence[str]) -> None:
    """Check that each timed command does what its name says."""
    for name, (path, value) in settings(KEPT).items():
        by_sysctl = subprocess.run([*inside, "cat", f"/{path}"], check=True, stdout=subprocess.PIPE, text=True).stdout
        by_keep = (folder / f"head{ROUNDS}" / path).read_text(encoding="utf-8")
        if by_sysctl.strip() != str(value) or by_keep.strip() != str(value):
            raise SystemExit(f"perf/keep: {name} is {by_sysctl!r} and {by_keep!r}, not {value}")
    if (folder / "peer" / FILE).read_bytes() != (folder / f"head{ROUNDS}" / FILE).read_bytes():
        raise SystemExit("perf/keep: the files differ")


if __name__ == "__main__":
    sys.exit(main())

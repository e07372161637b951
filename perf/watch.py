# SPDX-License-Identifier: Apache-2.0
"""The cost of `ktrial watch` at its default rates, beside atop and sar, all at once on the same machine.

Run as root in a checkout that is set up, with atop and sysstat:  .venv/bin/python -m perf.watch [SECONDS]

All numbers are CPU time of all processes of a tool. ktrial takes ten samples per second of most sources, traces events
and looks at every process once a second; its head, which writes the file, is included. atop and sar take at most one
sample per second. Exits with status 1 if ktrial takes more than 1 % of one CPU while it records. Its cost with start
and end, which the peers' numbers include, is shown beside it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from perf.arguments import argument, how_many

SECONDS = 180
GOAL_SHARE = 0.01
#: Samples that ktrial takes while the others take one.
HZ = 10


class Peer(NamedTuple):
    """A peer's program, and the words for one sample per second into a file."""

    program: str
    words: tuple[str, ...]


PEERS = {
    "atop -w": Peer("atop", ("-w", "FILE", "1", "COUNT")),
    "sar -A -o": Peer("sar", ("-A", "-o", "FILE", "1", "COUNT")),
}


def main() -> int:
    """Measure and print; return 1 if the goal was missed or a peer is not installed."""
    seconds = argument("SECONDS", SECONDS, how_many)
    missing = [peer.program for peer in PEERS.values() if shutil.which(peer.program) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as folder:
        begin = os.getloadavg()[0]
        peers = {
            name: _begin(name, peer, seconds, folder) for name, peer in PEERS.items() if peer.program not in missing
        }
        words = [sys.executable, "-m", "ktrial", "watch", "--for", f"{seconds}s", "--json", "-o", f"{folder}/recording"]
        before_s = _children_s()
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        command_s = _children_s() - before_s
        # Each event is one line; the summary comes last, over several lines.
        ended = json.loads(done.stdout[done.stdout.rfind("\n{\n") + 1 :])
        used = {name: float(process.communicate()[0]) for name, process in peers.items()}
        sizes = {name: sum(file.stat().st_size for file in Path(folder).glob(f"{_slug(name)}*")) for name in used}
    own = ended["ended"]
    agent, head = own["cpu_ns"] / own["wall_ns"], ended["head_cpu_s"] / seconds
    print(f"load {begin:.1f} to {os.getloadavg()[0]:.1f}; {seconds} s, all at once")
    print(f"{'':28}{'of one CPU':>12}{'a sample':>14}{'MB an hour':>13}")
    per_hour = own["bytes"] / own["wall_ns"] * 3.6e12 / 1e6
    _row(f"ktrial watch, {HZ} a second", agent + head, (agent + head) / HZ, per_hour)
    _row("  of it the agent", agent, agent / HZ, None)
    _row("  with its start and end", command_s / seconds, command_s / seconds / HZ, None)
    sources = sorted(own["sources"].items(), key=lambda one: -one[1].get("cpu_ns", 0))
    dear = ", ".join(f"{name} {source['cpu_ns'] / own['wall_ns']:.3%}" for name, source in sources[:6])
    print(f"    most of it: {dear}")
    for name, used_s in used.items():
        share = used_s / seconds
        _row(f"{name}, one a second", share, share, sizes[name] / seconds * 3600 / 1e6)
        whole = agent + head
        print(f"    ktrial takes {whole / share:.2f} times as much, {whole / HZ / share:.2f} times for a sample")
    met = agent + head < GOAL_SHARE
    print(f"less than {GOAL_SHARE:.0%} of one CPU: {'yes' if met else 'NO'}")
    return 0 if met and not missing else 1


def _begin(name: str, peer: Peer, seconds: int, folder: str) -> subprocess.Popen[str]:
    """Start a peer, which prints the CPU time of all its processes at the end."""
    known = {"FILE": f"{folder}/{_slug(name)}", "COUNT": str(seconds)}
    argv = [shutil.which(peer.program) or peer.program, *(known.get(word, word) for word in peer.words)]
    words = [sys.executable, "-m", "perf.sampler", "--reap", *argv]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def _children_s() -> float:
    """Return the CPU time of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _slug(name: str) -> str:
    return "".join(letter for letter in name if letter.isalpha())


def _row(name: str, share: float, sample_share: float, megabytes: float | None) -> None:
    size = f"{megabytes:13.1f}" if megabytes is not None else ""
    print(f"{name:28}{share:12.3%}{1e6 * sample_share:11.0f} us{size}")


if __name__ == "__main__":
    sys.exit(main())

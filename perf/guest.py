# SPDX-License-Identifier: Apache-2.0
"""`python -m perf.guest KERNEL`: the cost of guests, beside virtme-ng with the same kernel, mode and machine.

KERNEL is a folder with an unpacked kernel package and its modules. virtme-ng is `vng` in PATH; without it, only ktrial
is timed, and the output states that. Runs alternate, so that other load affects both tools.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROUNDS = 5
MEMORY, CPUS = "1GiB", 2
#: Guest seconds of a busy exact guest. The difference gives the cost of a second without the boot.
SHORT_S, LONG_S = 2, 10
ENOUGH = 3.0


def run(argv: Sequence[str]) -> float:
    """Return the seconds of a command that must succeed."""
    began = time.monotonic()
    done = subprocess.run(list(argv), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(argv)} ended with status {done.returncode}:\n{done.stdout[-500:]}{done.stderr[-500:]}"
        )
    return time.monotonic() - began


def ktrial(kernel: Path, mode: str, *program: str) -> float:
    """Return the time of one boot with a program."""
    shape = () if mode == "exact" else ("--cpus", str(CPUS))
    boot = ("kernel", "boot", str(kernel), "--mode", mode, "--memory", MEMORY, *shape, "--limit", "10min")
    return run([sys.executable, "-m", "ktrial", *boot, "--", *program])


def vng(image: Path) -> float:
    """Return the time of the same boot with virtme-ng.

    Its exit status is lost without a terminal, so its output counts.
    """
    began = time.monotonic()
    argv = ["vng", "--verbose", "--run", str(image), "--disable-kvm", "--cpus", str(CPUS), "--memory", "1G"]
    done = subprocess.run(
        [*argv, "--", "echo ktrial-was-here"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    # The version decides which stream has the console output. The command line is part of it.
    if "ktrial-was-here" not in (done.stdout + done.stderr).replace("echo ktrial-was-here", ""):
        raise SystemExit(f"vng did not run its program:\n{done.stdout[-800:]}{done.stderr[-500:]}")
    return time.monotonic() - began


def image_of(kernel: Path) -> Path:
    """Return the image in a folder."""
    (image,) = (kernel / "boot").glob("vmlinuz-*")
    return image


def show(what: str, times: Sequence[float]) -> None:
    """Print a line with the median and the range."""
    print(f"{what:44} {statistics.median(times):7.2f} s  ({min(times):.2f} to {max(times):.2f}, n = {len(times)})")


def against_vng(kernel: Path, rounds: int) -> None:
    """Measure the time from the command to a program's output."""
    peers: dict[str, Callable[[], float]] = {"ktrial kernel boot, emulated": lambda: ktrial(kernel, "emulated", "true")}
    if shutil.which("vng") is None:
        print("vng is not in PATH: pip install virtme-ng; ktrial is timed alone")
    else:
        peers["virtme-ng, emulated"] = lambda: vng(image_of(kernel))
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, once in peers.items():
            times[name].append(once())
    for name, found in times.items():
        show(name, found)
    if len(times) == 2:
        ours, theirs = (statistics.median(found) for found in times.values())
        verdict = "reached" if theirs / ours >= ENOUGH else "missed"
        print(f"{theirs / ours:.1f} times as fast; the goal of {ENOUGH:.0f} is {verdict}")


def exact_cost(kernel: Path, rounds: int) -> None:
    """Measure the cost of a busy second of an exact guest, while two run at once."""
    busy = "timeout {} sh -c 'while :; do :; done'; true"
    costs = []
    for _ in range(rounds):
        short, long = (ktrial(kernel, "exact", "busybox", "sh", "-c", busy.format(s)) for s in (SHORT_S, LONG_S))
        costs.append((long - short) / (LONG_S - SHORT_S))
    show("a busy second of an exact guest, twice at once", costs)


def throughput(kernel: Path) -> None:
    """Measure the boots per minute of several guests at once."""
    alone = 0.0
    for workers in (1, 2, 4):
        count = 2 * workers
        began = time.monotonic()
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda _: ktrial(kernel, "emulated", "true"), range(count)))
        each_minute = count * 60 / (time.monotonic() - began)
        alone = alone or each_minute
        told = f"{each_minute:.1f} boots a minute ({each_minute / alone:.2f} times one)"
        print(f"{workers} at once on {len(os.sched_getaffinity(0))} CPUs: {told}")


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kernel", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the beginning")
    against_vng(options.kernel, options.rounds)
    exact_cost(options.kernel, min(options.rounds, 3))
    throughput(options.kernel)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()

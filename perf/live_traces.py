# SPDX-License-Identifier: Apache-2.0
"""Records, second by second, how long two real servers need for their requests under a load that rises and falls.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.live_traces FOLDER [MINUTES]   (70 minutes)

- `pgbench.csv`: pgbench's own TPC-B-like transactions on a PostgreSQL server with its default durability. A base load
  runs all the time; three shifts come and go, so that the rate of requests changes up to threefold within a day.
- `redis.csv`: a write, a read and a sort of a hundred numbers, sent together at random times (Poisson) to a redis
  server; the rate follows a sine.

A day lasts 20 minutes. A row is one second: its requests; the median, mean and 99th percentile of their latency in
microseconds; and the server's CPU time in microseconds. Seconds without a request have no row. Nothing changes
meanwhile: this is the noise of live work.

Other work on a small machine delays requests more than any setting does. With `nice -n -15` in front of the command,
the servers and their clients have priority, as if they had a machine of their own.
"""

from __future__ import annotations

import csv
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from perf.arguments import argument, how_many
from tests.support.stores import postgresql

DAY_S = 1_200
BASE_RATE, SHIFT_RATE = 20, 12
#: When each shift of a day begins, and its length, in seconds.
SHIFTS = ((180, 720), (300, 480), (420, 240))
REDIS_LOW, REDIS_HIGH = 15.0, 60.0
HEADER = ("second", "requests", "p50_us", "mean_us", "p99_us", "cpu_us")


class CpuClock(threading.Thread):
    """Reads every second the CPU time of a server's processes. `used_us` has one entry per second."""

    def __init__(self, server: int, begin_s: float, length_s: int) -> None:
        super().__init__()
        self._server, self._begin_s, self._length_s = server, begin_s, length_s
        self._before: dict[int, int] = {}
        self.used_us: list[int] = []

    def run(self) -> None:
        for second in range(self._length_s + 1):
            time.sleep(max(0.0, self._begin_s + second - time.time()))
            now = dict(self._read())
            # The CPU time of a process before its first reading is missing: at most a second of each connection.
            used_ns = sum(ns - self._before.get(pid, ns) for pid, ns in now.items())
            self._before = now
            if second:
                self.used_us.append(round(used_ns / 1_000))

    def _read(self) -> Iterable[tuple[int, int]]:
        children = Path(f"/proc/{self._server}/task/{self._server}/children").read_text().split()
        for pid in (self._server, *map(int, children)):
            # The connection may have ended meanwhile.
            with suppress(FileNotFoundError, ProcessLookupError):
                yield pid, int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def write(path: Path, requests: Iterable[tuple[float, float]], clock: CpuClock, begin_s: float) -> None:
    """Write one row per second, from the time at which each request ended and its latency in microseconds."""
    seconds: dict[int, list[float]] = defaultdict(list)
    for ended_s, latency_us in requests:
        seconds[math.floor(ended_s - begin_s)].append(latency_us)
    with path.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(HEADER)
        for second, latencies in sorted(seconds.items()):
            if not 0 <= second < len(clock.used_us):
                continue
            of_all = np.array(latencies)
            numbers = (np.median(of_all), of_all.mean(), np.quantile(of_all, 0.99))
            rows.writerow([second, len(latencies), *(round(number) for number in numbers), clock.used_us[second]])


def pgbench(url: str, folder: Path, rate: int, length_s: int, name: str) -> subprocess.Popen[bytes]:
    words = ["pgbench", "-n", "-b", "tpcb-like", "-c", "2", "-R", str(rate), "-T", str(length_s)]
    words += ["-l", "--log-prefix", str(folder / name), "-h", url.split("host=")[1], "-U", "postgres", "postgres"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def transactions(folder: Path) -> Iterable[tuple[float, float]]:
    """Yield the end and the latency of every transaction in pgbench's log."""
    for path in folder.glob("load*"):
        for line in path.read_text().splitlines():
            _, _, latency_us, _, seconds, micros, *_ = line.split()
            yield int(seconds) + int(micros) / 1e6, float(latency_us)


def loads_of(minutes: int) -> Sequence[tuple[int, int, int]]:
    """Return the start, length and rate of each pgbench process."""
    end_s = 60 * minutes
    found = [(0, end_s, BASE_RATE)]
    for day_s in range(0, end_s, DAY_S):
        for begin_s, length_s in SHIFTS:
            if (begin := day_s + begin_s) < end_s:
                found.append((begin, min(length_s, end_s - begin), SHIFT_RATE))
    return sorted(found)


def run_pgbench(url: str, folder: Path, minutes: int, begin_s: float) -> None:
    running = []
    for number, (at_s, length_s, rate) in enumerate(loads_of(minutes)):
        time.sleep(max(0.0, begin_s + at_s - time.time()))
        running.append(pgbench(url, folder, rate, length_s, f"load{number}"))
    for one in running:
        one.wait()


def command(*words: str) -> bytes:
    return b"".join([f"*{len(words)}\r\n".encode(), *(f"${len(word)}\r\n{word}\r\n".encode() for word in words)])


def run_redis(path: Path, minutes: int, begin_s: float, found: list[tuple[float, float]]) -> None:
    """Send requests at random times, and add the end and the latency of each, counted from when it was due."""
    chance = random.Random(34)
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(str(path))
        server.sendall(command("RPUSH", "numbers", *(str(chance.randrange(10**6)) for _ in range(100))))
        server.recv(64)
        due_s = begin_s
        while due_s < begin_s + 60 * minutes:
            height = (1 - math.cos(2 * math.pi * (due_s - begin_s) / DAY_S)) / 2
            due_s += chance.expovariate(REDIS_LOW + (REDIS_HIGH - REDIS_LOW) * height)
            time.sleep(max(0.0, due_s - time.time()))
            key = f"key{chance.randrange(1000)}"
            sent = command("SET", key, "x" * 512) + command("GET", key) + command("SORT", "numbers")
            server.sendall(sent)
            got = b""
            # Each of the 100 numbers of the sorted list takes two lines; before them, SET takes one line and GET two.
            while got.count(b"\r\n") < 204:
                got += server.recv(65536)
            found.append((time.time(), (time.time() - due_s) * 1e6))


def main() -> int:
    if len(sys.argv) < 2 or os.geteuid() != 0:
        raise SystemExit("usage (as root): python -m perf.live_traces FOLDER [MINUTES]")
    out = Path(sys.argv.pop(1))
    minutes = argument("MINUTES", 70, how_many)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(postgresql())
        host = url.split("host=")[1]
        initialise = ["pgbench", "-i", "-q", "-s", "10", "-h", host, "-U", "postgres", "postgres"]
        subprocess.run(initialise, check=True, stderr=subprocess.DEVNULL)
        words = ["redis-server", "--port", "0", "--unixsocket", str(folder / "redis"), "--dir", str(folder)]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.terminate)
        while not (folder / "redis").exists():
            time.sleep(0.05)
        begin_s = time.time() + 1
        served: list[tuple[float, float]] = []
        redis = threading.Thread(target=run_redis, args=(folder / "redis", minutes, begin_s, served))
        database = int((Path(host) / "data" / "postmaster.pid").read_text().split()[0])
        clocks = [CpuClock(pid, begin_s, 60 * minutes) for pid in (database, server.pid)]
        for thread in (redis, *clocks):
            thread.start()
        run_pgbench(url, folder, minutes, begin_s)
        for thread in (redis, *clocks):
            thread.join()
        write(out / "pgbench.csv", transactions(folder), clocks[0], begin_s)
        write(out / "redis.csv", served, clocks[1], begin_s)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

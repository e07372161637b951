# SPDX-License-Identifier: Apache-2.0
"""Searches of eight network settings in a namespace with small socket buffers: three real ones, 27 simulated.

The simulated searches use the rates that this machine showed for each pair of buffers, and the noise of those runs. The
other six settings do nothing there.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ktrial.studies.search.space import Point
from tests.support.search import MadeMachine, choice, number, question_of, run_search, space_of
from tests.support.terminal import KTRIAL

pytestmark = pytest.mark.timeout(3600)
RECEIVE, SEND = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
SMALL = "4096 4096 4096"
BUFFERS = {
    RECEIVE: (SMALL, "4096 16384 65536", "4096 65536 1048576", "4096 131072 6291456"),
    SEND: (SMALL, "4096 16384 65536", "4096 16384 1048576", "4096 16384 4194304"),
}
CHOICES = {
    "net.ipv4.tcp_congestion_control": ("cubic", "reno", "bbr"),
    "net.ipv4.tcp_autocorking": (1, 0),
    "net.ipv4.tcp_slow_start_after_idle": (1, 0),
    "net.ipv4.tcp_notsent_lowat": (4294967295, 131072, 16384),
    "net.ipv4.tcp_ecn": (2, 1, 0),
}
LIMIT = "net.ipv4.tcp_limit_output_bytes"
#: A point counts as the optimum if its buffers give at least this share of the best rate.
NEAR = 0.75
#: Visits that fit into the budget of a real search.
VISITS = 250
STREAM = """
import socket, threading, time
def receive():
    peer, _ = server.accept()
    into = bytearray(1 << 16)
    while peer.recv_into(into): pass
server = socket.create_server(("127.0.0.1", 0))
thread = threading.Thread(target=receive)
thread.start()
client = socket.create_connection(server.getsockname())
data, sent, begin = bytes(1 << 16), 0, time.monotonic()
while time.monotonic() - begin < 0.3:
    client.sendall(data)
    sent += len(data)
client.close()
thread.join()
print("rate", sent / (time.monotonic() - begin))
"""
#: Log of the rate for each pair of buffers, and the deviations of single runs from it.
Rates = tuple[dict[tuple[str, str], float], list[float]]


class Namespace:
    """A network namespace with small socket buffers, in which a program sends to itself."""

    def __init__(self, folder: Path) -> None:
        self.name = f"ktrial-{os.getpid()}"
        self.stream = folder / "stream.py"
        self.stream.write_text(STREAM)

    def run(self, *words: str) -> str:
        done = subprocess.run(["ip", "netns", "exec", self.name, *words], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def set(self, receive: str, send: str) -> None:
        self.run("sysctl", "-qw", f"{RECEIVE}={receive}", f"{SEND}={send}")

    def rate(self) -> float:
        return float(self.run("/usr/bin/python3", "-S", str(self.stream)).split()[1])


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    made = Namespace(tmp_path_factory.mktemp("net"))
    subprocess.run(["ip", "netns", "add", made.name], check=True)
    try:
        made.run("ip", "link", "set", "lo", "up")
        made.set(SMALL, SMALL)
        yield made
    finally:
        subprocess.run(["ip", "netns", "del", made.name], check=True)


@pytest.fixture(scope="module")
def rates(namespace: Namespace) -> Rates:
    """Each pair of buffers nine times, in random order: one after the other, drift would look like noise.

    Medians: the first seconds of such a program can be a third slower than the rest, and the mean of three runs then
    put one of six equally good pairs below ``NEAR``.
    """
    pairs = [(receive, send) for receive in BUFFERS[RECEIVE] for send in BUFFERS[SEND]]
    seen: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for at in np.random.default_rng(1).permutation(np.repeat(np.arange(len(pairs)), 9)).tolist():
        namespace.set(*pairs[at])
        seen[pairs[at]].append(math.log(namespace.rate()))
    namespace.set(SMALL, SMALL)
    middles = {pair: statistics.median(some) for pair, some in seen.items()}
    return middles, [one - middles[pair] for pair, some in seen.items() for one in some]


def is_found(rates: Rates, winner: dict[str, object]) -> bool:
    """Whether the buffers of a confirmed winner are about the best ones."""
    middles = rates[0]
    pair = str(winner.get(RECEIVE, SMALL)), str(winner.get(SEND, SMALL))
    return middles[pair] >= max(middles.values()) + math.log(NEAR)


def test_27_simulated_searches_find_the_planted_optimum(rates: Rates) -> None:
    middles, noise = rates
    lists = [choice(name, *values) for name, values in BUFFERS.items()]
    lists += [choice(name, *map(str, values)) for name, values in CHOICES.items()]
    space = space_of(*lists, number(LIMIT, 65536, 4194304, 1048576, log=True))

    def effect(point: Point) -> float:
        return middles[str(point[RECEIVE]), str(point[SEND])] - middles[SMALL, SMALL]

    found = 0
    for seed in range(27):
        drawn = np.random.default_rng(seed).choice(noise, 3 * VISITS)
        answer, _ = run_search(question_of(space, VISITS, seed), MadeMachine({"time": effect}, iter(drawn.tolist())))
        found += is_found(rates, dict(answer.winner))
    # With the three real ones at least 27 of 30.
    assert found >= 24


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_real_search_finds_the_planted_optimum(
    seed: str, namespace: Namespace, rates: Rates, tmp_path: Path, machine_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    listed = {**BUFFERS, **CHOICES}
    tables = [f"[[dimension]]\nknob = {name!r}\nvalues = {json.dumps(values)}\n" for name, values in listed.items()]
    tables.append(f"[[dimension]]\nknob = {LIMIT!r}\nlow = 65536\nhigh = 4194304\nlog = true\n")
    (tmp_path / "net.toml").write_text('name = "net"\n' + "".join(tables))
    given = ["--budget", "4min", "--seed", seed, "--settle", "0s", "--yes", "--json"]
    metric = ["--metric", "rate_per_s:higher=rate ([0-9.]+)"]
    program = [sys.executable, "-S", str(namespace.stream)]
    out = namespace.run(*KTRIAL, "search", str(tmp_path / "net.toml"), *given, *metric, "--", *program)
    found = json.loads(out.splitlines()[-1])["search"]
    assert found["ending"] == "confirmed", found["reason"]
    assert is_found(rates, found["winner"]), found["winner"]
    assert found["seconds"] <= 240
    # Everything has been restored.
    for name in (RECEIVE, SEND):
        assert re.split(r"\s+", namespace.run("sysctl", "-n", name).strip()) == SMALL.split()

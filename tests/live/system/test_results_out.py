# SPDX-License-Identifier: Apache-2.0
"""Results leave a trial that runs: a real Prometheus server sees it, and a file tells how it ended."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tree import FakeRoot

LOAD = ("--suite", "agent-memcpy", "-p", "duration_s=0.1", "-p", "bytes=1048576")
TRY = ("try", "vm.swappiness=10", "--settle", "500ms", "--no-profile", "--budget", "9", *LOAD)
LIMIT_S = 20.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Prometheus:
    """A server that scrapes one port of this machine twice a second."""

    def __init__(self, folder: Path, scraped: int) -> None:
        config = folder / "prometheus.yml"
        job = {"job_name": "ktrial", "static_configs": [{"targets": [f"127.0.0.1:{scraped}"]}]}
        settings = {"global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"}, "scrape_configs": [job]}
        config.write_text(json.dumps(settings))  # JSON is YAML
        self._port = free_port()
        place = (f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{self._port}")
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", *place], stdout=self._log, stderr=subprocess.STDOUT
        )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the server never became ready")

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series that a query finds."""
        words = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{words}", timeout=5) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


@pytest.fixture
def scraped() -> int:
    return free_port()


@pytest.fixture
def prometheus(tmp_path: Path, scraped: int) -> Iterator[Prometheus]:
    folder = tmp_path / "prometheus"
    folder.mkdir()
    server = Prometheus(folder, scraped)
    yield server
    server.end()


def test_a_server_sees_which_arm_was_in_force_and_the_file_how_it_ended(
    root: FakeRoot, tmp_path: Path, prometheus: Prometheus, scraped: int
) -> None:
    root.write("/.ktrial-test-machine", "")
    file = tmp_path / "ktrial.prom"
    ran = root.run(*TRY, "--metrics-port", str(scraped), "--metrics-file", str(file), "--json")
    assert ran.status == 0, ran.err
    assert f"figures are at http://127.0.0.1:{scraped}/metrics" in ran.err
    assert "arm-in-force" not in ran.out
    seen = prometheus.ask("max_over_time(ktrial_trial_arm_in_force[1m])")
    assert {one["metric"]["arm"]: one["value"][1] for one in seen} == {"control": "1", "swappiness-10": "1"}
    (both,) = prometheus.ask("max(max_over_time(sum(ktrial_trial_arm_in_force)[1m:500ms]))")
    assert both["value"][1] == "1"
    text = file.read_text()
    assert 'ktrial_trial_state="ended"} 1\n' in text
    assert 'arm="swappiness-10"} 0\n' in text
    assert "ktrial_trial_effect{" in text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words, said",
    [
        (("--metrics-port", "99999"), "not a port"),
        (("--metrics-port", "here:1:2"), "not a port"),
        (("--metrics-file", "/nonexistent/x.prom"), "No such file"),
        (("--grafana", "http://127.0.0.1:1"), "no token in KTRIAL_GRAFANA_TOKEN"),
        (("--grafana-token-file", "x"), "requires --grafana"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_measured(
    root: FakeRoot, words: tuple[str, ...], said: str
) -> None:
    root.write("/.ktrial-test-machine", "")
    ran = root.run(*TRY, *words)
    assert (ran.status, said in ran.err) == (2, True), ran.err
    assert "block" not in ran.err

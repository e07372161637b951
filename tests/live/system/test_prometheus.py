# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus server that scrapes a program of the test's, and is killed and started again meanwhile."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ktrial.agent.clock import SystemClock, unix_ms
from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import BadInput
from ktrial.live.model import MetricSource, Stretch, StretchReading
from ktrial.live.parse import open_source, parse_metric
from ktrial.live.sources.web import fetch
from ktrial.live.sources.world import LiveWorld
from tests.support.machine import FakeMachine

EVERY_S = 0.5
#: What the program counts every second.
PER_S = 40


class Program:
    """Exposes metrics that are exact functions of the time."""

    def __init__(self) -> None:
        self.version = "1.0"
        self.factor = 1.0
        self.started_s = self.began_s = time.time()
        page = self.page

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(page().encode())

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def restart(self, version: str, factor: float) -> None:
        self.version, self.factor, self.started_s = version, factor, time.time()

    def page(self) -> str:
        count = int((time.time() - self.started_s) * PER_S)
        series = f'version="{self.version}"'
        return (
            f"process_start_time_seconds {self.started_s}\n"
            f'# TYPE app_info gauge\napp_info{{release="{self.version}"}} 1\n'
            f"# TYPE load gauge\nload{{{series}}} {3 * self.factor}\n"
            f'# TYPE parts gauge\nparts{{part="a"}} 1\nparts{{part="b"}} 2\n'
            f"# TYPE work_total counter\nwork_total {count}\n"
            "# TYPE took_seconds histogram\n"
            f'took_seconds_bucket{{le="0.1"}} 1000\ntook_seconds_bucket{{le="0.2"}} {1000 + count}\n'
            f'took_seconds_bucket{{le="+Inf"}} {1000 + count}\ntook_seconds_count {1000 + count}\n'
            f"took_seconds_sum 1\n"
        )


class Prometheus:
    """The server, with its data in a folder."""

    def __init__(self, folder: Path, target: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder = folder
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {EVERY_S * 1000:.0f}ms, scrape_timeout: 400ms}}\n"
            f"scrape_configs: [{{job_name: app, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
        )
        self.start()

    def start(self) -> None:
        options = (f"--web.listen-address=127.0.0.1:{self.port}", f"--storage.tsdb.path={self._folder}/data")
        with (self._folder / "log").open("ab") as log:
            words = ("prometheus", f"--config.file={self._folder}/prometheus.yml", *options)
            self._process = subprocess.Popen(words, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def program() -> Iterator[Program]:
    one = Program()
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.fixture
def server(tmp_path: Path, program: Program) -> Iterator[Prometheus]:
    one = Prometheus(tmp_path, program.server.server_port)
    yield one
    one.kill()


def opened(server: Prometheus, query: str, name: str = "m", period_s: float | None = None) -> MetricSource:
    world = LiveWorld(
        clock=SystemClock(),
        machine=lambda: FakeMachine({}, is_root=False),
        run=lambda *_: RawOutput(),
        period_s=period_s,
        fetch=fetch,
    )
    metric = parse_metric(f"{name}:lower=prometheus:http://127.0.0.1:{server.port}?query={query}")
    return open_source(metric, world)


def begin_when_scraped(source: MetricSource) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            return source.begin()
        except BadInput:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def watch(sources: list[MetricSource], seconds: float) -> tuple[Stretch, list[list[float]]]:
    begin_ms = unix_ms()
    values: list[list[float]] = [[] for _ in sources]
    while unix_ms() < begin_ms + seconds * 1000:
        for source, found in zip(sources, values, strict=True):
            found += [sample.value for sample in source.poll()]
        time.sleep(EVERY_S / 2)
    return Stretch(begin_ms, unix_ms()), values


def test_nothing_is_read_from_what_was_missing(server: Prometheus, program: Program) -> None:
    load = opened(server, "load&version=version", "load_ms")
    rate = opened(server, "sum(rate(work_total[5m]))&version=release", "work_per_s")
    p50 = opened(server, "histogram_quantile(0.5, sum by (le) (rate(took_seconds_bucket[5m])))")
    sources = [load, rate, p50]
    for source in sources:
        begin_when_scraped(source)
    whole, values = watch(sources, 2.5)
    found = [source.over(whole) for source in sources]
    assert found[0].value == pytest.approx(0.003)
    assert (found[0].version, found[1].version) == ("1.0", "1.0")
    assert found[1].value == pytest.approx(PER_S, rel=0.05)
    assert (found[2].value, found[2].low, found[2].high) == pytest.approx((0.15, 0.1, 0.2))
    assert all(len(one) >= 3 for one in values)
    assert values[1] == pytest.approx([PER_S] * len(values[1]), rel=0.1)

    for query, says in (
        ("parts", 'part="a"} and {instance="127.0.0.1'),
        ("none", "no series matches none"),
        ("sum(work_total)", "query=sum(rate(work_total[1m]))"),
        ("took_seconds_count", "query=rate(took_seconds_count[1m])"),
        ("max_over_time(work_total[1m])", "query=rate(work_total[1m])"),
        ("rate(load[1m]", "unclosed left parenthesis"),
        ("sum(load) by by", "refuses the query"),
    ):
        with pytest.raises(BadInput) as error:
            opened(server, query).begin()
        assert says in f"{error.value.message} {error.value.hint}"
        assert error.value.hint
        assert "--metric 'prometheus:" in error.value.message
    with pytest.raises(BadInput, match=r"a period has 0\.8 s"):
        opened(server, "load", period_s=0.8).begin()

    server.kill()
    gap, values = watch(sources, 2)
    assert values == [[], [], []]
    assert "Connection refused" in (rate.over(gap).why or "")
    server.start()
    deadline = time.monotonic() + 20
    while not any(source.poll() for source in sources) and time.monotonic() < deadline:
        time.sleep(0.1)
    after, _ = watch(sources, 2.5)
    assert rate.over(after).value == pytest.approx(PER_S, rel=0.05)
    for stretch in (gap, Stretch(whole.begin_ms, after.end_ms)):
        for reading in (source.over(stretch) for source in sources):
            assert reading.value is None
            assert reading.why is not None
            assert reading.why.startswith("nothing was read")
    assert load.over(whole) == found[0]
    assert rate.over(whole) == found[1]

    program.restart("1.1", 1000)
    other, values = watch(sources, 2.5)
    assert len(values[0]) <= 1
    both = Stretch(other.begin_ms - 1500, other.end_ms)
    voids: list[StretchReading] = [source.over(both) for source in sources[:2]]
    assert [one.why for one in voids] == ["several versions ran: 1.0, 1.1"] * 2
    later = Stretch(other.begin_ms + 1200, other.end_ms)
    assert "1,000 times the usual one since the process restarted" in (load.over(later).why or "")
    assert rate.over(later).version == "1.1"

# SPDX-License-Identifier: Apache-2.0
"""Figures of a running trial as text, and the ways on which they leave it."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ktrial.judge.judge import judge
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import OutcomeRule
from ktrial.kit.errors import BadInput
from ktrial.live.metrics_out import TrialFigures, families, metrics_text
from ktrial.live.results_out import Grafana, GrafanaAnnotations, MetricsEndpoint, MetricsFile, ResultsOut
from ktrial.trial.run.events import ArmInForce, BlockEnded, TrialEnded, TrialEvent, VisitBegan, VisitEnded, VisitWaits
from tests.support.records import run_record
from tests.support.trials import RATE, TIME, log_of, protocol

ROOT = Path(__file__).resolve().parents[3]
FIXED = protocol(
    outcomes={
        TIME: OutcomeRule(direction="lower", role="primary"),
        RATE: OutcomeRule(direction="higher", role="guard", margin=0.05),
    }
)
SAMPLE = re.compile(r"[a-z_]+\{[^{}]*\} [-+0-9.eNaInf]+")


def judged(blocks: int = 12, better: float = 0.1) -> Judgement:
    control = [0.001 * (block % 3) for block in range(blocks)]
    case = [one + better + 0.0007 * (block % 5) for block, one in enumerate(control)]
    return judge(log_of(FIXED, {TIME: {"control": control, "case": case}, RATE: {"control": control, "case": control}}))


def visit(*, failure: str | None = None, void: str | None = None) -> VisitEnded:
    return VisitEnded(
        block=1, record=run_record(1, "case", 1, {"time_s": 1.0}), name="tool", failure=failure, void=void
    )


def figures(*events: TrialEvent, blind: bool = False) -> TrialFigures:
    made = TrialFigures('we"ird\\name\n', FIXED, 1_700_000_000.5, blind=blind)
    for event in events:
        made.take(event, 1_700_000_001.5)
    return made


def ended(*, interrupted: bool = False) -> TrialEnded:
    return TrialEnded(trial="t", judgement=judged(), interrupted=interrupted)


COURSE = (
    ArmInForce(block=1, arm="case"),
    VisitBegan(block=1, visit=1, visits=2, left_s=None),
    visit(),
    visit(failure="it crashed"),
    visit(void="too hot"),
    BlockEnded(block=12, judgement=judged()),
)


def promtool(text: str) -> tuple[int, str]:
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_older_text_passes_promtool() -> None:
    for made in (figures(), figures(*COURSE), figures(*COURSE, ended())):
        text = metrics_text(made, open_metrics=False)
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), text
    wrong = subprocess.run(
        ["promtool", "check", "metrics"], input="x{ 1\n", text=True, capture_output=True, check=False
    )
    assert wrong.returncode != 0


def test_the_text_says_what_is_in_force_and_what_is_known() -> None:
    text = metrics_text(figures(*COURSE))
    name = r'trial="we\"ird\\name\n"'
    assert text.endswith("# EOF\n")
    assert "# TYPE ktrial_trial_state stateset\n" in text
    assert f'ktrial_trial_state{{{name},ktrial_trial_state="running"}} 1\n' in text
    assert f'ktrial_trial_arm_in_force{{{name},arm="case"}} 1\n' in text
    assert f'ktrial_trial_arm_in_force{{{name},arm="control"}} 0\n' in text
    assert f"ktrial_trial_blocks{{{name}}} 12\n" in text
    assert f"ktrial_trial_most_blocks{{{name}}} 20\n" in text
    for result in ("good", "failed", "void"):
        assert f'ktrial_trial_runs{{{name},result="{result}"}} 1\n' in text
    assert 'role="primary",arm="case",against="control",ktrial_trial_verdict="better"} 1\n' in text
    assert 'ktrial_trial_guard="holds"} 1\n' in text
    assert f"ktrial_trial_changed_timestamp_seconds{{{name}}} 1700000001.5\n" in text
    effects = re.findall(r"^ktrial_trial_effect(_low|_high|)\{.*role=\"primary\".*\} (.*)$", text, re.MULTILINE)
    low, high, effect = (
        next(float(value) for end, value in effects if end == which) for which in ("_low", "_high", "")
    )
    assert 0.09 < low <= effect <= high < 0.12
    for line in text.splitlines():
        assert line.startswith("# ") or SAMPLE.fullmatch(line), line


def test_what_is_not_known_has_no_sample() -> None:
    text = metrics_text(figures())
    assert "ktrial_trial_effect" not in text
    assert "ktrial_trial_verdict" not in text
    assert metrics_text(None) == "# EOF\n"
    assert metrics_text(None, open_metrics=False) == ""


def test_states_follow_the_events() -> None:
    def state(*events: TrialEvent) -> str:
        return figures(*events).state

    assert state() == "running"
    assert state(VisitWaits(waiting="cooling")) == "waiting"
    assert state(VisitWaits(waiting="cooling"), COURSE[1]) == "running"
    assert state(*COURSE, ended()) == "ended"
    assert state(*COURSE, ended(interrupted=True)) == "interrupted"
    assert 'arm_in_force{trial="we\\"ird\\\\name\\n",arm="case"} 0' in metrics_text(figures(*COURSE, ended()))


def test_a_blind_trial_tells_no_arm_and_no_effect_before_its_end() -> None:
    text = metrics_text(figures(*COURSE, blind=True))
    assert "ktrial_trial_blocks" in text
    for word in ("in_force", "effect", "verdict", "guard", '"case"'):
        assert word not in text
    assert "ktrial_trial_effect" in metrics_text(figures(*COURSE, ended(), blind=True))


def test_the_dashboard_asks_for_metrics_that_are_written() -> None:
    dashboard = json.loads((ROOT / "examples/monitoring/grafana.json").read_text())
    written = {family.name for family in families(figures(*COURSE)) if family.samples}
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    assert len(asked) > 10
    for expression in asked:
        names = set(re.findall(r"\bktrial_[a-z_]+", expression))
        assert names, expression
        assert names <= written, expression
    seen = {name for one in asked for name in re.findall(r"\bktrial_[a-z_]+", one)}
    assert written - seen == {"ktrial_trial"}
    tags = {tag for one in dashboard["annotations"]["list"] for tag in one["target"]["tags"]}
    assert tags == {"ktrial", "switch", "verdict"}


def test_the_file_is_replaced_as_a_whole_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "ktrial.prom"
    way = MetricsFile(path)
    assert path.read_text() == ""
    before = path.stat().st_ino
    way.show(figures(*COURSE))
    assert path.read_text() == metrics_text(figures(*COURSE), open_metrics=False)
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in tmp_path.iterdir()] == ["ktrial.prom"]
    assert way.close() is None


def test_a_file_that_cannot_be_written_is_refused_first_and_a_doubt_later(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        MetricsFile(tmp_path / "none" / "x.prom")
    with pytest.raises(BadInput, match="a folder"):
        MetricsFile(tmp_path)
    folder = tmp_path / "metrics"
    folder.mkdir()
    way = MetricsFile(folder / "x.prom")
    (folder / "x.prom").unlink()
    folder.rmdir()
    way.show(figures())
    assert "may be old" in (way.close() or "")


def asked(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.headers.get("Content-Type", ""), answer.read().decode()
    connection.close()
    return found


def test_the_endpoint_serves_the_figures_and_nothing_else() -> None:
    way = MetricsEndpoint("127.0.0.1", 0)
    try:
        assert asked(way.port, "/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", "")
        made = figures(*COURSE)
        way.show(made)
        status, kind, text = asked(way.port, "/metrics?x=1", Accept="application/openmetrics-text;version=1.0.0,*/*")
        assert (status, text) == (200, metrics_text(made))
        assert kind.startswith("application/openmetrics-text")
        for path in ("/", "/metrics/", "/etc/passwd", "/metrics/../../etc/passwd"):
            assert asked(way.port, path)[0] == 404
        assert asked(way.port, "/metrics", "POST")[0] == 501
        with pytest.raises(BadInput, match="cannot listen"):
            MetricsEndpoint("127.0.0.1", way.port)
    finally:
        way.close()
    with pytest.raises(ConnectionRefusedError):
        asked(way.port, "/metrics")


class Clock:
    """Time that stands still."""

    def unix_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ns(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None: ...


class FakeGrafana:
    """Takes annotations, or answers with another status."""

    def __init__(self, status: int = 200) -> None:
        self.taken: list[tuple[str, str | None, dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.taken.append((self.path, self.headers["Authorization"], body))
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 (as its base class has it)

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/grafana/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def grafana() -> Iterator[FakeGrafana]:
    server = FakeGrafana()
    yield server
    server.end()


def pass_on(way: GrafanaAnnotations, *, blind: bool = False) -> list[str]:
    """What is said at the end of a whole course."""
    said: list[str] = []
    out = ResultsOut(lambda _: None, [way], Clock(), said.append)
    out.begins("t-1", FIXED, blind=blind)
    back = ArmInForce(block=1, arm="control")
    for event in (*COURSE, ArmInForce(block=2, arm="case"), back, BlockEnded(block=13, judgement=judged(13)), ended()):
        out(event)
    out.close()
    return said


def test_switches_and_verdicts_become_annotations(grafana: FakeGrafana) -> None:
    assert pass_on(GrafanaAnnotations(Grafana.at(grafana.url, "s3cret"), Clock())) == []
    assert {(path, token) for path, token, _ in grafana.taken} == {("/grafana/api/annotations", "Bearer s3cret")}
    texts = [body["text"] for _, _, body in grafana.taken]
    assert texts[0] == "t-1: case in force, block 1"
    assert texts[-1] == "t-1: ended; the old values are in force"
    assert sum("in force, block" in text for text in texts) == 2  # the same arm again is no switch
    assert sum(text.startswith(f"{TIME}: case is better than control (+") for text in texts) == 1
    assert ["ktrial", "trial:t-1", "switch", "arm:case"] in [body["tags"] for _, _, body in grafana.taken]
    assert {body["time"] for _, _, body in grafana.taken} == {1_700_000_000_000}


def test_annotations_of_a_blind_trial_name_no_arm_until_its_end(grafana: FakeGrafana) -> None:
    assert pass_on(GrafanaAnnotations(Grafana.at(grafana.url, "s3cret"), Clock()), blind=True) == []
    told = [json.dumps(body) for _, _, body in grafana.taken]
    verdict = next(at for at, text in enumerate(told) if "verdict" in text)
    assert verdict > 0
    assert all("case" not in text for text in told[:verdict])


def test_a_grafana_that_is_not_there_is_a_doubt_at_the_end() -> None:
    way = GrafanaAnnotations(Grafana.at("http://127.0.0.1:1", "s3cret"), Clock())
    (said,) = pass_on(way)
    assert re.fullmatch(r"doubt: (\d) of \1 annotations did not reach http://127.0.0.1:1: Connection refused", said)


@pytest.mark.parametrize("status", [302, 401, 500])
def test_other_answers_are_failures_and_no_token_goes_elsewhere(status: int) -> None:
    server = FakeGrafana(status)
    (said,) = pass_on(GrafanaAnnotations(Grafana.at(server.url, "s3cret"), Clock()))
    server.end()
    assert f"the server answered {status}" in said


@pytest.mark.parametrize(
    "url, token",
    [
        ("ftp://x", "t"),
        ("grafana.example", "t"),
        ("http://user:word@x", "t"),
        ("http://x:99999", "t"),
        ("http://x", ""),
        ("http://x", "a\r\nX: y"),
        ("http://x?y", "t"),
    ],
)
def test_addresses_and_tokens_that_are_none_are_refused(url: str, token: str) -> None:
    with pytest.raises(BadInput):
        Grafana.at(url, token)


def test_a_trial_that_an_error_ends_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    passed: list[TrialEvent] = []
    out = ResultsOut(passed.append, [MetricsFile(path)], Clock(), lambda _: None)
    out(COURSE[0])
    assert path.read_text() == ""  # what measures the noise is no trial
    out.begins("t-1", FIXED)
    out(COURSE[0])
    out.close()
    assert 'ktrial_trial_state="failed"} 1' in path.read_text()
    assert passed == [COURSE[0], COURSE[0]]

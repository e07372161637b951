# SPDX-License-Identifier: Apache-2.0
"""Live trials of a fleet: what each machine reads and keeps in force, and how the processes that watch them end."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from ktrial.fleet.ansible import Ansible, TaskResult
from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.program import Ktrial
from ktrial.fleet.conduct import Coordinator, MachineLook, Sight
from ktrial.fleet.draw import draw
from ktrial.fleet.eta import seconds_left
from ktrial.fleet.file import FleetTrial, parse_fleet_trial
from ktrial.fleet.live import LiveMachines, LiveStore, live_time, metrics_of, refuse_shared, trial_for, why_unread
from ktrial.fleet.log import FleetBegan, FleetStanding, MachineStep
from ktrial.fleet.store import StoredFleets
from ktrial.fleet.text import announcement
from ktrial.judge.model.log import Event, Looked, TrialEnd
from ktrial.kit.errors import BadInput
from ktrial.live.guard import GUARD_ALPHA
from ktrial.results.store.database import Database
from ktrial.trial.protocol.file import trial_text
from ktrial.trial.protocol.read import parse_trial_file
from tests.support.fleets import hosts
from tests.support.live_trials import WaitedClock

TRIAL = """
name = "live"
guards = { p99 = "10%" }
[live]
metrics = [
    "p50_s:lower=prometheus:http://server:9090?query=app{instance=\\"{inventory.address}:91\\"}",
    "p99_s:lower=openmetrics:http://{host}:91/metrics?name=app_p99",
]
period = "5min"
guards = { p99_s = "20%" }
limits = { p99_s = 3 }
[arms.control]
[arms.big]
set = { "net.core.somaxconn" = 512 }
[fleet]
"""
PAIRS = 'design = "pairs"\nmatch = ["cpu.model"]\n'


def parsed(text: str) -> FleetTrial:
    return parse_fleet_trial(text.encode(), "trial.toml")


def live_fleet(table: str = PAIRS, count: int = 12) -> FleetBegan:
    trial = parsed(TRIAL + table)
    facts = {host: {**known, "inventory.address": f"{host}.lan"} for host, known in hosts(count).items()}
    drawn = draw(trial.fleet, facts, 1, ("control", "big"))
    return FleetBegan(fleet="live-1", trial=trial, sha256=trial.sha256, seed=1, machines=drawn.machines)


@pytest.mark.parametrize(
    "before, after, said",
    [
        ('period = "5min"', "", "[live] has no period"),
        ('period = "5min"', 'period = "soon"', "period: expected a duration"),
        ('period = "5min"', 'period = "5min"\nrate = true', "`rate` of [live] works only on one machine"),
        ('period = "5min"', 'period = "5min"\nfor = "2d"', "`for` of [live] works only on one machine"),
        ("openmetrics:", "openmetric:", "unknown kind of source 'openmetric'"),
        ("[fleet]", '[fleet]\ndesign = "pairs"\nat_once = 3', "at_once = 3 separates a pair"),
        ("name = ", 'suite = "pagefault"\nname = ', "cannot combine [live] with suite"),
    ],
)
def test_a_live_trial_that_no_fleet_can_make_is_refused(before: str, after: str, said: str) -> None:
    with pytest.raises(BadInput) as raised:
        parsed(TRIAL.replace(before, after, 1))
    assert said in str(raised.value)


def test_the_arm_of_a_pair_stays_and_its_guards_share_one_error() -> None:
    began = live_fleet()
    own = {one.arm: trial_for(began, "live-1.1", one) for one in began.machines}
    big, control = own["big"].live, own["control"].live
    assert big
    assert control
    assert (big.stay, big.guards, big.guard_error) == (True, {"p99_s": "20%"}, GUARD_ALPHA / 6)
    # The control changes nothing that a guard could see; a limit holds for every machine.
    assert (control.stay, control.guards, control.limits) == (True, {}, {"p99_s": 3})
    for trial in own.values():
        assert parse_trial_file(trial_text(trial).encode(), "own.toml") == trial
    within = live_fleet("", 3)
    each = trial_for(within, "live-1.1", within.machines[0])
    assert each.live
    assert (list(each.arms), bool(each.live.stay)) == (["control", "big"], False)
    assert each.live.guard_error == GUARD_ALPHA / 3


def test_the_trial_of_the_documentation_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs/fleets.md").read_text(encoding="utf-8")
    section = page.partition("## Try it on live work")[2]
    trial = parsed(section.partition("```toml\n")[2].partition("```")[0])
    assert (trial.facts, trial.fleet.design) == ((*trial.fleet.match, "inventory.address"), "pairs")


def test_each_machine_has_its_own_series() -> None:
    trial = parsed(TRIAL)
    assert trial.facts == ("inventory.address",)
    first, second = metrics_of(trial, "m1", {"inventory.address": "10.0.0.1"})
    assert 'instance="10.0.0.1:91"' in first
    assert "http://m1:91/" in second
    with pytest.raises(BadInput, match="the inventory has no variable address for m1"):
        metrics_of(trial, "m1", {})
    refuse_shared(trial, {"m1": {"inventory.address": "a"}, "m2": {"inventory.address": "b"}})
    with pytest.raises(BadInput, match="m1 and m2 have the same series of p50_s"):
        refuse_shared(trial, {"m1": {"inventory.address": "a"}, "m2": {"inventory.address": "a"}})


def test_a_machine_without_exactly_one_series_says_why() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            labels = {"/m1": [""], "/m2": ['{a="1"}', '{a="2"}'], "/m3": []}[self.path]
            self.wfile.write("".join(f"app{one} 1\n" for one in labels).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        source = f"openmetrics:http://127.0.0.1:{server.server_address[1]}/{{host}}?name=app"
        text = TRIAL[: TRIAL.index("metrics")] + f'metrics = ["app:lower={source}"]\n' + TRIAL[TRIAL.index("period") :]
        trial = parsed(text.replace("p99_s", "app"))
        found = [why_unread(trial, host, {}, WaitedClock()) for host in ("m1", "m2", "m3")]
    finally:
        server.shutdown()
        server.server_close()
    assert found[0] is None
    assert "has several series named" in (found[1] or "")
    assert "has no series app" in (found[2] or "")


def test_the_time_is_known_before_the_first_step() -> None:
    began = live_fleet(f'{PAIRS}waves = [1, "100%"]')
    assert began.trial.live
    takes = live_time(began, began.trial.live)
    # Fourteen periods with their gaps, and two to learn what is usual.
    assert takes.blocks_s == 14 * 315 + 600
    from msgspec.structs import replace

    text = announcement(replace(began, takes=takes), width=100, forks=8)
    assert "one machine of each pair has the arm, 14 periods of 5min on each" in text
    assert "about 2 h 47 min, 1 h 23 min for each of 2 waves" in text
    standing = FleetStanding([replace(began, takes=takes)])
    standing.take(MachineStep(place=0, host="m1", state="running", at_unix_ms=0, blocks=0, next_look_unix_ms=2000))
    assert seconds_left(standing, 0) == 2 * takes.blocks_s


class Processes:
    """Stands for Ansible: starts a program of the test for each machine; and for the store of their trials."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder, self.code = folder, code
        self.given: list[Mapping[str, Any]] = []
        self.trials: dict[str, str] = {}
        self.logs: dict[str, Sequence[Event]] = {}
        self.running: list[str] = []

    def run(self, module: str, arguments: Mapping[str, Mapping[str, Any]]) -> Iterator[TaskResult | None]:
        assert module == "trial"
        for host, given in arguments.items():
            self.given.append(given)
            number = Ktrial([sys.executable, "-c", self.code], {}).begin(output=given["output"])
            yield None
            yield TaskResult(host, "ok", {"changed": True, "process": number})

    def machines(self, began: FleetBegan) -> LiveMachines:
        store = LiveStore(self.trials.get, lambda trial: self.logs.get(trial, ()), lambda: self.running)
        return LiveMachines(cast(Ansible, self), began, self.folder, store, fence=9)


def until(machines: LiveMachines, look: MachineLook, is_so: Callable[[Sight], bool]) -> Sight:
    end_s = time.monotonic() + 20
    while time.monotonic() < end_s:
        for sight in machines.look([look]):
            if sight is not None and is_so(sight):
                return sight
        time.sleep(0.02)
    raise AssertionError("it does not come")


def test_a_process_watches_a_machine_until_its_trial_is_over(tmp_path: Path) -> None:
    world = Processes(tmp_path, "import time; time.sleep(60)")
    began = live_fleet()
    machines, look = world.machines(began), MachineLook(3, began.machines[3])
    assert [one and one.state for one in machines.look([look])] == [None, "running"]
    (given,) = world.given
    assert (given["state"], given["fence"], given["fleet"], given["name"]) == ("watched", 9, "live-1", "live-1.4")
    assert parse_trial_file(Path(given["file"]).read_bytes(), "own.toml").live
    # Only what is new is worth an event.
    assert [one.is_news for one in machines.look([look]) if one is not None] == [False]
    world.trials["live-1.4"] = "live-1.4-x"
    world.logs["live-1.4-x"] = [Looked(blocks=2, verdicts={})]
    assert [(one.blocks, one.is_news) for one in machines.look([look]) if one is not None] == [(2, True)]
    assert [one.state for one in machines.stop([look]) if one is not None] == ["stopped"]
    # Its trial is continued by its name.
    until(machines, look, lambda one: one.state == "running")
    assert (world.given[-1]["name"], "file" in world.given[-1]) == ("live-1.4-x", False)
    machines.close()
    world.logs["live-1.4-x"] = [TrialEnd(reason="stopped: p99_s is 4 s (limit 3 s)")]
    found = until(machines, look, lambda _: True)
    assert (found.state, found.guard, found.message) == ("failed", True, "p99_s is 4 s (limit 3 s)")
    world.logs["live-1.4-x"] = [Looked(blocks=7, verdicts={}), TrialEnd(reason="every comparison has its verdict")]
    assert until(machines, look, lambda _: True)[:4] == (look.machine.host, "ended", "live-1.4-x", 7)


def test_a_machine_is_away_until_its_trial_runs_there(tmp_path: Path) -> None:
    message = {"schema": "ktrial.error/1", "error": "lost the connection to m4", "status": 1, "next": "look"}
    world = Processes(tmp_path, f"print({json.dumps(json.dumps(message))})")
    began = live_fleet()
    machines, look = world.machines(began), MachineLook(3, began.machines[3], "live-1.4-x")
    found = until(machines, look, lambda one: one.state == "unreachable")
    assert found.message == "lost the connection to m4"
    world.code = "import time; time.sleep(60)"
    assert [one.state for one in machines.look([look]) if one is not None] == ["unreachable"]
    assert [one.state for one in machines.look([look]) if one is not None] == ["unreachable"]
    world.running.append("live-1.4-x")
    assert [one.state for one in machines.look([look]) if one is not None] == ["running"]
    machines.close()


def test_what_ends_again_and_again_fails_for_good(tmp_path: Path) -> None:
    world = Processes(tmp_path, "import os; os.kill(os.getpid(), 9)")
    began = live_fleet()
    machines, look = world.machines(began), MachineLook(0, began.machines[0])
    may_pass = [until(machines, look, lambda one: one.state == "failed").may_pass for _ in range(3)]
    assert may_pass == [True, True, False]
    # A machine that got further meanwhile begins to count again, and keeps its blocks.
    world.trials["live-1.1"] = "live-1.1-x"
    world.logs["live-1.1-x"] = [Looked(blocks=3, verdicts={})]
    further = until(machines, look, lambda one: one.state == "failed")
    assert (further.may_pass, further.blocks) == (True, 3)
    assert until(machines, look, lambda one: one.state == "running").blocks == 3


def test_what_is_no_news_is_not_logged() -> None:
    began = live_fleet("", 3)

    class Watched:
        looked = 0

        def look(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
            self.looked += 1
            state = "running" if self.looked < 50 else "ended"
            for one in looks:
                is_news = self.looked == 1 or state == "ended"
                yield Sight(one.machine.host, state, "trial", 7, 2.0, is_news=is_news)  # type: ignore[arg-type]

        def stop(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
            yield from ()

        def leave_out(self, look: MachineLook) -> None:
            raise AssertionError("no machine is away")

    events: list[Any] = []

    class Clock:
        now_ms = 0

        def append(self, *new: Any) -> None:
            events.extend(new)

        def unix_ms(self) -> int:
            return self.now_ms

        def sleep(self, seconds: float) -> None:
            self.now_ms += int(1000 * seconds)

    standing, clock = FleetStanding([began]), Clock()
    Coordinator(standing, clock, Watched(), clock, lambda _: [], lambda _: None)._measure(standing.places_of(1))
    assert [one.state for one in events] == ["running", "ended"]


def test_a_process_knows_whether_its_coordinator_still_has_the_fleet(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path / "results.db"))
    try:
        fleets = StoredFleets(lambda: database)
        fleets.begin(live_fleet("", 3))
        lease = fleets.take("live-1", "elsewhere/1 boot 1 1")
        assert fleets.is_held("live-1", lease.fence)
        assert not fleets.is_held("live-1", lease.fence - 1)
        after = fleets.take("live-1", "elsewhere/1 boot 2 1", from_others=True)
        assert (fleets.is_held("live-1", lease.fence), fleets.is_held("live-1", after.fence)) == (False, True)
        after.let_go()
        assert not fleets.is_held("live-1", after.fence)
    finally:
        database.close()

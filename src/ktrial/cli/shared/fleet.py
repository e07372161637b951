# SPDX-License-Identifier: Apache-2.0
"""Trials over the machines of an Ansible inventory, for `ktrial fleet`."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ktrial.agent.user_folders import state_folder
from ktrial.bench.suites import tasks_of
from ktrial.cli.options import is_terminal, write_answer
from ktrial.cli.shared.bench import check_output
from ktrial.cli.shared.fleet_live import live_machines, unread_machines
from ktrial.cli.shared.long_runs import LONG_S, newest_runs, refuse_idle
from ktrial.cli.shared.trial_outcome import load_comparison
from ktrial.cli.shared.trial_start import what_to_measure
from ktrial.compare.files import write_file
from ktrial.fleet.ansible import BEAT_S, Ansible
from ktrial.fleet.conduct import LONGEST_NAP_S, Coordinator, MachineLook, finished_logs
from ktrial.fleet.draw import draw
from ktrial.fleet.eta import machine_time, seconds_left
from ktrial.fleet.file import FleetTrial, parse_fleet_trial
from ktrial.fleet.live import LiveMachines, live_time
from ktrial.fleet.log import FleetBegan, FleetEvent, FleetStanding, MachineStep
from ktrial.fleet.machines import AnsibleMachines, facts_of
from ktrial.fleet.rollout import WaveOutcome, keep_arguments, proven_arm, proven_arms, roll_out, waves_of
from ktrial.fleet.store import StoredFleets
from ktrial.fleet.text import (
    announcement,
    counts_text,
    event_text,
    live_lines,
    outcome_text,
    question_text,
    result_text,
    status_text,
)
from ktrial.fleet.verdict import fleet_result
from ktrial.kit import plain_json
from ktrial.kit.console import LiveLines, is_live
from ktrial.kit.errors import BadInput, GuardTripped, KtrialError, Refused
from ktrial.kit.files import read_file
from ktrial.kit.streams import draw as draw_on
from ktrial.kit.tables import columns
from ktrial.machine.facts import Fact, FactBook
from ktrial.results.store.runs import this_writer
from ktrial.trial.arms.plan_arms import settle_before
from ktrial.trial.protocol.forecast import expected_run_seconds
from ktrial.trial.run.prepare import needed_suite
from ktrial.tuning.plans.confirm import must_agree

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.fleet.store import CoordinatorLease
    from ktrial.fleet.verdict import FleetResult
    from ktrial.kit.outcome import Unit

_LIMIT_BYTES = 1 << 20
_PAGES = (".html", ".md")
#: Seconds after which a coordinator has noticed that it lost its lease, because it renews the lease more often.
_NOTICES_S = 1.5 * max(BEAT_S, LONGEST_NAP_S)


class MachineChoice(NamedTuple):
    """Which machines take part: the inventory's sources, a pattern, and how many machines ktrial contacts at once."""

    inventory: tuple[str, ...]
    limit: str | None
    forks: int


def run_fleet(app: App, file: Path, chosen: MachineChoice, *, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Run a fleet's trial, or resume an unfinished trial of this file; with `dry_run` only show it."""
    trial = parse_fleet_trial(read_file(file, _LIMIT_BYTES), str(file))
    if trial.live:
        refuse_idle(app, trial)
    fleets = stored_fleets(app)
    with private_folder() as folder:
        ansible = _ansible(app, chosen, folder)
        standing = _unfinished(fleets, trial, file)
        if dry_run and standing is not None:
            show_status(app, standing.began.fleet, as_json=as_json)
            return 0
        if standing is None:
            began = with_time(app, begin_fleet(app, ansible, trial))
            if dry_run:
                write_answer(as_json, lambda: began, lambda width: announcement(began, width=width, forks=chosen.forks))
                return 0
            app.say(announcement(began, width=columns(), forks=chosen.forks).rstrip("\n"))
            if not yes and is_terminal():
                must_agree(question_text(began, chosen.forks, LONG_S), "aborted; nothing was changed")
            fleets.begin(began)
            standing = fleets.standing(began.fleet)
        else:
            app.say(f"continuing {standing.began.fleet}{_way_on(app, standing.began)}")
        return _carry_out(app, fleets, ansible, standing, folder, as_json=as_json)


def _way_on(app: App, began: FleetBegan) -> str:
    """Return what to add to the message about a resumed trial that began with another --when-idle."""
    if began.when_idle == app.when_idle:
        return ""
    return f" {'with' if began.when_idle else 'without'} --when-idle, as it began"


def with_time(app: App, began: FleetBegan) -> FleetBegan:
    """Return the trial with the time that a machine needs, if earlier runs or the benchmarks show it."""
    if began.trial.live:
        return msgspec.structs.replace(began, takes=live_time(began, began.trial.live))
    if began.trial.load_from:  # giving the programs would copy them to the load generator, and the machines refuse that
        return began
    threads = began.machines[0].facts.get("cpu.threads", "")
    facts = FactBook({"cpu.threads": Fact(value=int(threads))} if threads.isdecimal() else {})
    try:
        suite, benchmarks = what_to_measure(app, began.trial)
        tasks = tasks_of(needed_suite(began.trial, suite, benchmarks), benchmarks, facts, began.trial.cpus)
        earlier = newest_runs(app, {task.label for task in tasks})
        run_s = expected_run_seconds(earlier, tasks, began.trial.command, facts)
    except BadInput:  # this machine lacks something; the machines of the fleet report what they lack themselves
        return began
    takes = machine_time(began, run_s, settle_before(began.trial, app.catalog))
    return msgspec.structs.replace(began, takes=takes)


def _unfinished(fleets: StoredFleets, trial: FleetTrial, file: Path) -> FleetStanding | None:
    """Return the newest unfinished trial of `file`, if any. Raise Refused if the file was edited since it began."""
    for name in fleets.names():
        standing = fleets.standing(name)
        if standing.began.trial.name != trial.name or standing.end is not None:
            continue
        if standing.began.sha256 != trial.sha256:
            raise Refused(
                f"{file} was edited after {name} began, and {name} has not ended",
                hint=f"restore the file, or end that trial with `ktrial fleet stop {name} -i INVENTORY`",
            )
        return standing
    return None


def begin_fleet(app: App, ansible: Ansible, trial: FleetTrial) -> FleetBegan:
    """Read the machines' facts, and draw which machine is measured when."""
    hosts = ansible.inventory().hosts
    app.say(f"reading facts of {len(hosts)} machine{'s'[: len(hosts) != 1]}")
    facts: dict[str, Mapping[str, str]] = {}
    left_out: dict[str, str] = {}
    for one in facts_of(ansible, hosts, trial.facts, app.clock.sleep):
        if one is None:
            continue
        host, found, why = one
        if found is None:
            left_out[host] = why
            app.say(f"{host} is left out: {why}")
        else:
            facts[host] = found
    unknown = [name for name in trial.facts if facts and not any(name in one for one in facts.values())]
    if unknown:
        raise BadInput(
            f"no machine has the fact {unknown[0]}",
            hint="name a fact of `ktrial facts`, or a variable of the inventory as inventory.NAME",
        )
    for host, why in (unread_machines(app, trial, facts) if trial.live else {}).items():
        del facts[host]
        left_out[host] = why
        app.say(f"{host} is left out: {why}")
    seed = trial.design.seed if trial.design.seed is not None else secrets.randbelow(2**31)
    arm = next(name for name in (*trial.arms, "") if name != trial.control)
    drawn = draw(trial.fleet, facts, seed, (trial.control, arm))
    return FleetBegan(
        fleet=f"{trial.name}-{secrets.token_hex(3)}",
        trial=trial,
        sha256=trial.sha256,
        seed=seed,
        machines=drawn.machines,
        left_out={**left_out, **drawn.left_out},
        when_idle=app.when_idle,
    )


def _carry_out(
    app: App, fleets: StoredFleets, ansible: Ansible, standing: FleetStanding, folder: Path, *, as_json: bool
) -> int:
    fleet = standing.began.fleet
    if not carry_to_end(app, fleets, ansible, standing, folder, as_json=as_json):
        kept = (
            "all machines have been restored"
            if standing.began.trial.live
            else f"machines finish the blocks that they have and restore everything; "
            f"`ktrial fleet stop {fleet} -i INVENTORY` stops them"
        )
        return app.end_interrupted(f"{kept}; run the same command again to continue")
    found = _print_result(app, fleet, as_json=as_json)
    app.say(f"next: `ktrial fleet report {fleet} -o {fleet}.html` writes a page for others")
    proven = proven_arms(standing.began.trial, found)
    if proven:
        arm = f" --arm {proven[0]}" if len(proven) > 1 else ""
        app.say(f"next: `ktrial fleet rollout {fleet}{arm} -i INVENTORY` keeps {proven[0]} on all machines, in waves")
    return _end_status(found)


def carry_to_end(
    app: App, fleets: StoredFleets, ansible: Ansible, standing: FleetStanding, folder: Path, *, as_json: bool
) -> bool:
    """Carry out a trial from its current state to its end; return False if the user interrupts this command."""
    try:
        with (
            app.interrupts,
            _lease(fleets, standing.began.fleet) as lease,
            _coordinator(app, ansible, standing, lease, folder, as_json=as_json) as coordinator,
        ):
            coordinator.carry_out()
    except KeyboardInterrupt:
        return False
    return True


@contextlib.contextmanager
def _coordinator(
    app: App, ansible: Ansible, standing: FleetStanding, lease: CoordinatorLease, folder: Path, *, as_json: bool
) -> Iterator[Coordinator]:
    began = standing.began

    def find_trial(name: str) -> str | None:
        return _trial_named(app, name)

    machines = (
        live_machines(app, ansible, began, folder, find_trial, lease.fence)
        if began.trial.live
        else AnsibleMachines(ansible, began, folder, fence=lease.fence, find_trial=find_trial)
    )
    listen, tick = _listener(app, standing, as_json=as_json)
    try:
        yield Coordinator(standing, lease, machines, app.clock, app.trials.log, listen, tick)
    finally:
        if isinstance(machines, LiveMachines):
            machines.close()


def _listener(
    app: App, standing: FleetStanding, *, as_json: bool
) -> tuple[Callable[[FleetEvent], None], Callable[[], None]]:
    """Return a function that shows an event, and a function that shows the remaining time between two events."""
    live = LiveLines(lambda text: draw_on(sys.stderr, text), lambda: os.get_terminal_size(sys.stderr.fileno()))
    is_drawn = is_live(sys.stderr, os.environ) and not (as_json and sys.stdout.isatty())

    used: set[int] = set()

    def listen(event: FleetEvent) -> None:
        if as_json:
            sys.stdout.write(plain_json.line(event))
            sys.stdout.flush()
        line, now_ms = event_text(event), app.clock.unix_ms()
        if isinstance(event, MachineStep):
            if event.state == "in-use" and event.place in used:
                line = None  # the wait was shown when it began
            (used.add if event.state == "in-use" else used.discard)(event.place)
        if is_drawn:
            if line is not None:
                live.say(f"{line}\n")
            live.draw(live_lines(standing, now_ms, width=live.columns))
        elif line is not None:
            app.say(f"{line} ({counts_text(standing, now_ms)})")

    def tick() -> None:
        if is_drawn:
            live.draw(live_lines(standing, app.clock.unix_ms(), width=live.columns))

    return listen, tick


def stop_fleet(app: App, name: str | None, chosen: MachineChoice, *, as_json: bool) -> int:
    """Stop a fleet's trial; each machine that is measuring and can be reached restores everything at once."""
    fleets = stored_fleets(app)
    fleet = fleets.find(name)
    standing = fleets.standing(fleet)
    if standing.end is not None:
        app.say(f"{fleet} is over: {standing.end.reason}")
        return 0
    with private_folder() as folder, app.interrupts:
        ansible = _ansible(app, chosen, folder)
        other = fleets.holder_of(fleet)
        with _lease(fleets, fleet, from_others=True) as lease:
            if other is not None:
                app.say(f"{other.text} coordinates {fleet}; waiting until that process notices the stop")
                app.clock.sleep(_NOTICES_S)
            standing = fleets.standing(fleet)
            with _coordinator(app, ansible, standing, lease, folder, as_json=as_json) as coordinator:
                coordinator.stop("stopped by the user")
    return 0


def collect_fleet(app: App, name: str | None, chosen: MachineChoice, *, as_json: bool) -> int:
    """Fetch the runs of machines that were unreachable when the trial ended. Fetch each run only once."""
    fleets = stored_fleets(app)
    fleet = fleets.find(name)
    standing = fleets.standing(fleet)
    if standing.began.trial.live:
        raise BadInput(
            "a live trial has no results to fetch: the store already has all results",
            hint=f"run `ktrial fleet report {fleet}` to see the results",
        )
    late = [
        MachineLook(place, standing.machine(place), step.trial)
        for place, step in sorted(standing.steps.items())
        if step.state != "ended"
    ]
    if not late:
        app.say(f"every machine of {fleet} that began has given its results")
        return show_result(app, fleet, as_json=as_json)
    with private_folder() as folder, app.interrupts, _lease(fleets, fleet) as lease:
        ansible = _ansible(app, chosen, folder)
        with _coordinator(app, ansible, standing, lease, folder, as_json=as_json) as coordinator:
            coordinator.collect(late)
    return show_result(app, fleet, as_json=as_json)


def show_result(app: App, name: str | None, *, as_json: bool) -> int:
    """Print the results of a fleet's trial so far. Raise GuardTripped if a wave stopped the trial."""
    return _end_status(_print_result(app, name, as_json=as_json))


def _print_result(app: App, name: str | None, *, as_json: bool) -> FleetResult:
    found = result_of(app, name)
    write_answer(as_json, lambda: found, lambda width: result_text(found, width=width))
    return found


def write_report(app: App, name: str | None, output: Path | None, *, markdown: bool, force: bool, as_json: bool) -> int:
    """Write a fleet's report as a page for others. Raise GuardTripped if a wave stopped its trial."""
    if as_json or (markdown and output is not None):
        raise BadInput("-o, --markdown and --json exclude each other", hint="use only one of these options")
    if output is not None and output.suffix.lower() not in _PAGES:
        raise BadInput(f"-o {output}: unknown report format", hint=f"name a file that ends in {' or '.join(_PAGES)}")
    check_output(output, force=force)
    from ktrial.fleet.page import fleet_html, fleet_markdown

    fleets = stored_fleets(app)
    standing = fleets.standing(fleets.find(name))
    logs = finished_logs(standing, app.trials.log)
    found = fleet_result(standing, logs)
    made = fleet_html if output is not None and output.suffix.lower() == ".html" else fleet_markdown
    text = made(standing, found, logs, units_of(app, standing))
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text.encode())
        app.say(f"wrote {output}")
    return _end_status(found)


def units_of(app: App, standing: FleetStanding) -> dict[str, Unit]:
    """Return the unit of each outcome, from the first machine that finished; empty if none has finished."""
    first = next(iter(standing.finished.values()), None)
    kept = None if first is None else app.trials.named(first)
    if kept is None:
        return {}
    return {one.name: one.unit for one in load_comparison(app, kept.stored).outcomes}


def _end_status(found: FleetResult) -> int:
    stopped = next((over for over in found.waves if over.decision == "stop"), None)
    if stopped is not None:
        raise GuardTripped(f"wave {stopped.wave} stopped the trial, because {stopped.reason}")
    return 0


def result_of(app: App, name: str | None) -> FleetResult:
    fleets = stored_fleets(app)
    standing = fleets.standing(fleets.find(name))
    return fleet_result(standing, finished_logs(standing, app.trials.log))


def show_status(app: App, name: str | None, *, as_json: bool) -> None:
    fleets = stored_fleets(app)
    fleet = fleets.find(name)
    standing, held = fleets.standing(fleet), fleets.holder_of(fleet)
    now_ms = app.clock.unix_ms()

    def document() -> dict[str, Any]:
        machines = [
            {"host": one.host, "wave": one.wave, "arm": one.arm, "step": standing.steps.get(place)}
            for place, one in enumerate(standing.began.machines)
        ]
        ended = standing.end and standing.end.reason
        holder = held and held.holder
        return {
            "schema": "ktrial.fleet-status/1",
            "fleet": fleet,
            "holder": holder,
            "ended": ended,
            "when_idle": standing.began.when_idle,
            "left_s": seconds_left(standing, now_ms),
            "machines": machines,
        }

    write_answer(as_json, document, lambda width: status_text(standing, held, now_ms, width=width))


def roll_out_fleet(
    app: App,
    name: str | None,
    chosen: MachineChoice,
    *,
    arm: str | None,
    undo: bool,
    anyway: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Keep the proven settings of a fleet's trial on the machines of an inventory, or with `undo` stop keeping them.

    Raise KtrialError if a wave fails.
    """
    fleets = stored_fleets(app)
    standing = fleets.standing(fleets.find(name))
    trial = standing.began.trial
    found = fleet_result(standing, finished_logs(standing, app.trials.log))
    kept = proven_arm(trial, found, arm, anyway=anyway or undo)
    arguments = keep_arguments(trial, kept, "absent" if undo else "present")
    with private_folder() as folder, app.interrupts:
        ansible = _ansible(app, chosen, folder)
        waves = waves_of(standing, tuple(ansible.inventory().hosts))
        count = sum(map(len, waves))
        what = f"{'stop keeping' if undo else 'keep'} {kept} on {count} machine{'s'[: count != 1]}"
        app.say(f"{what}, in {len(waves)} wave{'s'[: len(waves) != 1]}")
        if not yes and is_terminal():
            must_agree(f"{what.capitalize()}?", "aborted; nothing was changed")

        def tell(outcome: WaveOutcome) -> None:
            if as_json:
                sys.stdout.write(plain_json.line({"event": "wave", **outcome._asdict()}))
            app.say(outcome_text(outcome))

        if roll_out(ansible, waves, arguments, trial.fleet.at_once, tell):
            back = "" if undo else f"; `ktrial fleet rollout {standing.began.fleet} --undo -i …` undoes that"
            app.say(f"all machines keep {kept}{back}" if not undo else f"no machine keeps {kept} any more")
            return 0
    raise KtrialError(f"cannot {what}: a wave failed, and the roll-out stopped", hint="repair the machines that failed")


def stored_fleets(app: App) -> StoredFleets:
    return StoredFleets(lambda: app.store.database)


def _trial_named(app: App, name: str) -> str | None:
    """Return the newest trial in the store whose protocol has this name; None without one."""
    return next((one.trial for one in app.trials.all(name)), None)


def _ansible(app: App, chosen: MachineChoice, folder: Path) -> Ansible:
    if not app.on_this_machine:
        option = "--machine-root" if app.host is None else "--host"
        raise BadInput(f"{option}: the inventory names the machines of a fleet", hint=f"leave out {option}")
    return ansible_of(app, chosen, folder)


def ansible_of(app: App, chosen: MachineChoice, folder: Path) -> Ansible:
    """Return Ansible for these machines. Raise BadInput if no inventory is given."""
    if not chosen.inventory:
        raise BadInput("no inventory given", hint="add -i INVENTORY, as for ansible-playbook")
    program = (sys.executable, "-I", "-m", "ktrial")
    store = app.store_path or str(state_folder() / "results.db")
    return Ansible(chosen.inventory, program, folder, limit=chosen.limit, forks=chosen.forks, store=store)


@contextlib.contextmanager
def _lease(fleets: StoredFleets, fleet: str, *, from_others: bool = False) -> Iterator[CoordinatorLease]:
    """Take the lease of a trial, and release it at the end for other coordinators."""
    lease = fleets.take(fleet, this_writer(), from_others=from_others)
    try:
        yield lease
    finally:
        with contextlib.suppress(KtrialError):  # the database may be unreachable; the lease then expires by itself
            lease.let_go()


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    place = state_folder() / "fleets"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)

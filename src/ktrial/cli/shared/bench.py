# SPDX-License-Identifier: Apache-2.0
"""What `ktrial bench` needs beside its options: own commands as benchmarks, progress, events, the result file."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from ktrial.cli.shared.command_environment import shell_environment
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.streams import tell

if TYPE_CHECKING:
    from ktrial.cli.app import App

if TYPE_CHECKING:
    from ktrial.bench.benchmark import Benchmark
    from ktrial.bench.command_benchmark import OwnBenchmark, ShellCommand
    from ktrial.bench.environment import PassedEnvironment
    from ktrial.bench.events import Event, Result
    from ktrial.bench.record import RunRecord
    from ktrial.bench.schedule import Order
    from ktrial.bench.suite import Suite, SuiteLoad
    from ktrial.cli.app import App
    from ktrial.cli.app_guest import GuestHost
    from ktrial.machine.facts import FactBook
    from ktrial.machine.gates import GateLimits

#: Seconds for a run of an own command, unless --limit says otherwise.
_LIMIT_S = 3600.0
_OWN_WORDS = "ktrial.own-words"
#: What --settle alone means.
SETTLE_LIMIT = "10m"


class TakesCommand(click.Command):
    """A command that keeps the words after `--` apart."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the pieces with `-- CMD`, which is not an argument to click."""
        pieces = super().collect_usage_pieces(ctx)
        return pieces if any("CMD" in piece for piece in pieces) else [*pieces, "[-- CMD…]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words after `--` away before click sees them."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_OWN_WORDS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


class TakesSettle(TakesCommand):
    """Also one whose --settle may stand without a value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give it its value; words after `--` are the command's own."""
        end = args.index("--") if "--" in args else len(args)
        own = [f"--settle={SETTLE_LIMIT}" if word == "--settle" else word for word in args[:end]]
        return super().parse_args(ctx, [*own, *args[end:]])


def own_words(ctx: click.Context) -> tuple[str, ...] | None:
    """Return the words after `--`; None when there was none."""
    words: tuple[str, ...] | None = ctx.meta.get(_OWN_WORDS)
    return words


def program_of(word: str) -> Path:
    """Return the file of a program that the user named. Raises BadInput."""
    found = shutil.which(word)
    if found is None:
        raise BadInput(f"no program {word!r} can be run", hint="give its path, or a name that is in PATH")
    return Path(found).parent.resolve() / Path(found).name


def own_benchmark(
    words: Sequence[str], metrics: Sequence[str], limit_s: float, shell: PassedEnvironment
) -> ShellCommand:
    """Return the user's command, run where the user stands with the shell's variables."""
    from ktrial.bench.command_benchmark import ShellCommand, parse_metric

    if not words:
        raise BadInput("no command after --", hint="for example  ktrial bench -n 5 -- make -j4")
    program = program_of(words[0])
    name = re.sub(r"[^a-z0-9]+", "-", Path(words[0]).name.lower()).strip("-") or "command"
    own = ShellCommand(
        name=name,
        what=" ".join(words),
        argv=(str(program), *words[1:]),
        directory=str(Path.cwd()),
        environment=shell.environment,
        told=shell.told,
        limit_s=limit_s,
        metric=tuple(parse_metric(metric) for metric in metrics),
    )
    own.check()
    return own


def choose(
    app: App,
    suite: str | None,
    words: tuple[str, ...] | None,
    metrics: tuple[str, ...],
    limit_s: float | None,
    *,
    clean: bool = False,
) -> tuple[Suite, dict[str, Benchmark]]:
    """Return what the words of the command line name: a suite, one benchmark, or a command of the user's."""
    from ktrial.bench.suites import find_suite

    if (suite is None) == (words is None):
        raise BadInput(
            "nothing to measure" if suite is None else "either a suite or a command after --, not both",
            hint="`ktrial bench --list` lists suites; any command:  ktrial bench -n 5 -- CMD",
        )
    if words is not None:
        shell = shell_environment(app, clean=clean or app.host is not None)
        own: OwnBenchmark = own_benchmark(words, metrics, _LIMIT_S if limit_s is None else limit_s, shell)
        if app.host is not None:
            own = _in_guest(app, app.host, own)
            if not clean:
                app.say("nothing of the shell's environment is passed into a guest; --env NAME passes a variable")
        return find_suite(own.name, {}, {own.name: own}), {own.name: own}
    if limit_s is not None:
        raise BadInput("--limit is for a command after --", hint="benchmarks have limits of their own; leave it out")
    if clean:
        raise BadInput(
            "--clean-env is for a command after --", hint="benchmarks have a clean environment; leave it out"
        )
    if metrics:
        raise BadInput("--metric reads the output of a command after --", hint="put it after --, or leave --metric out")
    refuse_faulty(app, suite or "")
    warn_of_faulty(app)
    give_programs_of(app, suite)
    return find_suite(suite or "", app.suites, app.benchmarks), app.benchmarks


def give_programs(app: App, benchmarks: Sequence[Benchmark], load: SuiteLoad | None = None) -> None:
    """Have a guest that boots for this command bring the programs that these need."""
    from ktrial.trial.guests.guest_visit import needs_disk
    from ktrial.trial.guests.programs import looked_for

    if app.host is None or app.host.is_kept:
        return
    wanted = looked_for(benchmarks, load)
    disk = any(needs_disk(one.parameters) for one in benchmarks)
    app.host.give(programs_here(app, wanted) if wanted else {}, disk=disk)


def give_programs_of(app: App, suite: str | None) -> None:
    """The same for a suite or a benchmark by its name, before anything is asked of the guest."""
    from ktrial.bench.suites import find_suite

    if app.host is not None and suite:
        found = find_suite(suite, app.suites, app.benchmarks)
        give_programs(app, [app.benchmarks[one.use] for one in found.benchmark], found.load)


def _in_guest(app: App, host: GuestHost, own: OwnBenchmark) -> OwnBenchmark:
    """Return the same where its program lies in the guest. Raises BadInput if the guest has it not."""
    import msgspec

    from ktrial.bench.guest_tools import guest_path
    from ktrial.guests.program import DIRECTORY, ENVIRONMENT

    program, *rest = own.argv
    place = guest_path(program)
    if not host.is_kept:
        host.give({program: program})
    if app.executor.programs([place])[place] is None:
        raise not_in_guest(program)
    return msgspec.structs.replace(own, argv=(place, *rest), directory=DIRECTORY, environment=ENVIRONMENT)


def not_in_guest(program: str, why: str = "") -> BadInput:
    """That a guest has not this program of this machine."""
    return BadInput(
        f"{program.rpartition('/')[2]} is not in the guest{why}",
        hint=f"`ktrial kernel boot KERNEL --keep NAME --tool {program}` keeps one that has it",
    )


def refuse_faulty(app: App, name: str) -> None:
    """Raise what is wrong with the user's own file of the suite or benchmark of that name, if anything is."""
    for one in app.faulty:
        if one.name == name:
            raise one.error


def warn_of_faulty(app: App) -> None:
    """Name the files of own suites and benchmarks that cannot be used."""
    for one in app.faulty:
        app.say(f"skipped: {one.error.message}")


def order_of(
    app: App,
    suite: Suite,
    benchmarks: dict[str, Benchmark],
    facts: FactBook,
    *,
    runs: int,
    cpus: str | None,
    seed: int | None,
    gates: Sequence[str],
    label: str | None,
    fresh: bool,
    environment: Mapping[str, str],
) -> Order:
    """What is to be measured, and by which limits it is judged; `gates` (NAME=LIMIT) go before those of the suite."""
    from ktrial.bench.schedule import Order
    from ktrial.bench.suites import tasks_of

    unplaced: dict[str, BadInput] = {}
    cpus = cpus_here(app, facts, cpus)
    return Order(
        suite=suite.name,
        tasks=tasks_of(suite, benchmarks, facts, cpus, unplaced),
        unplaced=unplaced,
        rounds=runs,
        seed=secrets.randbelow(2**32) if seed is None else seed,
        drawn=seed is None,
        fresh=fresh,
        label=label,
        load=suite.load,
        gates=limits_of(suite, gates),
        sample_period_s=suite.sample_period_s,
        environment=environment,
    )


def cpus_here(app: App, facts: FactBook, cpus: str | None) -> str | None:
    """Those that were named, or else those that were left to this process, which is said; None if that is all."""
    if cpus is None and app.host is None and (cpus := cpus_left(facts)) is not None:
        app.say(
            f"it was started with CPUs {cpus} alone (taskset, a cpuset): all runs are on them, as with --cpus {cpus}"
        )
    return cpus


def cpus_left(facts: FactBook) -> str | None:
    """Return the CPUs that whoever started this left to it, and so to all runs; None if that is all of them."""
    online, left = frozenset(facts.value("cpu.online") or ()), os.sched_getaffinity(0)
    return ",".join(map(str, sorted(left & online))) if online and not online <= left else None


def limits_of(suite: Suite, gates: Sequence[str]) -> dict[str, GateLimits]:
    """Return the suite's limits with those of the command line in their place."""
    from ktrial.machine.gates import parse_gates

    given: dict[str, Any] = {}
    for text in gates:
        name, equals, limit = text.partition("=")
        if not equals:
            raise BadInput(f"cannot read --gate {text!r}", hint="write NAME=LIMIT: start_temperature=8C, swap=off")
        given[name.strip()] = _limit(name.strip(), limit.strip())
    return parse_gates({**suite.gates, **given})


def _limit(gate: str, text: str) -> Any:
    """Return a limit as it stands, or the table of TOML that sets both."""
    import tomllib

    if not text.startswith("{"):
        return text
    try:
        return tomllib.loads(f"limit = {text}")["limit"]
    except tomllib.TOMLDecodeError:
        raise BadInput(
            f"--gate {gate}: {text!r} is not a table", hint='write { suspect = "1%", refuse = "5%" }'
        ) from None


def list_benchmarks(app: App, tools: str | None, as_json: bool) -> int:
    """Show all benchmarks and suites, and what can run here."""
    from ktrial.bench.availability import examine
    from ktrial.bench.text import list_text
    from ktrial.cli.options import write_json
    from ktrial.kit.tables import columns

    warn_of_faulty(app)
    give_programs(app, list(app.benchmarks.values()))
    found = examine(app.benchmarks.values(), app.executor_in(tools))
    if as_json:
        write_json({"schema": "ktrial.benchmarks/1", "benchmarks": found, "suites": list(app.suites.values())})
        return 0
    rows = [(one.benchmark, one.what, one.why, one.next) for one in found]
    ready = {one.benchmark: one.ready for one in found}
    sys.stdout.write(list_text(rows, app.suites, ready, width=columns()))
    return 0


class BenchProgress:
    """One line per run on stderr, as good in a log file as on a terminal; with `as_json` also events on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the line of a run that was begun, so that an error's message has its own."""
        if self._open:
            self._write(" not kept\n")

    def __call__(self, event: Event) -> None:
        from ktrial.bench import events
        from ktrial.bench import text as bench
        from ktrial.kit.tables import columns

        if isinstance(event, events.Began):
            expected = "" if event.expected_s is None else f", about {bench.duration(event.expected_s)}"
            self._write(f"{event.session.suite}: {bench.runs(event.runs)}{expected}; kept in {event.where}\n")
            if event.done:
                self._write(f"goes on with what was interrupted: {bench.runs(event.done)} done\n")
            for hole in event.missing:
                self._write(f"skipped: {hole.benchmark}: {hole.why}\n")
            self._write(bench.circumstances(event.session, width=columns()))
        elif isinstance(event, events.Waiting):
            self._write(f"waiting for an idle machine; in use: {event.used}\n")
        elif isinstance(event, events.Settles):
            self._write(f"{event.waiting}\n")
        elif isinstance(event, events.RunBegan):
            least = event.left_is_least
            self._write(bench.run_begins(event.place, event.runs, event.benchmark, event.left_s, least=least))
            self._open = True
        elif isinstance(event, events.BenchRunEnded):
            self._write(bench.run_ends(event.record, event.so_far) + "\n")
            self._open = False
        elif self._open:
            self._write(" interrupted\n")
            self._open = False
        if self._as_json:
            from ktrial.kit import plain_json

            tell(sys.stdout, plain_json.line(event))

    def _write(self, text: str) -> None:
        tell(sys.stderr, text)


def refuse_around(suite: Suite, given: Mapping[str, bool]) -> None:
    """Raise BadInput for what is done around runs: nothing disturbs an exact guest, and nothing is put back in it."""
    from ktrial.bench.suite import Between

    named = next((option for option, is_given in given.items() if is_given), None)
    if named is None and suite.between != Between():
        named = f"the suite {suite.name}"
    if named is not None:
        raise BadInput(
            f"{named}: nothing is waited for, or put back, around runs in an exact guest",
            hint="leave it out; `ktrial kernel trial` boots an exact guest for each visit",
        )


def check_output(path: Path | None, *, force: bool) -> None:
    """Raise BadInput before anything is done when the result could not be put there, or would replace something."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise BadInput(f"-o {path}: no such folder, or a folder itself", hint="name a file in a folder that is there")
    if path.exists() and not path.is_file():
        raise BadInput(f"-o {path}: a device, a pipe or a socket", hint="name a file: it is put in place as a whole")
    if path.exists() and not force:
        raise BadInput(f"-o {path}: the file exists already", hint="--force overwrites it")


def write_result(path: Path, result: Result, records: Sequence[RunRecord]) -> None:
    """`ktrial.bench/1`: the summary and all run records, in one file put in place in one step."""
    import msgspec

    from ktrial.kit import plain_json

    document = {"schema": "ktrial.bench/1", **msgspec.to_builtins(result), "runs": records}
    document.pop("event")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(plain_json.document(document))
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise KtrialError(
            f"cannot write {path}: {error.strerror}", hint=f"the runs are kept in {result.where}"
        ) from None


def programs_here(app: App, names: Iterable[str]) -> dict[str, str | None]:
    """Return where programs are on this machine, whatever the host; None if one is not here."""
    from ktrial.agent.binary import find_agent
    from ktrial.agent.transport import DetachedTransport
    from ktrial.bench.run.executor import AgentExecutor

    here = [str(find_agent()), "serve", "--role", "user"]
    executor = AgentExecutor(lambda: DetachedTransport(here), app.measuring_place.work, None, app.tools.box)
    try:
        return executor.programs(names)
    finally:
        executor.close()

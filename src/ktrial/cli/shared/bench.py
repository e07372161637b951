# SPDX-License-Identifier: Apache-2.0
"""What `ktrial bench` and trials share: commands as benchmarks, gates, progress and the result file."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Self

import click

from ktrial.cli.shared.command_environment import shell_environment
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.streams import tell

if TYPE_CHECKING:
    from ktrial.bench.around.around_run import Around
    from ktrial.bench.benchmark import Benchmark
    from ktrial.bench.command_benchmark import OwnBenchmark, ShellCommand
    from ktrial.bench.environment import PassedEnvironment
    from ktrial.bench.events import Event, Result
    from ktrial.bench.record import RunRecord
    from ktrial.bench.schedule import Order
    from ktrial.bench.suite import Suite, SuiteLoad
    from ktrial.cli.app import App
    from ktrial.cli.hosts import Host
    from ktrial.machine.facts import FactBook
    from ktrial.machine.gates import GateLimits

#: Time limit of a run of the command after --, unless --limit sets another.
_LIMIT_S = 3600.0
_OWN_WORDS = "ktrial.own-words"
#: The value of --settle without a value.
SETTLE_LIMIT = "10m"


class TakesCommand(click.Command):
    """A click command that stores the words after `--` separately."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add `-- CMD` to the usage line, because click does not know it as an argument."""
        pieces = super().collect_usage_pieces(ctx)
        return pieces if any("CMD" in piece for piece in pieces) else [*pieces, "[-- CMD…]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the words after `--` before click sees them."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_OWN_WORDS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


class TakesSettle(TakesCommand):
    """A `TakesCommand` whose option --settle may have no value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the default value to a bare `--settle`, except after `--`."""
        end = args.index("--") if "--" in args else len(args)
        own = [f"--settle={SETTLE_LIMIT}" if word == "--settle" else word for word in args[:end]]
        return super().parse_args(ctx, [*own, *args[end:]])


def own_words(ctx: click.Context) -> tuple[str, ...] | None:
    words: tuple[str, ...] | None = ctx.meta.get(_OWN_WORDS)
    return words


def program_of(word: str) -> Path:
    """Return the path of a program that the user named. Raise BadInput if it is missing or not executable."""
    found = shutil.which(word)
    if found is None:
        if "/" not in word:
            hint = "give the program's path, or install it in a folder of PATH"
            raise BadInput(f"{word}: no such program", hint=hint)
        if Path(word).is_file():
            raise BadInput(f"cannot run {word}: it is not executable", hint=f"chmod +x {quote(word)}")
        raise BadInput(f"{word}: no such program", hint="check the path")
    return Path(found).parent.resolve() / Path(found).name


def own_benchmark(
    words: Sequence[str],
    metrics: Sequence[str],
    limit_s: float,
    shell: PassedEnvironment,
    steps: Sequence[tuple[str, ...]] = (),
    warm_ups: int = 0,
    find: Callable[[str], Path] = program_of,
) -> ShellCommand:
    """Return the user's command as a benchmark that runs in the current folder with the shell's variables.

    Before each run the commands `steps` run in the same way.
    """
    from ktrial.bench.command_benchmark import ShellCommand, parse_metric

    if not words:
        raise BadInput("no command after --", hint="write the command to measure after --, for example  -- make -j4")
    program = find(words[0])
    name = re.sub(r"[^a-z0-9]+", "-", Path(words[0]).name.lower()).strip("-") or "command"
    own = ShellCommand(
        name=name,
        what=" ".join(words),
        argv=(str(program), *words[1:]),
        directory=str(Path.cwd()),
        environment=shell.environment,
        told=shell.told,
        limit_s=limit_s,
        prepare=tuple((str(find(step[0])), *step[1:]) for step in steps),
        warm_ups=warm_ups,
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
    steps: Sequence[tuple[str, ...]] = (),
    warm_ups: int = 0,
) -> tuple[Suite, dict[str, Benchmark]]:
    """Return the suite to measure and its benchmarks: a named suite, or one made of a benchmark or command."""
    from ktrial.bench.suites import find_suite
    from ktrial.cli.app_load import benchmarks_of, refuse_command

    if (suite is None) == (words is None):
        raise BadInput(
            "nothing to measure" if suite is None else "cannot combine a suite with a command after --",
            hint="name either a suite from `ktrial bench --list`, or a command after --",
        )
    if words is not None:
        refuse_command(app)
        host = app.host
        shell = shell_environment(app, clean=clean or host is not None)
        most_s = _LIMIT_S if limit_s is None else limit_s
        find = program_of if host is None or host.guest_tools is not None else host.program_of
        own: OwnBenchmark = own_benchmark(words, metrics, most_s, shell, steps, warm_ups, find)
        if host is not None:
            own = _elsewhere(app, host, own)
            if not clean:
                app.say(f"{host.called} gets none of the shell's variables; --env NAME passes one")
        return find_suite(own.name, {}, {own.name: own}), {own.name: own}
    _refuse_options_of_command(
        {
            "--limit": limit_s is not None,
            "--clean-env": clean,
            "--metric": bool(metrics),
            "--prepare": bool(steps),
            "--warmup": bool(warm_ups),
        }
    )
    refuse_faulty(app, suite or "")
    warn_of_faulty(app)
    found = find_suite(suite or "", app.suites, app.benchmarks)
    give_programs(app, [app.benchmarks[one.use] for one in found.benchmark], found.load)
    return found, benchmarks_of(app, found)


def _refuse_options_of_command(given: Mapping[str, bool]) -> None:
    known = {
        "--limit": "leave out --limit: benchmarks have their own limits",
        "--clean-env": "leave out --clean-env: benchmarks always get a clean environment",
    }
    for option, is_given in given.items():
        if is_given:
            hint = known.get(option, f"leave out {option}, or measure a command (-- CMD) instead of a suite")
            raise BadInput(f"{option} requires a command after --", hint=hint)


def give_programs(app: App, benchmarks: Sequence[Benchmark], load: SuiteLoad | None = None) -> None:
    """Put the programs that these benchmarks need into a guest before it boots; do nothing for any other host."""
    from ktrial.trial.guests.guest_visit import needs_disk
    from ktrial.trial.guests.programs import looked_for

    if app.host is None or app.host.is_kept:
        return
    names = looked_for(benchmarks, load)
    disk = any(needs_disk(one.parameters) for one in benchmarks)
    app.host.give(programs_here(app, names) if names else {}, disk=disk)


def give_programs_of(app: App, suite: str | None) -> None:
    """Call `give_programs` for the suite or benchmark with this name."""
    from ktrial.bench.suites import find_suite

    if app.host is not None and suite:
        found = find_suite(suite, app.suites, app.benchmarks)
        give_programs(app, [app.benchmarks[one.use] for one in found.benchmark], found.load)


def _elsewhere(app: App, host: Host, own: OwnBenchmark) -> OwnBenchmark:
    """Return the benchmark as it runs on the host: in the user's home there, or with its paths in the guest.

    Raise BadInput if the guest lacks a program.
    """
    import msgspec

    from ktrial.bench.guest_tools import guest_path
    from ktrial.guests.program import DIRECTORY, ENVIRONMENT

    if host.guest_tools is None:
        return msgspec.structs.replace(own, directory=host.home, environment=host.environment)
    places = {program: guest_path(program) for program in own.needs}
    if not host.is_kept:
        host.give({program: program for program in places})
    there = app.executor.programs(places.values())
    if missing := [program for program, place in places.items() if there[place] is None]:
        raise not_in_guest(missing[0])
    argv, *steps = ((places[words[0]], *words[1:]) for words in (own.argv, *own.prepare))
    return msgspec.structs.replace(own, argv=argv, prepare=tuple(steps), directory=DIRECTORY, environment=ENVIRONMENT)


def not_in_guest(program: str, why: str = "") -> BadInput:
    return BadInput(
        f"the guest lacks {program.rpartition('/')[2]}{why}",
        hint=f"use --host guest:NAME, after `ktrial kernel boot KERNEL --keep NAME --tool {program}`",
    )


def refuse_faulty(app: App, name: str) -> None:
    """Raise the error that ktrial found in the user's file of this suite or benchmark, if any."""
    for one in app.faulty:
        if one.name == name:
            raise one.error


def warn_of_faulty(app: App) -> None:
    """Report the user's suite and benchmark files that ktrial cannot use."""
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
    """Return what to measure and with which limits; `gates` (NAME=LIMIT) override the limits of the suite."""
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
        gates=limits_of(suite, gates, phone=facts.value("os.android") is True, has_generator=app.generator is not None),
        sample_period_s=suite.sample_period_s,
        environment=environment,
    )


def cpus_here(app: App, facts: FactBook, cpus: str | None) -> str | None:
    """Return `cpus` or, without `cpus` and --host, the CPUs that this process is confined to (None: not confined)."""
    if cpus is None and app.host is None and (cpus := cpus_left(facts)) is not None:
        app.say(f"ktrial is confined to CPUs {cpus} (taskset or cpuset): all runs use them, as with --cpus {cpus}")
    return cpus


def cpus_left(facts: FactBook) -> str | None:
    """Return the CPUs that this process is confined to, or None if it may use all online CPUs."""
    online, left = frozenset(facts.value("cpu.online") or ()), os.sched_getaffinity(0)
    return ",".join(map(str, sorted(left & online))) if online and not online <= left else None


def limits_of(
    suite: Suite, gates: Sequence[str], *, phone: bool = False, has_generator: bool = False
) -> dict[str, GateLimits]:
    """Return the suite's limits, overridden by the limits on the command line."""
    from ktrial.machine.gates import parse_gates

    given: dict[str, Any] = {}
    for text in gates:
        name, equals, limit = text.partition("=")
        if not equals:
            raise BadInput(
                f"cannot read --gate {text!r}", hint="use NAME=LIMIT, such as start_temperature=8C or swap=off"
            )
        given[name.strip()] = _limit(name.strip(), limit.strip())
    return parse_gates({**suite.gates, **given}, phone=phone, has_generator=has_generator)


def _limit(gate: str, text: str) -> Any:
    """Return the limit as text, or as a table if it is a TOML table with both limits of a gate."""
    import tomllib

    if not text.startswith("{"):
        return text
    try:
        return tomllib.loads(f"limit = {text}")["limit"]
    except tomllib.TOMLDecodeError:
        raise BadInput(
            f"--gate {gate}: expected a TOML table, got {text!r}", hint='for example  { suspect = "1%", refuse = "5%" }'
        ) from None


def list_benchmarks(app: App, tools: str | None, as_json: bool) -> int:
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
    """Writes one line per run to stderr; with `as_json` also events to stdout. Asks before a long measurement."""

    def __init__(self, app: App, *, as_json: bool) -> None:
        from ktrial.cli.shared.long_runs import LongRunQuestion

        self._question = LongRunQuestion(app, ask=not as_json)
        self._as_json = as_json
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the line of an unfinished run, so that an error message starts on a new line."""
        if self._open:
            self._write(" discarded\n")

    def __call__(self, event: Event) -> None:
        from ktrial.bench import events
        from ktrial.bench import text as bench
        from ktrial.kit.tables import columns

        if isinstance(event, events.Began):
            expected = "" if event.expected_s is None else f", about {bench.duration(event.expected_s)}"
            self._write(f"{event.session.suite}: {bench.runs(event.runs)}{expected}; saved in {event.where}\n")
            if event.done:
                self._write(f"resuming: {bench.runs(event.done)} already done\n")
            for hole in event.missing:
                self._write(f"skipped: {hole.benchmark}: {hole.why}\n")
            self._write(bench.circumstances(event.session, width=columns()))
            self._question.expect(event.expected_s)
        elif isinstance(event, events.Waiting):
            self._write(f"waiting for an idle machine; in use: {event.used}\n")
        elif isinstance(event, events.Settles):
            self._write(f"{event.waiting}\n")
        elif isinstance(event, events.RunBegan):
            least = event.left_is_least
            kept = "aborted; run the same command again to continue from the finished runs"
            self._question.expect(None if least else event.left_s, kept)
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


def around_runs(app: App, suite: Suite, order: Order, settle_s: float | None) -> Around:
    """Return what ktrial does before and after each run. Report load that disturbs the runs."""
    from ktrial.bench.around.around_run import surroundings
    from ktrial.cli.app_here import say_load

    say_load(app.looking_session, app.say, when_idle=app.when_idle)
    return surroundings(app, suite, order, when_idle=app.when_idle, settle_s=settle_s)


def refuse_around(suite: Suite, given: Mapping[str, bool]) -> None:
    """Raise BadInput if exact guests cannot do what the suite or an option in `given` requires between runs."""
    from ktrial.bench.suite import Between

    culprit = next((option for option, is_given in given.items() if is_given), None)
    hint = f"leave out {culprit}"
    if culprit is None and suite.between != Between():
        culprit = f"the suite {suite.name}"
        hint = "name another suite, or use `ktrial kernel trial`, which boots an exact guest for each measurement"
    if culprit is not None:
        raise BadInput(f"{culprit}: an exact guest cannot wait or restore anything between runs", hint=hint)


def check_output(path: Path | None, *, force: bool, option: str = "-o") -> None:
    """Raise BadInput, before any work, if `path` is no place for a file, or is a file and `force` is not given."""
    if path is None:
        return
    if path.is_dir():
        raise BadInput(f"{option} {path}: expected a file, got a folder", hint="add the name of a file")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"{option} {path}: no folder {path.parent}", hint="create the folder, or name another file")
    if path.exists() and not path.is_file():
        raise BadInput(
            f"{option} {path}: expected a regular file, got a device, pipe or socket", hint="choose another name"
        )
    if path.exists() and not force:
        raise BadInput(
            f"{option} {path}: file exists", hint="choose another name, or add --force to overwrite the file"
        )


def check_picture(path: Path | None, *, force: bool) -> None:
    """Raise BadInput, before any work, if `path` does not end in .svg or .png, or cannot be written."""
    if path is not None and path.suffix.lower() not in {".svg", ".png"}:
        raise BadInput(f"-o {path}: unknown picture format", hint="name a file that ends in .svg or .png")
    check_output(path, force=force)


def write_result(path: Path, result: Result, records: Sequence[RunRecord]) -> None:
    """Write the summary and all run records as `ktrial.bench/1`; replace `path` in one step."""
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
            f"cannot write {path}: {error.strerror}",
            hint=f"make room in {path.parent} or make that folder writable; the runs are saved in {result.where}",
        ) from None


def programs_here(app: App, names: Iterable[str]) -> dict[str, str | None]:
    """Return the paths of these programs on this machine, even with --host; None for a missing program."""
    from ktrial.agent.binary import find_agent
    from ktrial.agent.transport import DetachedTransport
    from ktrial.bench.run.executor import AgentExecutor

    here = [str(find_agent()), "serve", "--role", "user"]
    executor = AgentExecutor(lambda: DetachedTransport(here), app.measuring_place.work, None, app.tools.box)
    try:
        return executor.programs(names)
    finally:
        executor.close()


def finish_bench(app: App, result: Result, records: Sequence[RunRecord], output: Path | None, *, as_json: bool) -> int:
    from ktrial.bench.text import findings_text, holes_text, summary_text
    from ktrial.kit.tables import columns

    if output is not None:
        write_result(output, result, records)
    if not as_json and result.summaries:
        sys.stdout.write(summary_text(result.summaries, width=columns()))
        sys.stdout.flush()
    sys.stderr.write(findings_text(result.findings, width=columns()))
    holes = [(hole.benchmark, hole.why, hole.next) for hole in result.holes]
    sys.stderr.write(holes_text(result.wanted, result.complete, holes, width=columns()))
    if result.interrupted:
        count = "1 run is" if len(records) == 1 else f"{len(records)} runs are"
        return app.end_interrupted(f"{count} saved in {result.where}; run the same command again to continue")
    return 1 if holes else 0

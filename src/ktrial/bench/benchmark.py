# SPDX-License-Identifier: Apache-2.0
"""The interface of a benchmark: what it declares, how to run it, and what a run returns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.machine.facts import FactBook

Parameters = Mapping[str, Any]

#: Folders in which a benchmark's bare program name is looked up, in this order; PATH is never used. The last two hold
#: Android's own programs, and programs that a person copied to a phone.
PROGRAM_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/system/bin", "/data/local/tmp")
#: Environment of every run; a benchmark adds its own variables.
PINNED = {"PATH": ":".join(PROGRAM_FOLDERS), "LC_ALL": "C", "TZ": "UTC"}
#: How many lines of stderr a failed run quotes: the last of the most telling lines.
QUOTED_LINES = 3
#: How many of the last bytes of stdout to quote from, if a tool reports its failure there.
QUOTED_BYTES = 500
#: Address on which the server of a run's own network listens.
SERVER_ADDRESS = "198.51.100.1"
#: Lines that do not say what went wrong: the last lines of each make above the failing one, and rulers.
_NOT_TELLING = re.compile(r"make(\[\d+\])?: \*\*\* (\[.*\] Error \d+|Waiting for unfinished jobs.*)|\W*")
#: Words of the most telling lines, best first: a full disk, then errors of the linker, the compiler and make.
_WORST = ("No space left on device", "undefined reference to", ": fatal error: ", ": error: ", ": *** ")
#: Where distributions keep versions of a server side by side: searched before PROGRAM_FOLDERS, highest version first.
VERSIONED_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
#: Stands for the run's private directory in argv, environment and load parameters. Records keep this word, so that they
#: are the same for each run.
DIRECTORY = "{directory}"
#: Placeholders in a run whose load comes from another machine: the server's address, its port, both as in a URL, and a
#: password of the run. Records keep the placeholders.
ADDRESS, PORT, AUTHORITY, SECRET = "{address}", "{port}", "{authority}", "{secret}"
#: Parameter of a benchmark whose load comes from another machine: what identifies that machine.
GENERATOR_PARAMETER = "generator"
#: Parameters that place the tasks of a benchmark on CPUs; the values lie within the CPUs chosen for it.
CPU_PARAMETERS = ("cpu", "other_cpu")
#: Parameter of a benchmark that keeps its CPUs busy: the number of parallel tasks; 0 means one per usable CPU.
JOBS_PARAMETER = "jobs"
#: File of a run that holds what its invocation `watches`.
WATCHED = "watched.json"
#: Files of a run whose invocation `records`: the recording or why there is none, and its phases.
RECORDING = "recording.ktr"
RECORDING_FAILED = "recording-failed"
PHASES = "phases.json"


class RawOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of one execution.

    For the agent's own loads, `stdout` is what the agent answered, as JSON. `exit_status` is None if a signal ended
    the program, or if the program did not start (`failed` then says why). `interrupted` means that the user ended the
    run. The resource fields cover this run alone and are None if they do not apply. `cut` means that ktrial captured
    only the beginning of a stream or file; `unread` names a file that ktrial cannot read, and why. `network` describes
    the run's own network as the agent read it back. `load_failed` says why another machine did not send the whole
    load.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    files: Mapping[str, bytes] = {}
    exit_status: int | None = None
    signal: int | None = None
    failed: str | None = None
    timed_out: bool = False
    interrupted: bool = False
    cut: bool = False
    unread: str | None = None
    wall_ns: int | None = None
    user_us: int | None = None
    system_us: int | None = None
    max_rss_bytes: int | None = None
    network: Mapping[str, Any] | None = None
    load_failed: str | None = None


class ParsedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one run.

    `tool_version` is the version in the output, if any. `details` holds plain JSON values besides the outcomes, for
    example a merged histogram `{"histogram_ns": {"1023": 17}}`. `notes` are sentences about doubts.
    """

    measurements: tuple[Measurement, ...]
    tool_version: str | None = None
    details: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()


class AgentLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load that the agent runs itself (request `load`). A load with `as_root` needs a root session.

    With `data`, the load works on the first `parameters["bytes"]` bytes of that regular file, which ktrial reads with
    the user's rights.
    """

    name: str
    parameters: Mapping[str, Any] = {}
    as_root: bool = False
    data: str | None = None


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Two network namespaces with a link between them. The run is in one namespace, its `server` in the other.

    `link` may set congestion, qdisc, delay_us, loss_ppm, rate_bytes_per_s and limit_packets; the agent has a default
    for each. The agent starts `server` first, and the run when the server listens on TCP port `port` of SERVER_ADDRESS.
    The server ends with the run.
    """

    link: Mapping[str, Any] = {}
    server: tuple[str, ...]
    port: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A command that must succeed before a run. It has the run's directory, environment and user.

    A step with `ready` is a server, which stays until the run has ended. After starting it, ktrial repeats the
    command `ready` for up to `limit_s` seconds until it exits with status 0. A server that ends early fails the
    run.
    """

    argv: tuple[str, ...]
    limit_s: float = 60.0
    ready: tuple[str, ...] = ()
    stdin: bytes = b""
    cpus: tuple[int, ...] | None = None


class GeneratorPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a load generator, another machine, does in a run: first its `steps`, then the invocation's argv.

    `reach` is a command that exits with status 0 on the generator if the server answers. `threads` is the number of
    threads that send.
    """

    reach: tuple[str, ...]
    threads: int
    steps: tuple[Step, ...] = ()
    environment: Mapping[str, str] = {}


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How to run something once. A run gets a fresh private directory, and begins there or in `directory` if set.

    The first word of `argv` is an absolute path, or a name to look up in VERSIONED_FOLDERS and PROGRAM_FOLDERS. The run
    gets `environment` besides the pinned variables; the record has the text in `told` in place of a variable's value.
    After `limit_s` seconds the agent kills the run and its children. `cpus` pins the run. `files` are names in the
    private directory to collect after the run; `*` matches anything, and missing files are skipped.

    An invocation with `load` has no argv. `steps` run first. The first `warm_ups` runs of a measurement are stored but
    do not count. `in_memory` puts the private directory on a tmpfs. `realtime_priority` is the highest real-time
    priority that the process may take. `once_per_boot` means that a second run in the same boot would only repeat the
    result of the first, so a measurement makes only one run. `network` runs argv in a network of its own. `watches` are
    patterns of kernel files to read directly before and after the run; `parse` gets them as the file WATCHED. With
    `records`, ktrial records the machine during the run as `ktrial watch` does. The results are the files RECORDING and
    PHASES (`[[name, begin_s, end_s]]`), or only RECORDING_FAILED. With `generator`, another machine runs argv and sends
    the load; `steps`, `cpus` and `environment` are for the server, which stays here.
    """

    argv: tuple[str, ...] = ()
    limit_s: float
    environment: Mapping[str, str] = {}
    told: Mapping[str, str] = {}
    cpus: tuple[int, ...] | None = None
    stdin: bytes = b""
    directory: str | None = None
    files: tuple[str, ...] = ()
    load: AgentLoad | None = None
    steps: tuple[Step, ...] = ()
    warm_ups: int = 0
    in_memory: bool = False
    realtime_priority: int | None = None
    watches: tuple[str, ...] = ()
    once_per_boot: bool = False
    records: bool = False
    network: Network | None = None
    generator: GeneratorPart | None = None
    #: Roughly how long the run takes, in seconds; None if unknown.
    expected_s: float | None = None


def with_environment(invocation: Invocation, more: Mapping[str, str]) -> Invocation:
    """Return the invocation with the variables in `more` added. The run's record shows their values."""
    told = {name: text for name, text in invocation.told.items() if name not in more}
    return msgspec.structs.replace(invocation, environment={**invocation.environment, **more}, told=told)


def pinned(invocation: Invocation, cpus: tuple[int, ...] | None) -> Invocation:
    """Return the invocation with its command and steps pinned to `cpus`.

    Change nothing if `cpus` is None, or if the invocation has `cpus` of its own that are all in `cpus`.
    """
    if cpus is None or (invocation.cpus is not None and set(invocation.cpus) <= set(cpus)):
        return invocation
    steps = tuple(msgspec.structs.replace(step, cpus=cpus) for step in invocation.steps)
    return msgspec.structs.replace(invocation, cpus=cpus, steps=steps)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A short test of whether a benchmark can work here, for a benchmark whose programs do not guarantee that.

    `invocation` makes the test from all of the benchmark's parameters. `why_not` reads its output and returns a reason,
    or None. `next` says what would make the benchmark work.
    """

    invocation: Callable[[Parameters], Invocation]
    why_not: Callable[[RawOutput], str | None]
    next: str


class Benchmark(Protocol):
    """A tool or load with a parser; found as BENCHMARK or BENCHMARKS in `ktrial.bench.adapters.<tool>.adapter`."""

    @property
    def name(self) -> str:
        """Unique name of lower-case letters, digits and hyphens."""

    @property
    def what(self) -> str:
        """One sentence: what the benchmark measures, and how."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Program names and patterns of kernel files that must exist; empty for the agent's own loads."""

    @property
    def packages(self) -> Mapping[str, str]:
        """Package that contains the programs, by package manager: apt, dnf, pacman, zypper."""

    @property
    def root_reason(self) -> str | None:
        """Why the benchmark needs root, or None. Only an agent load with `as_root` runs as root."""

    @property
    def user_reason(self) -> str | None:
        """Why the benchmark cannot run as root, or None."""

    @property
    def least_cpus(self) -> int:
        """The smallest number of CPUs on which the benchmark can run."""

    @property
    def probe(self) -> Probe | None:
        """A test of whether the benchmark can work here; None if having its programs is enough."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All outcomes that the benchmark may measure."""

    @property
    def parameters(self) -> Parameters:
        """Names and defaults of the parameters that a suite may set."""

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        """Return how to run the benchmark once with `parameters` on the machine that `facts` describes."""

    def version_invocation(self) -> Invocation | None:
        """Return the command that prints the tool's version, or None."""

    def parse_version(self, raw: RawOutput) -> str | None:
        """Return the version in the output of `version_invocation`, or None."""

    def parse(self, raw: RawOutput, parameters: Parameters) -> ParsedRun:
        """Return the measurements of a successful run. Raise BadRun or UnreadableOutput if there are none."""


def check_exit(raw: RawOutput) -> None:
    """Raise BadRun unless the run ended with status 0 and its output is complete. The message quotes the output."""
    if raw.interrupted:
        began = "before the run began" if raw.wall_ns is None else f"after {raw.wall_ns / 1e9:.1f} s"
        raise BadRun(f"interrupted {began}")
    if raw.load_failed is not None:
        raise BadRun(raw.load_failed)
    if raw.failed is not None:
        raise BadRun(f"did not complete: {raw.failed}")
    if raw.timed_out:
        raise BadRun(
            f"exceeded its time limit and was killed{quoted(raw)}",
            hint="give the benchmark less work, or your own command a higher limit (--limit, limit_s)",
        )
    if raw.signal is not None:
        raise BadRun(f"was killed by signal {raw.signal}{quoted(raw)}")
    if raw.exit_status != 0:
        full = "; no space left for its files" if _WORST[0].encode() in raw.stderr else ""
        raise BadRun(f"ended with status {raw.exit_status}{full}{quoted(raw)}")
    if raw.cut:
        raise BadRun(
            "printed more than is captured, so its output may be incomplete", hint="make the benchmark print less"
        )
    if raw.unread is not None:
        raise BadRun(
            f"left a file that ktrial cannot read: {raw.unread}",
            hint="make the benchmark write regular files that this user may read",
        )


def why_failed(raw: RawOutput) -> str | None:
    """Return why a command failed; None if it succeeded, even if it printed more than ktrial captured."""
    try:
        check_exit(msgspec.structs.replace(raw, cut=False))
    except BadRun as error:
        return error.message
    return None


def check_measurements(outcomes: tuple[Outcome, ...], parsed: ParsedRun) -> None:
    """Raise BadRun if there is no measurement, or one is undeclared, repeated, not finite or implausible."""
    if not parsed.measurements:
        raise BadRun("the output contains no measurement", hint=_PRINTED)
    declared = {outcome.name: outcome for outcome in outcomes}
    seen: set[str] = set()
    for measurement in parsed.measurements:
        outcome = declared.get(measurement.outcome)
        if outcome is None:
            raise BadRun(
                f"measured {measurement.outcome}, which this benchmark does not declare",
                hint=f"add {measurement.outcome} to the outcomes of the benchmark",
            )
        if measurement.outcome in seen:
            raise BadRun(
                f"{measurement.outcome} was measured twice in one run",
                hint=f"let `parse` return {measurement.outcome} once",
            )
        seen.add(measurement.outcome)
        _check_value(outcome, measurement)


_PRINTED = "check what the benchmark printed (`ktrial show SESSION/RUN --raw stdout`)"


def _check_value(outcome: Outcome, measurement: Measurement) -> None:
    wanted = None
    if not math.isfinite(measurement.value):
        wanted = "a finite number"
    elif measurement.value < 0 and outcome.kind != "score":
        wanted = "0 or more"
    elif not outcome.low <= measurement.value <= outcome.high:
        unit = "" if outcome.unit in {"score", "count", "ratio"} else f" {outcome.unit}"
        wanted = f"{_in_digits(outcome.low)} to {_in_digits(outcome.high)}{unit}"
    if wanted is not None:
        raise BadRun(f"{outcome.name}: expected {wanted}, got {measurement.original!r}", hint=_PRINTED)


def _in_digits(value: float) -> str:
    """Return a limit without an exponent: `1e-7` as 0.0000001."""
    return f"{value:.12f}".rstrip("0").rstrip(".")


def quoted(raw: RawOutput) -> str:
    """Return what a failed run printed, as the end of a message.

    Of many lines, quote the first and the last: if a usage text follows, the first line names the fault. If stderr is
    empty, quote the end of stdout, because some tools report failures there.
    """
    said = raw.stderr if raw.stderr.strip() or not raw.exit_status else raw.stdout[-QUOTED_BYTES:]
    lines = [line.strip() for line in said.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    telling = [line for line in lines if not _NOT_TELLING.fullmatch(line)]
    chosen = next((found for word in _WORST if (found := [line for line in telling if word in line])), telling or lines)
    if len(chosen) > QUOTED_LINES + 1:
        chosen = [chosen[0], "…", *chosen[-QUOTED_LINES:]]
    return "; it said: " + " | ".join(_for_message(line) for line in chosen) if lines else ""


_QUOTED_CHARACTERS = 160


def _for_message(line: str) -> str:
    """Shorten a line to fit a message, and replace characters that could move a terminal's cursor."""
    cut = line if len(line) <= _QUOTED_CHARACTERS else line[:_QUOTED_CHARACTERS] + "…"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut)

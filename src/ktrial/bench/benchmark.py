# SPDX-License-Identifier: Apache-2.0
"""What a benchmark declares, what it is run with, and what one run of it gave."""

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

#: The folders in which a benchmark's bare program name is looked up, in this order; never PATH.
PROGRAM_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin")
#: The environment of every run, to which a benchmark adds its own.
PINNED = {"PATH": ":".join(PROGRAM_FOLDERS), "LC_ALL": "C", "TZ": "UTC"}
#: How many lines of stderr a failed run quotes: the last ones that tell most.
QUOTED_LINES = 3
#: From how many of the last bytes of stdout, where a tool says there why it failed.
QUOTED_BYTES = 500
#: Where the server of a network of its own listens.
SERVER_ADDRESS = "198.51.100.1"
#: Lines that do not say what went wrong: how each make above the failing one ends, and rulers.
_NOT_TELLING = re.compile(r"make(\[\d+\])?: \*\*\* (\[.*\] Error \d+|Waiting for unfinished jobs.*)|\W*")
#: Words of lines that say it best, the best first: an ENOSPC, an error of a linker, of a compiler, of make itself.
_WORST = ("No space left on device", "undefined reference to", ": fatal error: ", ": error: ", ": *** ")
#: Where distributions keep versions of a server side by side: looked into before those, the highest version first.
VERSIONED_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
#: Stands for the run's private directory in argv, environment and parameters of loads. Records keep the word: these
#: are the same in each run.
DIRECTORY = "{directory}"
#: Parameters of a benchmark that places its tasks itself: on which CPUs. They lie within those chosen for it.
CPU_PARAMETERS = ("cpu", "other_cpu")
#: Parameter of a benchmark that keeps its CPUs busy: how many tasks at a time; 0 is one for each CPU it may use.
JOBS_PARAMETER = "jobs"
#: Among a run's files: what an invocation `watches`.
WATCHED = "watched.json"
#: And what an invocation that `records` leaves: the recording or why there is none, and the phases in it.
RECORDING = "recording.ktr"
RECORDING_FAILED = "recording-failed"
PHASES = "phases.json"


class RawOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one execution left behind.

    Of an agent's own load `stdout` is the JSON of the reply's `ok`. `exit_status` is None when the program was ended by
    a signal or could not be started (then `failed` says why). `interrupted` says that the user ended it. The resource
    fields are of that run alone and None when they do not apply. `cut` says that the program printed more than was
    captured, `unread` names a file of it that cannot be read, and why. `network` is what the agent read back of a
    network of the run's own.
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


class ParsedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one run.

    `tool_version` is what the output itself says, if it does. `details` holds plain JSON values beyond the outcomes,
    for example a merged histogram `{"histogram_ns": {"1023": 17}}`. `notes` are doubts in plain sentences.
    """

    measurements: tuple[Measurement, ...]
    tool_version: str | None = None
    details: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()


class AgentLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load that the agent itself carries out (request `load`).

    `as_root` is one for a session of root. `data` is a regular file, read as the user, of which the load works on the
    first `parameters["bytes"]` bytes.
    """

    name: str
    parameters: Mapping[str, Any] = {}
    as_root: bool = False
    data: str | None = None


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Two network namespaces with a link between them: the run is at one end, its `server` at the other.

    `link` holds what the agent knows of it: congestion, qdisc, delay_us, loss_ppm, rate_bytes_per_s, limit_packets;
    what is missing has the agent's default. The run begins when `server`, started first, listens on TCP port `port` of
    SERVER_ADDRESS; it is ended with the run.
    """

    link: Mapping[str, Any] = {}
    server: tuple[str, ...]
    port: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must be done before a run, in its private directory, with its environment, by the same user.

    With `ready` it is a server: it stays until the run has ended, and what comes after it begins when the command
    `ready`, tried again and again for `limit_s` seconds, ends with status 0. A server that ends early fails the run.
    """

    argv: tuple[str, ...]
    limit_s: float = 60.0
    ready: tuple[str, ...] = ()
    stdin: bytes = b""
    cpus: tuple[int, ...] | None = None


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How to run something once, in a fresh private directory, which is the working one unless `directory` is set.

    The first word of `argv` is a bare name, looked up in VERSIONED_FOLDERS and PROGRAM_FOLDERS, or an absolute path.
    `environment` is added to the pinned one; of the names in `told` that text is recorded, not the value. At `limit_s`
    (seconds) the run and all its children are killed. `cpus` pins it. `files` are names in the private directory that
    are collected after the run, `*` in one stands for anything; one that is not there is left out.
    With `load` there is no argv. `steps` come before it; the first `warm_ups` runs of a measurement are kept but do not
    count. `in_memory` puts the private directory on a tmpfs that belongs to the user. With `realtime_priority` the
    user's process may take real-time priorities up to it. `once_per_boot` says that every run within one boot would
    give the same again: a measurement makes one, whatever the number of runs asked for. `network` runs argv in a
    network of its own. `watches` are patterns of the kernel's files that are read directly before and after the run,
    and reach `parse` as the file WATCHED. With `records` the machine is recorded meanwhile as `ktrial watch` does: the
    files RECORDING, PHASES (`[[name, begin_s, end_s]]`) or RECORDING_FAILED.
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
    #: About how long the run takes, in seconds; None when nobody can say.
    expected_s: float | None = None


def with_environment(invocation: Invocation, more: Mapping[str, str]) -> Invocation:
    """With these variables too, which are recorded with their values."""
    told = {name: text for name, text in invocation.told.items() if name not in more}
    return msgspec.structs.replace(invocation, environment={**invocation.environment, **more}, told=told)


def pinned(invocation: Invocation, cpus: tuple[int, ...] | None) -> Invocation:
    """On the CPUs that were chosen, with its servers; one that places its tasks itself within them stays as it is."""
    if cpus is None or (invocation.cpus is not None and set(invocation.cpus) <= set(cpus)):
        return invocation
    steps = tuple(msgspec.structs.replace(step, cpus=cpus) for step in invocation.steps)
    return msgspec.structs.replace(invocation, cpus=cpus, steps=steps)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A short question whether a benchmark can work here at all, where its programs alone do not tell.

    `invocation` asks it for all the benchmark's parameters. `why_not` reads the answer: the reason, or None. `next` is
    what would change that.
    """

    invocation: Callable[[Parameters], Invocation]
    why_not: Callable[[RawOutput], str | None]
    next: str


class Benchmark(Protocol):
    """A tool with a parser. Adapters are found as BENCHMARK or BENCHMARKS of `ktrial.bench.adapters.<tool>.adapter`."""

    @property
    def name(self) -> str:
        """Unique, in small letters and hyphens."""

    @property
    def what(self) -> str:
        """One sentence: what is measured, and how."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Bare names of programs and patterns of kernel files that must be there; none for the agent's own loads."""

    @property
    def packages(self) -> Mapping[str, str]:
        """Package that holds the programs, by package tool: apt, dnf, pacman, zypper."""

    @property
    def root_reason(self) -> str | None:
        """What it needs root for; None when it needs none. Only an own load `as_root` runs as root."""

    @property
    def user_reason(self) -> str | None:
        """Why it cannot run as root; None when it can."""

    @property
    def least_cpus(self) -> int:
        """On fewer CPUs it cannot run."""

    @property
    def probe(self) -> Probe | None:
        """What tells whether it can work here; None when its programs do."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Everything that `parse` may return."""

    @property
    def parameters(self) -> Parameters:
        """Names and defaults of what a suite may set."""

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        """Return how to run it once with all `parameters` on the machine that `facts` describes."""

    def version_invocation(self) -> Invocation | None:
        """Return how to ask for the tool's version; None when the tool cannot be asked."""

    def parse_version(self, raw: RawOutput) -> str | None:
        """Return the version in the output of `version_invocation`; None when it tells none."""

    def parse(self, raw: RawOutput, parameters: Parameters) -> ParsedRun:
        """Return the measurements in the output of a run that ended well; raises BadRun or UnreadableOutput."""


def check_exit(raw: RawOutput) -> None:
    """Raise BadRun, with what it said, unless the run ended by itself with status 0."""
    if raw.interrupted:
        began = "before it began" if raw.wall_ns is None else f"after {raw.wall_ns / 1e9:.1f} s"
        raise BadRun(f"interrupted {began}")
    if raw.failed is not None:
        raise BadRun(f"could not be started: {raw.failed}")
    if raw.timed_out:
        raise BadRun(f"still ran at its time limit and was killed{quoted(raw)}")
    if raw.signal is not None:
        raise BadRun(f"was killed by signal {raw.signal}{quoted(raw)}")
    if raw.exit_status != 0:
        full = "; no space was left for its files" if _WORST[0].encode() in raw.stderr else ""
        raise BadRun(f"ended with status {raw.exit_status}{full}{quoted(raw)}")
    if raw.cut:
        raise BadRun("printed more than is captured; its output cannot be trusted to be whole")
    if raw.unread is not None:
        raise BadRun(f"left a file that cannot be read: {raw.unread}")


def why_failed(raw: RawOutput) -> str | None:
    """Return why a command failed whose output nobody reads; None if it ended with status 0."""
    try:
        check_exit(msgspec.structs.replace(raw, cut=False))
    except BadRun as error:
        return error.message
    return None


def check_measurements(outcomes: tuple[Outcome, ...], parsed: ParsedRun) -> None:
    """Raise BadRun when nothing was measured, or something undeclared, repeated, not finite or implausible."""
    if not parsed.measurements:
        raise BadRun("nothing was recognised in the output")
    declared = {outcome.name: outcome for outcome in outcomes}
    seen: set[str] = set()
    for measurement in parsed.measurements:
        outcome = declared.get(measurement.outcome)
        if outcome is None:
            raise BadRun(f"{measurement.outcome} is not among the declared outcomes")
        if measurement.outcome in seen:
            raise BadRun(f"{measurement.outcome} was measured twice in one run")
        seen.add(measurement.outcome)
        _check_value(outcome, measurement)


def _check_value(outcome: Outcome, measurement: Measurement) -> None:
    shown = f"{outcome.name} is {measurement.original}"
    if not math.isfinite(measurement.value):
        raise BadRun(f"{shown}, which is not a finite number")
    if measurement.value < 0 and outcome.kind != "score":
        raise BadRun(f"{shown}: a {outcome.kind} cannot be negative")
    if not outcome.low <= measurement.value <= outcome.high:
        raise BadRun(f"{shown}, outside the plausible {outcome.low:g} to {outcome.high:g} {outcome.unit}")


def quoted(raw: RawOutput) -> str:
    """Return what a failed run said, for a message's end. The first line names the fault where a usage follows.

    Some tools say on stdout alone why they failed: its end is quoted where stderr is empty.
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
    """Return a line cut to what fits a message, without anything that would move a terminal's cursor."""
    cut = line if len(line) <= _QUOTED_CHARACTERS else line[:_QUOTED_CHARACTERS] + "…"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut)

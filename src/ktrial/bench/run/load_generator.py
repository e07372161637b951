# SPDX-License-Identifier: Apache-2.0
"""Send the load of runs from another machine, the load generator, and read how busy that machine is meanwhile."""

from __future__ import annotations

import contextlib
import ipaddress
import random
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from ktrial.bench.adapters._tool import Program, asking_version, version_in
from ktrial.bench.availability import PACKAGE_PROGRAMS, install_command, package_tool
from ktrial.bench.benchmark import ADDRESS, AUTHORITY, SECRET, GeneratorPart, Invocation, RawOutput, why_failed
from ktrial.bench.generator_readings import FILES, OWN_GROUPS, GeneratorLook, limit_files, with_readings
from ktrial.bench.record import Execution, GeneratorRun, Watch
from ktrial.bench.remote_load import LoadedBenchmark, ServerAddress, fill_words
from ktrial.kit.errors import BadInput, KtrialError

if TYPE_CHECKING:
    from ktrial.machine.facts import FactBook
    from ktrial.machine.ports import Clock
    from ktrial.machine.reading import Reading

    ReadFiles = Callable[[Sequence[str]], Mapping[str, Reading | None]]

#: Ports to choose from, below those that kernels assign on their own.
_PORTS = range(20_000, 32_000)
_SOCKETS, _LISTENS = ("/proc/net/tcp", "/proc/net/tcp6"), "0A"
#: Where a kernel lists the addresses of its machine.
_TREE, _LONG = "/proc/net/fib_trie", "/proc/net/if_inet6"
#: Seconds that the server may take to answer the generator, attempts if it refuses, and seconds between them.
REACH_S, _ASKS, _PAUSE_S = 10.0, 3, 0.3
#: How long to wait until the sessions of a broken connection have ended there: longer than they tolerate silence.
RECONNECT_S = 90.0
_FACTS = ("boot.id", "cpu.model", "cpu.threads", "kernel.release")


class GeneratorExecutor(Protocol):
    """Runs programs on the load generator, and reads files of that machine."""

    @property
    def clock(self) -> Clock: ...

    def facts(self) -> FactBook: ...

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]: ...

    def programs(self, names: Iterable[str]) -> Mapping[str, str | None]: ...

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution: ...

    def close(self) -> None: ...


class GeneratorLost(KtrialError):
    """The load generator could not send the whole load of a run. Such a run says nothing about the measured machine."""


class GeneratorMachine(NamedTuple):
    """What identifies a load generator."""

    boot_id: str | None
    cpu: str
    cpus: int | None
    kernel: str

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cpus} CPUs, Linux {self.kernel}"


class PlacedRun(NamedTuple):
    """A run to send. `told` is the invocation with placeholders, for records; `words` maps placeholders to texts."""

    told: Invocation
    invocation: Invocation
    words: Mapping[str, str]

    def hide(self, data: bytes) -> bytes:
        """Return output with placeholders for the address and the password."""
        for word in (AUTHORITY, SECRET, ADDRESS):
            data = data.replace(self.words[word].encode(), word.encode())
        return data

    def hide_in(self, raw: RawOutput) -> RawOutput:
        return msgspec.structs.replace(raw, stdout=self.hide(raw.stdout), stderr=self.hide(raw.stderr))


class LoadGenerator:
    """Another machine that sends the load. `connect` starts an executor there, `disconnect` ends the connection.

    The server is at `server`, on the machine `measured`. If the connection breaks, the run fails, and the next run
    connects again.
    """

    def __init__(
        self,
        name: str,
        measured: str,
        server: ServerAddress,
        connect: Callable[[], GeneratorExecutor],
        disconnect: Callable[[], None],
    ) -> None:
        self.name = name
        self.measured = measured
        self.server = server
        self._connect = connect
        self._disconnect = disconnect
        self._executor: GeneratorExecutor | None = None
        self._machine: GeneratorMachine | None = None
        #: The first answer about each program, by its name; later answers must be the same.
        self._identities: dict[str, str] = {}
        self._programs: dict[str, Program] = {}

    @property
    def executor(self) -> GeneratorExecutor:
        if self._executor is None:
            self._executor = self._connect()
        return self._executor

    @property
    def machine(self) -> GeneratorMachine:
        if self._machine is None:
            facts = self.executor.facts()
            told = {name: facts.value(name) for name in _FACTS}
            self._machine = GeneratorMachine(
                told["boot.id"], told["cpu.model"] or "unknown CPU", told["cpu.threads"], told["kernel.release"] or "?"
            )
        return self._machine

    def close(self) -> None:
        """End the connection; the agent there removes its copy."""
        executor, self._executor, self._machine = self._executor, None, None
        try:
            if executor is not None:
                executor.close()
        finally:
            self._disconnect()

    def identify(self, program: Program) -> str:
        """Return the generator machine and its version of `program` as text. Later calls repeat the first answer."""
        name = program.needs[0]
        if name not in self._identities:
            self._programs[name] = program
            self._identities[name] = self._identity(name)
        return self._identities[name]

    def _identity(self, name: str) -> str:
        program = self._programs[name]
        asked = asking_version(program)
        assert asked is not None, "programs of generators tell their version"
        return f"{self.machine}, {version_in(self.executor.run(asked).raw, program) or f'no {name}'}"

    def check(self, benchmarks: Iterable[LoadedBenchmark]) -> None:
        """Raise BadInput if the generator lacks a program of these benchmarks."""
        for benchmark in benchmarks:
            program = benchmark.remote.generator
            found = self.executor.programs([*program.needs, *PACKAGE_PROGRAMS])
            missing = [name for name in program.needs if found[name] is None]
            if missing:
                command = install_command(program.packages, package_tool(found))
                raise BadInput(
                    f"cannot send the load of {benchmark.name} from {self.name}: it lacks {', '.join(missing)}",
                    hint=f"on {self.name}: {command}" if command else f"install {', '.join(missing)} on {self.name}",
                )

    def check_server(self, boot_id: str | None, read: ReadFiles) -> None:
        """Raise BadInput if the generator is the measured machine, or if that machine lacks the server's address.

        `boot_id` and `read` belong to the measured machine.
        """
        if boot_id is not None and boot_id == self.machine.boot_id:
            raise BadInput(
                f"--load-from: {self.name} and {self.measured} are the same machine",
                hint="name another machine, or leave out --load-from",
            )
        own = own_addresses(read((_TREE, _LONG)))
        if own and self.server.address not in own:
            raise BadInput(
                f"{self.server.address} is not an address of {self.measured}",
                hint=f"use --load-address with one of: {', '.join(own)}",
            )

    def place(self, invocation: Invocation, read: ReadFiles) -> PlacedRun:
        """Return the run with the server's address, a port (free unless the user named one) and a new password.

        Raise BadInput if the port that the user named belongs to another server, which the load would hit.
        """
        port, sockets = self.server.port, read(_SOCKETS)
        if port is not None and port in taken_ports(sockets, _LISTENS):
            raise BadInput(
                f"--load-address: another server listens on port {port} of {self.measured}",
                hint="name another port, or none",
            )
        if port is None:
            taken = taken_ports(sockets)
            port = random.SystemRandom().choice([one for one in _PORTS if one not in taken])
        words = self.server.words(port, secrets.token_hex(24))
        return PlacedRun(invocation, fill_words(invocation, words), words)

    def run(self, placed: PlacedRun, watch: Watch | None) -> Execution:
        """Send the load of a run whose server is ready. Raise GeneratorLost if the generator or its connection fails.

        An error of the measured machine passes unchanged.
        """
        watching = _Looking(self, watch)
        try:
            return self._send(placed, watching)
        except KtrialError as error:
            if watching.is_reading_measured:
                raise
            if not isinstance(error, GeneratorLost):
                self._give_up()
            hint = error.hint or f"check the network between {self.name} and {self.measured}"
            raise GeneratorLost(f"cannot send the load from {self.name}: {error.message}", hint=hint) from None

    def _give_up(self) -> None:
        """End a connection that may be broken, so that the next run connects again."""
        with contextlib.suppress(KtrialError, OSError):
            self.close()

    def _send(self, placed: PlacedRun, looking: _Looking) -> Execution:
        invocation, told = placed.invocation, placed.told
        part, shown = invocation.generator, told.generator
        assert part is not None, "only invocations for generators come here"
        assert shown is not None, "only invocations for generators come here"
        identity = self._same_identity(invocation.argv[0])
        lost = self._unreached(part)
        if lost is not None:
            raise lost
        sent = self.executor.run(
            msgspec.structs.replace(
                invocation, steps=part.steps, environment=part.environment, cpus=None, generator=None
            ),
            looking,
        )
        found = GeneratorRun(name=self.name, measured=self.measured, identity=identity)
        return msgspec.structs.replace(
            sent,
            argv=(*sent.argv[:1], *told.argv[1:]),
            steps=with_words(sent.steps, [one.argv for one in shown.steps]),
            environment={**sent.environment, **shown.environment},
            generator=with_readings(found, looking.looks, sent.raw, part.threads),
        )

    def _same_identity(self, name: str) -> str:
        """Return the identity. Raise KtrialError if the machine or the program has changed since the first run."""
        first = self._identities[name]
        identity = first if self._machine is not None else self._identity(name)
        if identity != first:
            raise GeneratorLost(
                f"{self.name} has changed: it was {first} and is now {identity}", hint="run the command again"
            )
        return identity

    def look(self) -> GeneratorLook:
        """Return the files that show how busy the generator is."""
        executor = self.executor
        groups = executor.read([OWN_GROUPS])[OWN_GROUPS]
        files = (*FILES, *limit_files(None if groups is None else groups.text))
        found = executor.read(files)
        texts = {path: None if one is None else one.text for path, one in found.items()}
        return GeneratorLook(executor.clock.monotonic_ns() / 1e9, texts)

    def _unreached(self, part: GeneratorPart) -> GeneratorLost | None:
        """Return the error if the generator does not reach the server; None if it does."""
        raw = RawOutput()
        for left in reversed(range(_ASKS)):
            raw = self.executor.run(Invocation(argv=part.reach, limit_s=REACH_S, environment=part.environment)).raw
            if raw.interrupted:
                raise KeyboardInterrupt
            if raw.timed_out or why_failed(raw) is None or not left:
                break
            self.executor.clock.sleep(_PAUSE_S)
        where = f"{self.name} does not reach the server at {self.server.address} on {self.measured}"
        if raw.timed_out:
            hint = f"use --load-address ADDRESS:PORT with a port that the firewall of {self.measured} lets through"
            return GeneratorLost(f"{where} (no answer within {REACH_S:g} s)", hint=hint)
        said = why_failed(raw)
        return None if said is None else GeneratorLost(f"{where} ({part.reach[0]} {said})")


class _Looking:
    """Reads the generator before and after the readings of the measured machine; a `bench.record.Watch`."""

    def __init__(self, generator: LoadGenerator, watch: Watch | None) -> None:
        self._generator = generator
        self._watch = watch
        self._before: GeneratorLook | None = None
        self.looks: tuple[GeneratorLook, GeneratorLook] | None = None
        #: Whether the measured machine is being read, so that an error belongs to it.
        self.is_reading_measured = False

    def begin(self) -> None:
        self._before = self._generator.look()
        if self._watch is not None:
            self.is_reading_measured = True
            self._watch.begin()
            self.is_reading_measured = False

    def end(self) -> None:
        if self._watch is not None:
            self.is_reading_measured = True
            self._watch.end()
            self.is_reading_measured = False
        assert self._before is not None, "a run begins before it ends"
        self.looks = (self._before, self._generator.look())


def generator_limit_s(invocation: Invocation) -> float:
    """Return how long the generator may take for its part of a run."""
    steps_s = sum(step.limit_s for step in (() if invocation.generator is None else invocation.generator.steps))
    return RECONNECT_S + _ASKS * (REACH_S + _PAUSE_S) + steps_s + invocation.limit_s


def with_words(ran: Sequence[tuple[str, ...]], told: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return the commands that ran, with the full path of each program, and with placeholders for the password."""
    return tuple((one[0], *shown[1:]) for one, shown in zip(ran, told, strict=False))


def taken_ports(found: Mapping[str, Reading | None], state: str | None = None) -> frozenset[int]:
    """Return the local TCP ports in the kernel's lists of sockets; with `state`, only of sockets in this state."""
    rows = [line.split() for one in found.values() if one is not None and one.text for line in one.text.splitlines()]
    sockets = [row for row in rows if len(row) > 3 and ":" in row[1]]
    local = (row[1].rpartition(":")[2] for row in sockets if state in {None, row[3]})
    return frozenset(int(port, 16) for port in local)


def own_addresses(found: Mapping[str, Reading | None]) -> tuple[str, ...]:
    """Return a machine's own addresses from the kernel's lists, without loopback and link-local addresses."""
    tree, long = ((one.text or "") if (one := found.get(path)) is not None else "" for path in (_TREE, _LONG))
    texts = re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", tree)
    texts += [words[0] for line in long.splitlines() if (words := line.split())]
    numbers = (ipaddress.ip_address(int(one, 16).to_bytes(16)) if len(one) == 32 else one for one in texts)
    addresses = [ipaddress.ip_address(one) if isinstance(one, str) else one for one in numbers]
    return tuple(dict.fromkeys(str(one) for one in addresses if not one.is_loopback and not one.is_link_local))

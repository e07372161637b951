# SPDX-License-Identifier: Apache-2.0
"""`--load-from ssh:NAME`: the machine that sends the load of server benchmarks, and where their server listens."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from ktrial.agent.ssh import check_name, configured_host
from ktrial.cli.app_remote import RemoteLock
from ktrial.cli.app_ssh import SSH, SshHost
from ktrial.kit.errors import BadInput, Busy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrial.bench.benchmark import Benchmark
    from ktrial.bench.remote_load import ServerAddress
    from ktrial.bench.run.executor import AgentExecutor
    from ktrial.bench.suite import Suite
    from ktrial.cli.app import App

_LOOK_S = 0.5
_ADDRESS_HINT = "add --load-address ADDRESS, the address at which {} reaches {}"


def send_load_from(app: App, word: str | None, address: str | None, tools: str | None = None) -> None:
    """Let the machine `word` send the load of this command's benchmarks. Raise BadInput if it cannot.

    `tools` is the value of --tools.
    """
    if word is None:
        if address is not None:
            raise BadInput(
                "--load-address requires --load-from", hint="add --load-from ssh:NAME, or leave out --load-address"
            )
        return
    if tools is not None:
        raise BadInput("cannot combine --tools with --load-from", hint="leave out --tools or --load-from")
    if app.generator is None:
        _connect(app, word, address)
    app.executor.generator = app.generator


def benchmarks_of(app: App, suite: Suite) -> dict[str, Benchmark]:
    """Return the benchmarks; with --load-from, make the other machine send their load.

    Raise BadInput if that machine cannot send the load of `suite`.
    """
    if app.generator is None:
        return app.benchmarks
    from ktrial.bench.remote_load import refuse_unloaded, with_remote_load

    found = with_remote_load(app.benchmarks, app.generator.identify)
    app.generator.check([refuse_unloaded(one.use, found[one.use], found) for one in suite.benchmark])
    return found


def refuse_command(app: App) -> None:
    """Raise BadInput if --load-from was given, because the user's own command has no server to load."""
    if app.generator is not None:
        raise BadInput(
            "cannot combine --load-from with a command after --: only a benchmark has a server for the requests",
            hint="leave out --load-from, or name a benchmark such as redis-benchmark-get",
        )


def _connect(app: App, word: str, address: str | None) -> None:
    """Connect to the machine, check it, and tell the user which machine does what."""
    from ktrial.bench.run.executor import AgentExecutor
    from ktrial.bench.run.load_generator import RECONNECT_S, LoadGenerator

    name = word.removeprefix(SSH)
    _check_machines(app, word, name)
    host = SshHost(word, app.say, may_ask=False)
    measured = "this machine" if app.host is None else app.host.called
    server = _server_address(app, name, measured, address)

    lock = RemoteLock(host.name, lambda: host.own_session)

    def connect() -> AgentExecutor:
        _take(lock, app.clock.sleep, 0.0 if app.generator is None else RECONNECT_S)
        work = app.measuring_place.work
        return AgentExecutor(lambda: host.connect("user"), work, None, None, app.interrupts, quiet=host.quiet)

    def disconnect() -> None:
        host.close()
        host.__dict__.pop("own_session", None)

    generator = app.close_at_end(LoadGenerator(name, measured, server, connect, disconnect))
    session = app.user_session
    generator.check_server(session.facts(["boot.id"]).value("boot.id"), session.read)
    app.generator = generator
    port = "" if server.port is None else f", port {server.port}"
    app.say(f"the server runs on {measured} at {server.address}{port}; the load comes from {name}: {generator.machine}")


def _take(lock: RemoteLock, sleep: Callable[[float], None], left_s: float) -> None:
    """Take the lock on measurements. The session of a broken connection may hold it until its silence limit passes."""
    while True:
        try:
            lock.measure()
        except Busy:
            if left_s <= 0:
                raise
        else:
            return
        sleep(_LOOK_S)
        left_s -= _LOOK_S


def _check_machines(app: App, word: str, name: str) -> None:
    if not word.startswith(SSH):
        raise BadInput(f"--load-from {word}: expected ssh:NAME", hint="use ssh:NAME, as in `ssh NAME`")
    check_name(word, name, option="--load-from")
    host = app.host
    if host is not None and not isinstance(host, SshHost):
        raise BadInput(
            f"--load-from works on this machine and on ssh hosts, not on --host {host.word}",
            hint="leave out --load-from, or use --host ssh:NAME",
        )
    if host is not None and host.word == word:
        raise BadInput(
            f"--load-from {word} is the measured machine", hint="name another machine, or leave out --load-from"
        )


def _server_address(app: App, name: str, measured: str, given: str | None) -> ServerAddress:
    """Return where the server listens: the given address, or the one in ssh's configuration."""
    hint = _ADDRESS_HINT.format(name, measured)
    if given is not None:
        return parse_address(given)
    find: Callable[[str], str]
    if app.host is None:
        target, find = name, _own_address_towards
    else:
        target, find = app.host.word.removeprefix(SSH), _resolve
    host = configured_host(target)
    try:
        return _check_address(find(host))
    except OSError as error:
        raise BadInput(
            f"--load-from: cannot find the address of {host}: {error.strerror or error}", hint=hint
        ) from None
    except BadInput as error:
        raise BadInput(f"--load-from: ssh connects to {target} at {host}, but {error.message}", hint=hint) from None


def parse_address(text: str) -> ServerAddress:
    """Parse ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT. Raise BadInput for anything else."""
    address, port = text, None
    if text.startswith("["):
        address, closing, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if closing and rest else None
    elif text.count(":") == 1:
        address, _, port = text.partition(":")
    try:
        found = _check_address(address)
    except BadInput as error:
        raise BadInput(
            f"--load-address {text}: {error.message}", hint="for example 10.0.0.5 or 10.0.0.5:7000"
        ) from None
    if port is None:
        return found
    if not (port.isascii() and port.isdigit()) or not 1024 <= int(port) <= 65_535:
        raise BadInput(
            f"--load-address {text}: expected a port from 1024 to 65535, got {port!r}", hint="for example 10.0.0.5:7000"
        )
    return found._replace(port=int(port))


def _check_address(address: str) -> ServerAddress:
    """Return the address. Raise BadInput if it is invalid, or if no other machine can reach it."""
    from ktrial.bench.remote_load import ServerAddress

    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        raise BadInput(f"expected an IP address, got {address!r}") from None
    if found.is_unspecified or found.is_multicast:
        raise BadInput(f"{found} is not the address of a single machine")
    if found.is_loopback:
        raise BadInput(f"no other machine reaches {found}")
    if found.is_link_local:
        raise BadInput(f"{found} is valid on one network link only")
    return ServerAddress(str(found))


def _resolve(host: str) -> str:
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def _own_address_towards(host: str) -> str:
    """Return the address that this machine uses to reach a host; nothing is sent."""
    family, kind, protocol, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as way:
        way.connect(target)
        return str(way.getsockname()[0])

# SPDX-License-Identifier: Apache-2.0
"""Watches another machine while it tries boots, and power-cycles it if it hangs."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ktrial.agent.user_folders import state_folder
from ktrial.kit.errors import BadInput, KtrialError, in_lower_case, quoting_hint
from ktrial.kit.plain_json import line
from ktrial.kit.plain_text import plain
from ktrial.kit.units import parse_quantity, show_seconds
from ktrial.tuning.boots.power import PowerTerms, PowerWatch

if TYPE_CHECKING:
    from ktrial.cli.app import App

SSH_PORT = 22
#: Seconds between two looks, and the time limit of an answer.
_EACH_S = _ANSWER_S = 5.0
#: Limits of --after: a machine is silent for a while when it reboots.
_LEAST_S, _MOST_S = 30.0, 86400.0
#: Time limit of the user's command, in seconds.
_COMMAND_S = 300.0
#: Lines of the serial console that ktrial records at each power cycle.
_LINES = 40
#: Bytes at the end of a console's file that hold these lines.
_TAIL_BYTES = 64 << 10


class WatchedMachine(NamedTuple):
    """The machine to watch: how to check that it is up, and the command that power-cycles it."""

    host: str
    port: int
    alive: tuple[str, ...]
    power: tuple[str, ...]
    console: Path | None


def read_command(option: str, text: str) -> tuple[str, ...]:
    """Split a command into words as a shell would; ktrial starts it without a shell."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadInput(
            f"cannot read {option} {text!r}: {in_lower_case(str(error))}", hint=quoting_hint(error)
        ) from None
    if not words:
        raise BadInput(
            f"{option} needs a command", hint=f"write a program and its arguments, in quotes, after {option}"
        )
    return words


def read_host(text: str) -> tuple[str, int]:
    """Parse HOST, HOST:PORT or [ADDRESS]:PORT; the default port is 22, for ssh."""
    with suppress(ValueError):
        return str(IPv6Address(text)), SSH_PORT
    found = re.fullmatch(r"(?:\[([^\[\]\s]+)\]|([^\[\]\s:]+))(?::([0-9]{1,5}))?", text)
    if found is None or not 0 < int(found[3] or SSH_PORT) < 65536:
        raise BadInput(
            f"cannot read {text!r} as the name of a machine", hint="write HOST or HOST:PORT, such as server:22"
        )
    return found[1] or found[2], int(found[3] or SSH_PORT)


def read_after(text: str) -> float:
    """Parse how long a machine may be silent, and return seconds."""
    try:
        after_s = parse_quantity(text, "seconds")
    except ValueError as error:
        raise BadInput(f"cannot read --after: {error}", hint="for example  --after 10min") from None
    if not _LEAST_S <= after_s <= _MOST_S:
        raise BadInput(
            f"cannot use --after {text}: expected {_LEAST_S:.0f} s to 24 h",
            hint="choose a time longer than a boot, such as 10min",
        )
    return after_s


def watch_machine(app: App, watched: WatchedMachine, terms: PowerTerms, *, as_json: bool) -> int:
    """Watch until Ctrl-C; return 1 if no power cycle brings the machine back.

    Raise KtrialError, without a power cycle, if the machine does not answer at the start.
    """
    watch = PowerWatch(terms)
    with app.interrupts:
        _find_host(watched)
        if watch.see(app.clock.monotonic_ns() / 1e9, answers=_answers(watched)) == "unseen":
            raise KtrialError(f"cannot watch {watched.host}: it does not answer now", hint=_way_to_answer(watched))
        app.say(f"watching {watched.host} until Ctrl-C; the record is {_record()}")
        while True:
            app.clock.sleep(_EACH_S)
            now_s = app.clock.monotonic_ns() / 1e9
            silent_s = watch.silent_s(now_s)
            sight = watch.see(now_s, answers=_answers(watched))
            if sight == "switch":
                _tell(app, {**_switched(watched), "silent_s": round(watch.silent_s(now_s))}, as_json=as_json)
            elif sight == "back":
                _tell(app, {"event": "back", "host": watched.host, "silent_s": round(silent_s)}, as_json=as_json)
            elif sight == "lost":
                _tell(app, {"event": "lost", "host": watched.host, "silent_s": round(silent_s)}, as_json=as_json)
                return 1


def _find_host(watched: WatchedMachine) -> None:
    """Raise KtrialError if the host name does not resolve; accept any name if a command checks the machine."""
    if watched.alive:
        return
    try:
        socket.getaddrinfo(watched.host, watched.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        # Python raises UnicodeError for a name with a part that is empty or too long.
        why = error.strerror if isinstance(error, OSError) else "not the name of a machine"
        raise KtrialError(
            f"cannot watch {watched.host}: {why}", hint="check the name, or give the machine's address"
        ) from None


def _way_to_answer(watched: WatchedMachine) -> str:
    if watched.alive:
        return f"wait until `{shlex.join(watched.alive)}` succeeds"
    return f"wait until port {watched.port} of {watched.host} answers, or name another check with --alive"


def _answers(watched: WatchedMachine) -> bool:
    if watched.alive:
        try:
            return _run(watched.alive, _ANSWER_S).returncode == 0
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            raise KtrialError(
                f"cannot start {watched.alive[0]}: {error.strerror}",
                hint="after --alive, name a program that you may run",
            ) from None
    try:
        with socket.create_connection((watched.host, watched.port), timeout=_ANSWER_S):
            return True
    except OSError:
        return False


def _run(argv: tuple[str, ...], limit_s: float) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=limit_s)


def _switched(watched: WatchedMachine) -> dict[str, Any]:
    """Run the user's command; return a record of the run."""
    event: dict[str, Any] = {"event": "switched", "host": watched.host, "command": shlex.join(watched.power)}
    if watched.console is not None:
        event["console"] = _last_lines(watched.console)
    try:
        done = _run(watched.power, _COMMAND_S)
    except subprocess.TimeoutExpired:
        return {**event, "status": None, "said": f"it took longer than {show_seconds(_COMMAND_S)}"}
    except OSError as error:
        return {**event, "status": None, "said": f"cannot start it: {error.strerror}"}
    said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return {**event, "status": done.returncode, "said": said[-1] if said else ""}


def _last_lines(console: Path) -> list[str]:
    try:
        with console.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return [f"cannot read {console}: {error.strerror}"]
    return list(deque(text.splitlines(), _LINES))


def _record() -> Path:
    return state_folder() / "power.jsonl"


def _tell(app: App, event: dict[str, Any], *, as_json: bool) -> None:
    """Record and show an event."""
    unix_ms = app.clock.unix_ms()
    text = line({"schema": "ktrial.power/1", "unix_ms": unix_ms, **event})
    path = _record()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    if as_json:
        sys.stdout.write(text)
    else:
        at = time.strftime("%H:%M:%S", time.localtime(unix_ms / 1000))
        shown = [f"{at}  {_sentence(event)}", *(f"          {one}" for one in event.get("console", []))]
        sys.stdout.write("".join(f"{plain(one)}\n" for one in shown))
    sys.stdout.flush()


def _sentence(event: dict[str, Any]) -> str:
    host, silent = event["host"], show_seconds(event["silent_s"])
    if event["event"] == "back":
        return f"{host} answers again after {silent}"
    if event["event"] == "lost":
        return f"{host} has not answered for {silent}, and power-cycling it did not help: check it yourself"
    ended = f"status {event['status']}" if event["status"] is not None else "failed"
    said = f": {event['said']}" if event["said"] else ""
    return f"{host} has not answered for {silent}; ran {event['command']} ({ended}){said}"

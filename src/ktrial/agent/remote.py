# SPDX-License-Identifier: Apache-2.0
"""Agents on another machine, reached through the user's own `ssh` program, or `adb` for a phone.

One connection carries all sessions. The agent is copied to a private folder there, named by its digest. It starts as a
relay and, without `keeps`, removes itself at the end. Between runs the head sends signs of life. Before a run the head
says how long the silence may last, and then neither side sends anything. After a longer silence the connection counts
as broken: the relay ends all sessions, and the agents restore their changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import msgspec

from ktrial.agent import line_frames
from ktrial.agent.carrier import Ends
from ktrial.agent.clock import unix_ms
from ktrial.agent.line_frames import LineFrames
from ktrial.agent.session_line import SessionLine, Window
from ktrial.kit.errors import AgentError, KtrialError
from ktrial.kit.plain_text import plain
from ktrial.kit.units import show_bytes

#: Bytes that may be in flight on the connection: enough for a fast link with a long delay.
_WINDOW = Window(total_bytes=1 << 20, piece_bytes=1 << 15)
_CHUNK_BYTES = 1 << 16
#: ktrial gives up on a login that prints more than this before the marker.
_MOST_NOISE_BYTES = 1 << 20
#: Seconds between two signs of life, and how long each side waits for one before it gives up.
_SIGN_EACH_S, SILENCE_S = 15.0, 60
_LAST_LINES = 8
_CLOSE_LIMIT_S = 70.0
_SLOW_S = 8.0
#: How often ktrial starts the agent if its copy is removed meanwhile, and seconds to wait for the last lines of ssh or
#: adb.
_STARTS, _LAST_WORDS_S = 3, 1.0
#: Starts the agent in a private folder there. It has no single quotes, backslashes, newlines or exclamation marks, so
#: that every login shell passes it to /bin/sh unchanged. It prints a line for each step; the head answers once. If the
#: connection breaks, it continues until it has removed what it created.
_SCRIPT = " ".join(
    """
umask 077; trap "" PIPE; echo; echo {marker} $(uname -m); read -r want size skip options || exit 90; n=0;
drop() {{ rm -rf "$t" "$f.$$"; rmdir "$d"; p=$d; i=0; while [ $i -lt $((m+2)) ];
do p=${{p%/*}}; rmdir "$p"; i=$((i+1)); done; }} 2>/dev/null;
for base in {bases}; do
n=$((n+1)); [ $n -gt $skip ] || continue; d=$base/agents/$want; f=$d/ktrial-agent; t=$d/try.$$;
m=0; p=${{base%/*}}; until [ -e "$p" ] || [ $m -ge 3 ]; do p=${{p%/*}}; m=$((m+1)); done;
why=$( {{ mkdir -p "$d" && : > "$t" && chmod 700 "$t" && "$t"; }} 2>&1 ) ||
{{ echo no $base: ${{why:-programs cannot be started there}}; drop; continue; }};
has=; [ -x "$f" ] && has=$(sha256sum < "$f" 2>/dev/null | cut -c1-64);
if [ "$has" = "$want" ]; then echo have $base; else echo send $base; [ -z "$has" ] || rm -f "$f";
why=$( {{ head -c $size > "$f.$$" && [ $(wc -c < "$f.$$") -eq $size ] && chmod 700 "$f.$$" &&
{{ ln "$f.$$" "$f" || [ -x "$f" ] || mv "$f.$$" "$f"; }} 2>/dev/null && rm -f "$f.$$"; }} 2>&1 ) ||
{{ drop; echo full $n $base: $why; exit 91; }};
fi;
rm -f "$t"; [ -x "$f" ] || exit 93; echo go; exec "$f" relay --made $m $options; done; echo none; exit 92
""".split()  # noqa: SIM905 (a shell script, not a list)
)


class Way(Protocol):
    """How to reach another machine: the program that connects, and what is special about this kind of machine."""

    #: The name of the machine in messages.
    name: str
    #: The program that connects, in messages.
    program: str
    #: Folders there that may hold the agent, as words of a shell without single quotes.
    bases: str
    #: Hints: what to do if none of these folders can hold the agent, and if commands cannot be run there.
    place_hint: str
    login_hint: str
    #: How long the machine may take to run its first command, if the program itself does not give up.
    answer_limit_s: float | None

    def argv(self, script: str) -> list[str]:
        """Return the command that runs a script on the machine. Raise KtrialError if the machine is unreachable."""

    def has_failed(self, status: int, why: str) -> bool:
        """Return whether the connecting program failed, rather than the remote command.

        `why` is the last line on stderr.
        """

    def cannot_connect(self, why: str) -> KtrialError:
        """Return the error to raise if the connection failed; `why` is the last line on stderr."""

    def architecture(self, machine: str) -> str:
        """Return the architecture of the agent for a machine on which `uname -m` prints `machine`.

        Raise KtrialError if there is no such agent.
        """


class RelayDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The relay's description of itself, sent when it starts."""

    agent: str
    program: str
    uid: int
    home: str | None = None
    user: str | None = None
    host: str = ""
    unix_ms: int = 0


class _AgentPlace(NamedTuple):
    """The agent's folder on the other machine, and what followed the last line of the script."""

    base: str
    rest: bytes


class _AgentGone(KtrialError):
    """The agent ended before it answered; most often another head has just removed the agent's copy."""


class OtherMachine:
    """One connection to another machine; implements `agent.carrier.AgentCarrier`.

    `way` says how to connect. `agent_for` returns the agent for an architecture, `say` shows the user a message. With
    `keeps`, the agent's copy stays on the machine.
    """

    def __init__(
        self, way: Way, agent_for: Callable[[str], Path], say: Callable[[str], None], *, keeps: bool = False
    ) -> None:
        self._way = way
        self.name = way.name
        self._agent_for = agent_for
        self._say = say
        self._options = " ".join([f"--silence-s {SILENCE_S}", *(["--keep"] if keeps else [])])
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._quiet_until_s: float | None = None
        self._ended = threading.Event()
        self._gone: str | None = None
        #: The architecture of the agent there.
        self.architecture = ""
        frames, place, described = self._start_relay()
        #: The relay's description of itself, and the folder of its private files.
        self.machine, self.base = described, place.base
        #: How far its clock is ahead of this machine's, give or take the time of a packet.
        self.ahead_ms = self.machine.unix_ms - unix_ms()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._line = SessionLine(self._process.stdin, self._process.stdout, frames, _WINDOW)
        threading.Thread(target=self._stay, daemon=True).start()

    def open(self, arguments: list[str], *, root: bool, asker: tuple[str, ...] = ()) -> Ends:
        if (gone := self.why_gone()) is not None:
            raise AgentError("lost", gone, hint="run the command again")
        return self._line.open(arguments, root=root, asker=list(asker))

    def kill(self, session: int) -> None:
        self._line.kill(session)

    def why_gone(self) -> str | None:
        """Return why the connection is gone; None while it works."""
        if not self._line.closed and self._gone is None:
            return None
        why = self._gone or self._line.broken or ", ".join(self._said)
        return f"lost the connection to {self.name}{f': {why}' if why else ''}"

    @contextlib.contextmanager
    def quiet(self, limit_s: float) -> Iterator[None]:
        """Send no signs of life during a run, which is a single request and takes at most `limit_s`."""
        with self._silent(limit_s, self._line.bear_next_silence):
            yield

    @contextlib.contextmanager
    def asleep(self, limit_s: float) -> Iterator[None]:
        """Send nothing at all for at most `limit_s`."""
        with self._silent(limit_s, self._line.bear_silence):
            yield

    @contextlib.contextmanager
    def _silent(self, limit_s: float, ask: Callable[[int, float], bool]) -> Iterator[None]:
        self._quiet_until_s = time.monotonic() + limit_s + SILENCE_S
        ask(int(limit_s) + 2 * SILENCE_S, _SIGN_EACH_S)
        try:
            yield
        finally:
            self._quiet_until_s = None
            self._line.bear_silence(SILENCE_S, _SIGN_EACH_S)

    def close(self) -> None:
        """End the sessions and the connection.

        The agent restores what it changed and, without `keeps`, removes its copy.
        """
        self._ended.set()
        self._line.end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_LIMIT_S)
        self._end()

    def break_off(self, why: str) -> None:
        """Kill the program that connects, because the machine does not answer; `why` is the reason to report."""
        self._gone = self._gone or why
        self._process.kill()

    def _end(self) -> None:
        self._ended.set()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _stay(self) -> None:
        """Send signs of life, and end a connection whose other end is silent for too long."""
        while not self._ended.wait(_SIGN_EACH_S) and not self._line.closed:
            now_s = time.monotonic()
            until_s = self._quiet_until_s
            if until_s is not None:
                if now_s > until_s:
                    self.break_off(f"{self.name} did not answer in time")
                continue
            if self._line.is_unanswered and now_s - self._line.heard_s > SILENCE_S:
                self.break_off(f"{self.name} has not answered for {SILENCE_S} s")
            else:
                self._line.bear_silence(SILENCE_S, _SIGN_EACH_S)

    def _start_relay(self) -> tuple[LineFrames, _AgentPlace, RelayDescription]:
        """Start the relay, again if another head removes the agent's copy at that moment."""
        for left in reversed(range(_STARTS)):
            frames = LineFrames(hint=f"check that nothing on {self.name} writes to the connection after the login")
            try:
                place = self._start()
                return frames, place, self._description(frames, place.rest)
            except _AgentGone:
                if not left:
                    raise
                self._ended.clear()
                self._said.clear()
        raise AssertionError("not reached")

    def _start(self) -> _AgentPlace:
        """Connect and start the relay, in the first folder of the other machine that can hold the agent."""
        skip, tried = 0, list[str]()
        while True:
            marker = f"ktrial-{secrets.token_hex(8)}"
            self._process = start_program(self._way.argv(start_script(marker, self._way.bases)))
            assert self._process.stderr is not None
            self._passing = threading.Thread(target=self._pass_on, args=(self._process.stderr,), daemon=True)
            self._passing.start()
            try:
                found = self._arrange(marker, skip, tried)
            except BaseException:
                self._end()
                raise
            if isinstance(found, _AgentPlace):
                return found
            self._end()
            skip = found
            self._ended.clear()

    def _arrange(self, marker: str, skip: int, tried: list[str]) -> _AgentPlace | int:
        """Answer the script. Return the place of the agent, or how many places are full."""
        lines = _ScriptLines(self._process)
        with self._telling():
            words = lines.after(marker.encode())
        if words is None:
            raise self._refused(lines)
        self.architecture = self._way.architecture(words.split()[-1] if words.split() else "")
        agent = self._agent_for(self.architecture).read_bytes()
        digest = hashlib.sha256(agent).hexdigest()
        lines.write(f"{digest} {len(agent)} {skip} {self._options}\n".encode())
        base = ""
        while (line := lines.next()) is not None:
            what, _, rest = line.partition(" ")
            if what == "go":
                return _AgentPlace(base, lines.rest)
            if what == "no":
                tried.append(rest)
            elif what in {"have", "send"}:
                base = rest
                if what == "send":
                    lines.write(agent)
            elif what == "full":
                number, _, why = rest.partition(" ")
                tried.append(f"{why} ({show_bytes(len(agent))})")
                return int(number)
            elif what == "none":
                break
        else:
            raise self._ended_early()
        listed = "".join(f"\n  {one}" for one in tried)
        raise KtrialError(
            f"cannot start the agent on {self.name}: no folder there can hold and run it{listed}",
            hint=self._way.place_hint,
        )

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell the user if the connection takes long, and end it if it takes too long."""
        timers = [threading.Timer(_SLOW_S, lambda: self._say(f"still connecting to {self.name}; Ctrl-C stops"))]
        if (limit_s := self._way.answer_limit_s) is not None:
            timers.append(threading.Timer(limit_s, lambda: self.break_off(f"no answer within {limit_s:.0f} s")))
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    def _refused(self, lines: _ScriptLines) -> KtrialError:
        """Return the error for a connection that ended, or lasted too long, before the script said anything."""
        if len(lines.noise) > _MOST_NOISE_BYTES:
            self._process.kill()
            return KtrialError(
                f"cannot run commands on {self.name}: its login prints more than 1 MiB",
                hint="change the user's shell profile there to print nothing without a terminal",
            )
        status, why = self._end_of_program()
        if (late := self._gone) is not None:
            return self._way.cannot_connect(late)
        if self._way.has_failed(status, why):
            return self._way.cannot_connect(why or f"{self._way.program} ended without a reason")
        why = why or plain(" ".join(lines.noise.decode(errors="replace").split()))[-300:]
        return KtrialError(
            f"cannot run commands on {self.name}: its login ended with status {status}{f': {why}' if why else ''}",
            hint=self._way.login_hint,
        )

    def _end_of_program(self) -> tuple[int, str]:
        """Return the exit status of the program and its last line on stderr, after printing all of its stderr."""
        status = self._process.wait()
        # A shared connection of ssh keeps its stderr open.
        self._passing.join(_LAST_WORDS_S)
        return status, self._said[-1] if self._said else ""

    def _ended_early(self) -> KtrialError:
        """Return the error for a connection that ended before the relay described itself."""
        status, why = self._end_of_program()
        self._end()
        if self._way.has_failed(status, why):
            return KtrialError(
                f"lost the connection to {self.name}{f': {why}' if why else ''}", hint="run the command again"
            )
        return _AgentGone(
            f"the agent on {self.name} ended at once, with status {status}{f': {why}' if why else ''}",
            hint="run the command again",
        )

    def _description(self, frames: LineFrames, rest: bytes) -> RelayDescription:
        assert self._process.stdout is not None
        piece, found = rest, frames.feed(rest)
        while not found:
            piece = os.read(self._process.stdout.fileno(), _CHUNK_BYTES)
            if not piece:
                raise self._ended_early()
            found = frames.feed(piece)
        if found[0].kind != line_frames.BEGUN:
            raise KtrialError(
                f"the agent on {self.name} began with an unknown message",
                hint=f"check that nothing on {self.name} writes to the connection after the login",
            )
        return msgspec.json.decode(found[0].content, type=RelayDescription)

    def _pass_on(self, errors: IO[bytes]) -> None:
        """Pass on what the connecting and the remote programs write to stderr, and remember the last lines."""
        with errors:
            for line in errors:
                text = plain(line.decode(errors="replace").strip("\r\n"))
                if text.strip():
                    self._said.append(text.strip().removesuffix("."))
                    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone, or ktrial at its end
                        sys.stderr.write(f"{text}\n")
                        sys.stderr.flush()


class _ScriptLines:
    """Lines of the script, one at a time, and what follows them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        #: What was read and is not yet used; and what a login printed before the marker.
        self.rest, self.noise = b"", b""

    def after(self, marker: bytes) -> str | None:
        """Return the words after the marker; None if the connection ends or prints too much before the marker."""
        while marker not in self.rest or b"\n" not in self.rest.partition(marker)[2]:
            if not self._more() or len(self.rest) > _MOST_NOISE_BYTES:
                self.noise = self.rest
                return None
        self.noise, _, self.rest = self.rest.partition(marker)
        return self.next()

    def next(self) -> str | None:
        while b"\n" not in self.rest:
            if not self._more():
                return None
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode(errors="replace").strip()

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the script says why it ended
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _more(self) -> bool:
        assert self._process.stdout is not None
        piece = os.read(self._process.stdout.fileno(), _CHUNK_BYTES)
        self.rest += piece
        return bool(piece)


def start_script(marker: str, bases: str) -> str:
    """Return the shell script that starts the agent on the other machine.

    The script prints `marker` before its other output; `bases` are the folders to try.
    """
    return _SCRIPT.format(marker=marker, bases=bases)


def start_program(argv: list[str]) -> subprocess.Popen[bytes]:
    """Start the program, shielded from Ctrl-C so that ktrial can end the sessions in order.

    The program may still ask on the terminal.
    """
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)}
    in_main = threading.current_thread() is threading.main_thread()
    for one in before if in_main else ():
        signal.signal(one, signal.SIG_IGN)
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", bufsize=0
        )
    except OSError as error:
        raise KtrialError(
            f"cannot start {argv[0]}: {error.strerror}", hint=f"check that {argv[0]} is installed and executable"
        ) from None
    finally:
        for one, handler in before.items() if in_main else ():
            signal.signal(one, handler)

# SPDX-License-Identifier: Apache-2.0
"""Sends the results of a running trial to a text file, an endpoint, or annotations in Grafana.

If a destination fails, the trial continues. Results that could not be sent are reported as a doubt at the end.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Full, Queue
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from ktrial import __version__
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Protocol as TrialProtocol
from ktrial.kit.errors import BadInput, in_lower_case
from ktrial.kit.plain_text import plain
from ktrial.live.metrics_out import OPEN_METRICS_TYPE, PROMETHEUS_TYPE, TrialFigures, effect_of, metrics_text
from ktrial.machine.ports import Clock
from ktrial.trial.run.events import ArmInForce, BlockEnded, TrialEnded, TrialEvent, TrialListener

#: Seconds that a client of the endpoint, and Grafana, may be silent.
_PATIENCE_S = 5.0
#: Number of annotations that may wait for Grafana. A trial that switches faster loses some, and reports that.
_MOST_WAITING = 1000
_ANNOTATIONS = "/api/annotations"


class ResultsWay(Protocol):
    """A destination of results."""

    def show(self, figures: TrialFigures) -> None:
        """Send the current figures to the destination."""

    def note(self, event: TrialEvent, figures: TrialFigures) -> None:
        """Send an event to the destination; `figures` already include the event."""

    def close(self) -> str | None:
        """Close the destination. Return a doubt if some results could not be sent; otherwise None."""


class MetricsFile:
    """A text file for node_exporter's textfile collector; each update replaces the whole file."""

    def __init__(self, path: Path) -> None:
        """Prepare the file. Raise BadInput if it cannot be written."""
        self._path = path
        self._failures = 0
        self._why = ""
        if path.is_dir():
            raise BadInput(
                f"--metrics-file {path} is a folder", hint=f"name a file in that folder, such as {path / 'ktrial.prom'}"
            )
        self._write(metrics_text(None, open_metrics=False))
        if self._failures:
            raise BadInput(
                f"cannot write --metrics-file {path}: {self._why}", hint="name a file in a folder where you may write"
            )

    def show(self, figures: TrialFigures) -> None:
        self._write(metrics_text(figures, open_metrics=False))

    def note(self, event: TrialEvent, figures: TrialFigures) -> None:
        """Do nothing: the file contains only the current figures."""

    def close(self) -> str | None:
        if not self._failures:
            return None
        return f"cannot write {self._path}: {self._why} ({self._failures} times); its content may be old"

    def _write(self, text: str) -> None:
        part: str | None = None
        try:
            descriptor, part = tempfile.mkstemp(".part", f".{self._path.name}.", self._path.parent)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(file.fileno(), 0o644)  # the collector runs as another user
            Path(part).replace(self._path)
        except OSError as error:
            self._failures += 1
            self._why = error.strerror or str(error)
            if part is not None:
                with contextlib.suppress(OSError):
                    Path(part).unlink()


class MetricsEndpoint:
    """Serves `/metrics` from a thread that only sends the latest finished text."""

    def __init__(self, address: str, port: int) -> None:
        """Open the endpoint. Raise BadInput if the address or the port cannot be used."""
        self._texts = {True: metrics_text(None), False: metrics_text(None, open_metrics=False)}
        try:
            self._server = _server((address, port), lambda is_open: self._texts[is_open])
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise BadInput(
                f"cannot listen on {address}:{port}: {why}", hint="choose another --metrics-port [ADDRESS:]PORT"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def show(self, figures: TrialFigures) -> None:
        self._texts = {is_open: metrics_text(figures, open_metrics=is_open) for is_open in (True, False)}

    def note(self, event: TrialEvent, figures: TrialFigures) -> None:
        """Do nothing: the endpoint shows only the current figures."""

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_PATIENCE_S)


def _server(where: tuple[str, int], text: Callable[[bool], str]) -> HTTPServer:
    class MetricsHandler(BaseHTTPRequestHandler):
        server_version = f"ktrial/{__version__}"
        sys_version = ""
        timeout = _PATIENCE_S

        def do_GET(self) -> None:
            """Send the figures for /metrics, and "not found" for any other path."""
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            is_open = "application/openmetrics-text" in self.headers.get("Accept", "")
            body = text(is_open).encode()
            self.send_response(200)
            self.send_header("Content-Type", OPEN_METRICS_TYPE if is_open else PROMETHEUS_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as its base class has it)
            """Write nothing: the terminal belongs to the trial."""

    class MetricsServer(HTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Write nothing: clients may disconnect at any time."""

    return MetricsServer(where, MetricsHandler)


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """An annotation in the form of Grafana's HTTP API; the time is in milliseconds since 1970."""

    time: int
    tags: tuple[str, ...]
    text: str


class Grafana(NamedTuple):
    """A Grafana server, and a token that may write annotations."""

    url: str
    token: str

    @classmethod
    def at(cls, url: str, token: str) -> Grafana:
        """Return the server with this address. Raise BadInput if the address or the token cannot be used."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise BadInput(
                f"cannot read --grafana {url} ({in_lower_case(str(error))})",
                hint="for example  --grafana https://grafana.example",
            ) from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or port == 0:
            raise BadInput(
                f"--grafana {url}: expected an http or https address without ? and #",
                hint="for example  --grafana https://grafana.example",
            )
        if parts.username is not None or parts.password is not None:
            raise BadInput(
                "--grafana: the address contains a user name or password",
                hint="use --grafana-token-file FILE instead of a user name or password",
            )
        if not token or not token.isascii() or any(not mark.isprintable() or mark == " " for mark in token):
            raise BadInput(
                "--grafana: the token is empty, or contains spaces, control characters or letters beyond ASCII",
                hint="check the variable or the file that contains the token",
            )
        return cls(url.rstrip("/"), token)

    def send(self, annotation: Annotation) -> str | None:
        """Send an annotation; return why it was not accepted, or None if it was.

        A redirection is a failure, because the token is for this server only.
        """
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        try:
            connection = kind(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
            try:
                headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
                connection.request("POST", parts.path + _ANNOTATIONS, msgspec.json.encode(annotation), headers)
                answer = connection.getresponse()
                answer.read(1 << 16)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            return getattr(error, "strerror", None) or str(error) or type(error).__name__
        return None if answer.status == 200 else f"the server answered {answer.status} {plain(answer.reason)}"


class GrafanaAnnotations:
    """Sends annotations from a separate thread: for each switch, each new verdict, and the end of the trial."""

    def __init__(self, grafana: Grafana, clock: Clock) -> None:
        self._grafana = grafana
        self._clock = clock
        self._waiting: Queue[Annotation | None] = Queue(_MOST_WAITING)
        self._sent = self._lost = 0
        self._why = ""
        self._told: set[tuple[str, str, str]] = set()
        self._arm: str | None = None
        self._thread = threading.Thread(target=self._send_all, name="grafana", daemon=True)
        self._thread.start()

    def show(self, figures: TrialFigures) -> None:
        """Do nothing: annotations are only about events."""

    def note(self, event: TrialEvent, figures: TrialFigures) -> None:
        """Queue annotations for an event: a switch to another arm, new verdicts, or the end of the trial."""
        now_ms = self._clock.unix_ms()
        tags = ("ktrial", f"trial:{figures.trial}")
        if isinstance(event, ArmInForce) and event.arm != self._arm:
            self._arm = event.arm
            block = "" if event.block is None else f", block {event.block}"
            if figures.hides_arms:
                self._queue(Annotation(time=now_ms, tags=(*tags, "switch"), text=f"{figures.trial}: switch{block}"))
            else:
                text = f"{figures.trial}: {event.arm} in force{block}"
                self._queue(Annotation(time=now_ms, tags=(*tags, "switch", f"arm:{event.arm}"), text=text))
        if isinstance(event, BlockEnded | TrialEnded) and not figures.hides_arms:
            self._verdicts(event.judgement, now_ms, tags)
        if isinstance(event, TrialEnded):
            text = f"{figures.trial}: {figures.state}; the old values are in force"
            self._queue(Annotation(time=now_ms, tags=(*tags, figures.state), text=text))

    def close(self) -> str | None:
        """Wait some seconds for annotations that are being sent. Return a doubt if some did not arrive."""
        with contextlib.suppress(Full):
            self._waiting.put_nowait(None)
        self._thread.join(2 * _PATIENCE_S)
        lost = self._lost + self._waiting.qsize() - (self._waiting.qsize() > 0)
        if not lost:
            return None
        why = self._why or "the server is too slow"
        return f"{lost} of {lost + self._sent} annotations did not reach {self._grafana.url}: {why}"

    def _verdicts(self, judgement: Judgement, now_ms: int, tags: tuple[str, ...]) -> None:
        for one in judgement.judged:
            key = (one.outcome, one.arm, one.against)
            if one.verdict is None or one.role == "exploratory" or key in self._told:
                continue
            self._told.add(key)
            found = effect_of(one)
            effect = ""
            if found is not None and one.effect is not None and one.effect.scale == "log":
                effect = f" ({100 * found[0]:+.3g} %; above zero is better)"
            text = f"{one.outcome}: {one.arm} is {one.verdict} than {one.against}{effect}"
            if one.verdict in {"equivalent", "inconclusive", "not comparable"}:
                text = f"{one.outcome}: {one.arm} against {one.against}: {one.verdict}{effect}"
            marks = (*tags, "verdict", f"verdict:{one.verdict}", f"arm:{one.arm}")
            self._queue(Annotation(time=now_ms, tags=marks, text=text))

    def _queue(self, annotation: Annotation) -> None:
        try:
            self._waiting.put_nowait(annotation)
        except Full:
            self._lost += 1
            self._why = self._why or "too many were waiting"

    def _send_all(self) -> None:
        while (annotation := self._waiting.get()) is not None:
            why = self._grafana.send(annotation)
            if why is None:
                self._sent += 1
            else:
                self._lost += 1
                self._why = why


class ResultsOut:
    """Passes the events of a trial to `listen` and to every destination, until the trial ends."""

    def __init__(
        self, listen: TrialListener, ways: Sequence[ResultsWay], clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._listen = listen
        self._ways = ways
        self._clock = clock
        self._say = say
        self._figures: TrialFigures | None = None

    def begins(
        self, trial: str, protocol: TrialProtocol, judgement: Judgement | None = None, *, blind: bool = False
    ) -> None:
        """Show this trial at every destination from now on. Call this after the measurement of the noise."""
        if self._ways:
            self._figures = TrialFigures(trial, protocol, self._now_s(), judgement, blind=blind)
            self._show()

    def __call__(self, event: TrialEvent) -> None:
        if self._figures is not None:
            self._figures.take(event, self._now_s())
            for way in self._ways:
                way.note(event, self._figures)
            self._show()
        self._listen(event)

    def close(self) -> None:
        """Show that the trial is over, and report results that could not be sent."""
        if self._figures is not None and self._figures.state in {"running", "waiting"}:
            self._figures.end("failed", self._now_s())
            self._show()
        for way in self._ways:
            if (doubt := way.close()) is not None:
                self._say(f"doubt: {doubt}")
        self._ways = ()

    def _show(self) -> None:
        assert self._figures is not None
        for way in self._ways:
            way.show(self._figures)

    def _now_s(self) -> float:
        return self._clock.unix_ms() / 1e3

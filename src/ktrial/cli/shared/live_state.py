# SPDX-License-Identifier: Apache-2.0
"""Reads the state that `ktrial ui` shows. Each call reads the machine and the store again."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.agent.user_folders import state_folder
from ktrial.cli.shared.origins import origins_of
from ktrial.cli.shared.overview import gather_overview
from ktrial.judge.model.log import BlockDrawn, RunEnded, TrialEnd, protocol_in
from ktrial.kit.errors import KtrialError, PrivilegeMissing
from ktrial.kit.tables import paragraph
from ktrial.studies.overview_text import overview_text
from ktrial.trial.outcome.live_view import ShownMoment, view
from ktrial.trial.outcome.summary import judgement_of
from ktrial.trial.outcome.text import screening_line
from ktrial.tuning.origin.why_text import origins_text
from ktrial.tuning.plans.transaction_text import status_text
from ktrial.tuning.state.lock import MachineLock, look
from ktrial.tuning.state.lock_holder import Process, store_of, told_process
from ktrial.watch.diagnosis.symptoms import load_symptoms
from ktrial.watch.record.live import LiveWatch
from ktrial.watch.record.live_view import watch_view
from ktrial.watch.record.watch import LONGEST_S, WatchRequest, watch

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.judge.model.log import Event
    from ktrial.recordings.watching import MachineView

_RECORDING = "recording.ktr"


class LiveMoment(msgspec.Struct, frozen=True, kw_only=True):
    """What the screen shows at one moment, as text; `running` describes the process of a trial."""

    applied: str
    trial: str
    verdicts: str
    running: str | None = None


class LiveState:
    """The state of this machine and its store. One thread at a time may use it."""

    def __init__(self, app: App, lock: MachineLock | None = None) -> None:
        self._app = app
        self._lock = lock or MachineLock()

    def read(self, width: int) -> LiveMoment:
        running = next(iter(self._lock.trying()), None)
        _, status, overview = gather_overview(self._app, may_ask=False)
        only_root = "Only root can read what is applied: start `sudo ktrial ui` to see it."
        newest = next((one.trial for one in overview.open), None)
        return LiveMoment(
            applied=paragraph(only_root, width=width) if status is None else status_text(status, width=width).rstrip(),
            trial=self._trial(newest, running, width),
            verdicts=overview_text(overview, width=width).rstrip(),
            running=None if running is None else told_process(running),
        )

    def _trial(self, name: str | None, running: Process | None, width: int) -> str:
        """Return the newest trial that is not over, unless the running trial writes to another store."""
        process = "" if running is None else paragraph(f"Running: {told_process(running)}.", width=width)
        stores = {store_of(one) for one in (look(os.getpid()), running) if one is not None} - {None}
        if name is None or len(stores) > 1:
            return process or "No trial is under way."
        log = self._app.trials.log(name)
        shown = "\n".join(trial_lines(log, width=width))
        if running is None:
            process = paragraph(f"Not running now: `ktrial trial resume {name}` continues it.", width=width)
        return f"{shown}\n{process}"

    def why(self, knob: str, width: int) -> str:
        """Return who set a knob. Raise BadInput for a missing file, UnknownName for an unknown knob or instance."""
        found, untold = origins_of(self._app, [knob])
        return origins_text(found, untold, width=width).rstrip()

    def stop(self, shown: str) -> str:
        """Interrupt a trial as Ctrl-C does, and return a sentence for the user; `shown` describes its process.

        Raise KtrialError if the process has ended.
        """
        running = next((one for one in self._lock.trying() if told_process(one) == shown), None)
        if running is None:
            raise KtrialError(
                "cannot stop the trial: its process has ended",
                hint="run `ktrial trial stop` if the trial continues at the next boot",
            )
        interrupt(running)
        return f"Interrupted {told_process(running)}. It restores all settings and keeps its finished runs."


def interrupt(process: Process) -> None:
    """Send SIGINT to this process. Raise KtrialError if it has ended since, or belongs to somebody else."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise KtrialError(
            f"cannot stop process {process.pid}: it has ended", hint="run `ktrial status` to see what is running"
        ) from None
    try:
        # Another process may have this process id now.
        if look(process.pid).started != process.started:
            raise KtrialError(
                f"cannot stop process {process.pid}: it has ended", hint="run `ktrial status` to see what is running"
            )
        signal.pidfd_send_signal(descriptor, signal.SIGINT)
    except PermissionError:
        raise PrivilegeMissing(
            f"cannot stop process {process.pid}: it belongs to {process.user or 'another user'}",
            hint="start `sudo ktrial ui`",
        ) from None
    finally:
        os.close(descriptor)


def trial_lines(log: Sequence[Event], *, width: int) -> list[str]:
    """Return the state of a trial from its log: blocks, intervals against the margin, and verdicts."""
    protocol = protocol_in(log)
    runs = [one for one in log if isinstance(one, RunEnded) and one.block is not None]
    judgement = judgement_of(log) if runs else None
    if judgement is not None and protocol.screen is not None:
        return [screening_line(judgement.blocks, judgement.cap, judgement.screened)]
    drawn = next((one for one in reversed(log) if isinstance(one, BlockDrawn)), None)
    wanted = protocol.runs_per_visit * len(protocol.arms if drawn is None else drawn.order)
    done = 0 if drawn is None else sum(one.block == drawn.block for one in runs)
    moment = ShownMoment(
        protocol=protocol,
        judgement=judgement if judgement is not None and judgement.blocks else None,
        cap=protocol.cap if judgement is None else judgement.cap,
        done=done % wanted,
        runs=wanted,
    )
    ended = next((f"ended: {one.reason}" for one in log if isinstance(one, TrialEnd)), None)
    return [*view(moment, width=width), *([] if ended is None else [ended])]


class _WatchOver(Exception):
    """Ends a watch that the screen no longer shows."""


class WatchThread:
    """A watch without a stored recording: `shown` gets its lines each second, until `end`."""

    def __init__(self, make_app: Callable[[], App], shown: Callable[[str], None], width: Callable[[], int]) -> None:
        self._make_app = make_app
        self._shown = shown
        self._width = width
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="watch")
        self._thread.start()

    def end(self) -> None:
        """Make the watch end within about a second; `join` waits until it has ended."""
        self._is_over = True

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        app = self._make_app()
        try:
            state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(prefix="watch-", dir=state_folder()) as folder:
                watching = app.watching(Path(folder) / _RECORDING, None)
                self._live = LiveWatch(load_symptoms(app.catalog), program=False)
                self._cpu_s = time.thread_time()
                with contextlib.suppress(_WatchOver):
                    watch(watching, WatchRequest(limit_s=LONGEST_S, trace=app.can_be_root), self)
        except KtrialError as error:
            self._shown(f"cannot watch: {error.message}")
        finally:
            app.close()

    def seen(self, seen: MachineView) -> None:
        if self._is_over:
            raise _WatchOver
        self._live.seen(seen)
        moment = self._live.moment(time.thread_time() - self._cpu_s)
        if moment is not None:
            self._shown("\n".join(watch_view(moment, title="the machine", width=self._width(), end_key="w")))

    def handed(self, data: bytes) -> None:
        self._live.handed(data)

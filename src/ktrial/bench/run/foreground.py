# SPDX-License-Identifier: Apache-2.0
"""Run the user's program as a shell does: in the same folder and session, on the same terminal."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ktrial.bench.record import Exit
from ktrial.kit.errors import KtrialError
from ktrial.recordings.frames.statistics import Capture

#: Signals that are sent to ktrial but meant for the program.
_PASSED_ON = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
#: `si_code` of a signal from the kernel: Ctrl-C on the terminal reaches the program by itself.
_FROM_KERNEL = 0x80
#: Seconds after which ktrial looks at the program: another thread may have received the signal of its end.
_LOST_S = 0.5
#: Maximum size of a capture; an hour at 500 frames per second needs less.
CAPTURE_BYTES = 512 << 20
#: Milliseconds by which the clock that stamps files may lag behind.
_COARSE_MS = 20


class AttachedLauncher:
    """Implements `bench.run.ports.Launcher`: the program shares ktrial's process group and terminal."""

    @staticmethod
    def run(argv: Sequence[str], environment: Mapping[str, str], *, quiet: bool) -> Exit:
        awaited = _PASSED_ON | {signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        try:
            child = os.posix_spawn(
                argv[0],
                list(argv),
                dict(environment),
                file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)] if quiet else [],
                setsigmask=before,
                # Python ignores SIGPIPE and SIGXFSZ; a program must not.
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
            status = _wait(child, awaited)
            while signal.sigtimedwait(awaited, 0) is not None:
                pass  # signals that came while the program ended were meant for it
        except OSError as error:
            raise KtrialError(
                f"cannot start {argv[0]}: {error.strerror}", hint="check that the file exists and is executable"
            ) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        code = os.waitstatus_to_exitcode(status)
        return Exit(status=code) if code >= 0 else Exit(signal=-code)


def _wait(child: int, awaited: Iterable[signal.Signals]) -> int:
    """Wait for the child, and pass on signals that ktrial receives."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        received = signal.sigtimedwait(awaited, _LOST_S)
        if received and received.si_signo != signal.SIGCHLD and received.si_code != _FROM_KERNEL:
            os.kill(child, received.si_signo)


class Captures:
    """A fresh private folder for captures, and `others`: folders in which only new files count.

    Implements `bench.run.ports.CaptureFolder`.
    """

    def __init__(self, work: Path, others: Iterable[Path] = ()) -> None:
        try:
            work.mkdir(exist_ok=True, mode=0o700)
            self._folder = Path(tempfile.mkdtemp(prefix="run-", dir=work))
        except OSError as error:
            raise KtrialError(
                f"cannot make a private folder in {work}: {error.strerror}",
                hint="set XDG_STATE_HOME to a writable folder with free space",
            ) from None
        self._others = tuple(others)
        self._before = frozenset(path for folder in self._others for path in _csv(folder))

    @property
    def folder(self) -> str:
        return str(self._folder)

    def found(self, started_unix_ms: int) -> tuple[Capture, ...]:
        """Return the captures written since `started_unix_ms`, sorted by path."""
        own = _csv(self._folder)
        others = [path for folder in self._others for path in _csv(folder) if self._is_new(path, started_unix_ms)]
        return tuple(Capture(path.name, _read(path)) for path in sorted([*own, *others]))

    def _is_new(self, path: Path, started_unix_ms: int) -> bool:
        return path not in self._before and _changed_ns(path) // 1_000_000 >= started_unix_ms - _COARSE_MS

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class FreshLog:
    """A log that a program rewrites at each start; its old content does not count.

    Implements `bench.run.ports.WrittenLog`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = _changed_ns(path)

    def read(self, started_unix_ms: int) -> bytes | None:
        changed_ns = _changed_ns(self.path)
        if changed_ns <= self._before or changed_ns // 1_000_000 < started_unix_ms - _COARSE_MS:
            return None
        return _read(self.path)


def _csv(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.csv") if not path.name.endswith("_summary.csv") and _changed_ns(path) >= 0]


def _changed_ns(path: Path) -> int:
    """Return when a regular file last changed; -1 if there is no regular file."""
    try:
        status = path.lstat()
    except OSError:
        return -1
    return status.st_mtime_ns if stat.S_ISREG(status.st_mode) else -1


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(CAPTURE_BYTES + 1)
    if len(data) > CAPTURE_BYTES:
        raise KtrialError(f"{path} is larger than {CAPTURE_BYTES >> 20} MiB", hint="log for less time with --duration")
    return data

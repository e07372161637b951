# SPDX-License-Identifier: Apache-2.0
"""Builds a configured tree in its own folder, shows the progress, and measures the cost.

A build can be interrupted and continued.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ktrial.kernels.build.kbuild_failure import read_failure
from ktrial.kernels.build.kbuild_log import compiled, last_flag, read_cache_log, read_cmd_file, read_sccache
from ktrial.kernels.build.make import run
from ktrial.kernels.build_record import BuildCost, Flags, memory_of, room_of
from ktrial.kit.errors import KtrialError, Refused
from ktrial.kit.units import show_bytes

_LOG, _CACHE_LOG = "ktrial-{}.log", "ktrial-ccache.log"
#: Objects that every kernel compiles; their commands show the flags of the whole kernel.
_SHOWN = ("init/main.o", "lib/ctype.o")
_IMAGES = {"x86_64": "arch/x86/boot/bzImage", "arm64": "arch/arm64/boot/Image"}
_SCCACHE = ("sccache", "--show-stats", "--stats-format=json")
_LOG_TAIL_BYTES = 1 << 20
_GRACE_S = 10.0

_CHUNK_BYTES = 1 << 16

Told = Callable[[int, float], None]


class Makes(Protocol):
    """A build command and its environment."""

    @property
    def out(self) -> Path: ...

    @property
    def launcher(self) -> str | None: ...

    def argv(self, *words: str) -> list[str]: ...

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]: ...


class Waits(Protocol):
    """Waits for output and watches for Ctrl-C."""

    def wait(self, descriptors: Sequence[int], limit_s: float | None = None) -> bool: ...

    def check(self) -> None:
        """Raise KeyboardInterrupt if the user pressed Ctrl-C."""


class KernelBuild:
    """Builds through `make`; `tell` receives the number of compiled sources and the elapsed seconds."""

    def __init__(self, make: Makes, waits: Waits, tell: Told) -> None:
        self._make = make
        self._waits = waits
        self._tell = tell
        self._out = make.out

    def check_room(self, symbols: Mapping[str, str], jobs: int) -> None:
        files = (one for one in self._out.rglob("*") if one.is_file() and not one.is_symlink())
        check_room(self._out, [symbols], jobs, sum(one.stat().st_blocks * 512 for one in files))

    def done_before(self) -> int:
        return sum(1 for _ in self._out.rglob(".*.o.cmd"))

    def run(self, target: str, jobs: int) -> BuildCost:
        """Build `target` and return the cost. If the build fails, raise KtrialError with the relevant log lines."""
        counts = _CacheCounts(self._make)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin_s = time.monotonic()
        argv = self._make.argv(f"-j{jobs}", target)
        log = self._out / _LOG.format(target)
        objects, status = self._run(argv, counts.environment, begin_s, log)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if status != 0:
            raise _failure("make" if argv[0] == "make" else "the command for", target, status, log)
        hits, misses = counts.end() or (None, None)
        return BuildCost(
            wall_s=round(time.monotonic() - begin_s, 1),
            cpu_s=round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
            objects=objects,
            hits=hits,
            misses=misses,
        )

    def _run(self, argv: Sequence[str], environment: Mapping[str, str], begin_s: float, into: Path) -> tuple[int, int]:
        objects = 0
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._make.environment(environment),
                start_new_session=True,
            )
        except OSError as error:
            raise KtrialError(f"cannot start {argv[0]}: {error.strerror}", hint=f"install {argv[0]}") from None
        assert process.stdout is not None, "it is a pipe"
        rest = b""
        try:
            with process.stdout, into.open("wb", buffering=0) as log:
                while data := self._read(process.stdout.fileno()):
                    log.write(data)
                    *lines, rest = (rest + data).split(b"\n")
                    objects += sum(compiled(line.decode(errors="replace")) for line in lines)
                    self._tell(objects, time.monotonic() - begin_s)
            return objects, process.wait()
        finally:
            _end(process)

    def _read(self, descriptor: int) -> bytes:
        self._waits.wait([descriptor])
        self._waits.check()
        return os.read(descriptor, _CHUNK_BYTES)

    def image(self, architecture: str) -> Path:
        path = self._out / _IMAGES.get(architecture, "vmlinux")
        if not path.is_file():
            raise KtrialError(f"make succeeded but did not write {path}", hint=f"read the logs in {self._out}")
        return path


class RoomMissing(Refused):
    """Disk space or memory will most likely not suffice for a build."""


def check_room(folder: Path, wanted: Sequence[Mapping[str, str]], jobs: int, used_bytes: int = 0) -> None:
    """Raise RoomMissing if disk space or memory will most likely not suffice for successive builds.

    `wanted` holds the symbols of each build. `used_bytes` is the space that `folder` already takes.
    """
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    needed, free = sum(map(room_of, wanted)) - used_bytes, shutil.disk_usage(existing).free
    if free < needed:
        raise RoomMissing(
            f"{'the build needs' if len(wanted) == 1 else f'{len(wanted)} builds need'} about {show_bytes(needed)} "
            f"more, but {folder} has only {show_bytes(free)} free",
            hint="build on a larger disk with -o, or add --anyway",
        )
    there = _available()
    for symbols in wanted:
        memory, what = memory_of(symbols, jobs)
        if there is not None and there < memory:
            raise RoomMissing(
                f"{what} needs about {show_bytes(memory)} of memory, but only {show_bytes(there)} is available",
                hint="free some memory, or add --anyway",
            )


class _CacheCounts:
    """The cache hits of one build. ccache logs them; the server of sccache counts all builds together."""

    def __init__(self, make: Makes) -> None:
        self._make = make
        self._log = make.out / _CACHE_LOG
        self._log.unlink(missing_ok=True)
        self._served = make.launcher == "sccache"
        self._before = self._read_counts()

    @property
    def environment(self) -> Mapping[str, str]:
        return {"CCACHE_STATSLOG": str(self._log)}

    def end(self) -> tuple[int, int] | None:
        """Return (hits, misses) of the build; None if there is no cache."""
        if not self._served:
            with contextlib.suppress(OSError, KtrialError):
                return read_cache_log(self._log.read_bytes())
            return None
        now, before = self._read_counts(), self._before
        if now is None or before is None:
            return None
        hits, misses = now[0] - before[0], now[1] - before[1]
        return None if min(hits, misses) < 0 else (hits, misses)

    def _read_counts(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError, KtrialError):
            return read_sccache(run(_SCCACHE, self._make.environment(), None, "sccache")) if self._served else None
        return None


def read_flags(out: Path) -> Flags | None:
    """Return the flags that an object of a built tree was compiled with; None if kbuild saved no command."""
    for name in _SHOWN:
        path = out / Path(name).parent / f".{Path(name).name}.cmd"
        with contextlib.suppress(OSError, KtrialError):
            argv = read_cmd_file(path.read_bytes(), str(path))
            march = last_flag(argv, "-march=") or last_flag(argv, "-mcpu=")
            compiler = " ".join(argv[: next(at for at, word in enumerate(argv) if word.startswith("-"))])
            return Flags(object=name, march=march, optimise=last_flag(argv, "-O"), compiler=compiler)
    return None


def drop_objects(out: Path) -> None:
    """Remove object files and archives, which only make needs. Keep the image, configuration, commands and log."""
    for path in out.rglob("*.[oa]"):
        if path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def flags_of_image(place: str) -> Flags | None:
    """Return the flags of an image's objects; None if the image is in no build folder, or kbuild saved no command."""
    path = Path(place)
    for image in (*_IMAGES.values(), "vmlinux"):
        if place.endswith(f"/{image}"):
            return read_flags(path.parents[image.count("/")])
    return None


def _failure(program: str, target: str, status: int, log: Path) -> KtrialError:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        found = read_failure(file.read().decode(errors="replace"))
    cause = found.cause or f"{program} {target} ended with status {status}"
    excerpt = "\n".join(f"  {line}" for line in found.excerpt)
    step = found.step or "fix the error above, then run the same command again"
    return KtrialError(f"the build failed: {cause}\n{excerpt}\nlog: {log}", hint=step)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            return


def _available() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None

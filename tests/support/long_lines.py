# SPDX-License-Identifier: Apache-2.0
"""Long lines that a reader may meet, and how the time to read them grows with their length."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.readers import REFUSALS, Reader

ROOT = Path(__file__).resolve().parents[2]
#: Contents of a line: separators, brackets, quotes and escapes of several formats, and words and numbers.
FILLINGS = (
    *(
        b"a",
        b"7",
        b" ",
        b"\t",
        b"\r",
        b",",
        b";",
        b":",
        b"=",
        b"%",
        b"\\",
        b'"',
        b"'",
        b"`",
        b"[",
        b"{",
        b"(",
        b")",
        b"<",
    ),
    *(b"|", b"&", b"*", b"?", b"-", b".", b"/", b"#", b"$", b"\0", b"\xff", b"\xc3\xa9", b"\x1b["),
    *(
        b"a ",
        b"a,",
        b"a=",
        b"1.",
        b"1 ",
        b"-a ",
        b"$(",
        b"${a",
        b'"a" ',
        b"a;",
        b"[]",
        b"{}",
        b"()",
        b"(a",
        b"&&",
        b"<a>",
    ),
    *(
        b"a:1 ",
        b"a/",
        b"a-",
        b'{"a":',
        b'"a":1,',
        b"\\n",
        b"\\ud8",
        b"pre: ",
        b"echo a>",
        b"if a;",
        b"%d",
        b"a.b",
        b"0x",
    ),
)
#: A selection of them.
FEW = (b"a", b" ", b"7", b'"', b",", b"\\", b"[", b"(", b"%", b"=", b"-", b"a ", b"a=", b'{"a":', b"\0")
#: Contents that are put into a line of a format's own sample.
WITHIN = (b"a ", b" ", b"-", b"a", b"7", b'"', b"(", b",", b"a=", b".", b"\\")
_LARGEST_SAMPLE = 32_768
_NAMES = {"list": "blog_list"}
#: CPU seconds after which a reading is stopped: a hundred times the allowed time.
CAP_S = 20.0
#: Seconds that a small text may always take, because shorter times cannot be measured well.
DUE_S = 0.01
#: How much more than in proportion the larger text may take, because of colder memory and a busier machine.
_SLACK = 3
_ROOM_BYTES = 256 << 20
_LONG_LINE = 16_000


class TooLong(BaseException):
    """The reading took longer than the cap."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLong after this much CPU time."""

    def end(_number: int, _frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def samples(name: str) -> list[bytes]:
    """Return recorded inputs of the format after which a reader's module is named."""
    stem = name.split(".")[1]
    places = [*ROOT.glob("tests/golden/imports/*/*/input*"), *ROOT.glob("tests/golden/formats_foreign/*/*/input")]
    found = []
    for path in sorted(places):
        kind = path.parent.parent.name.replace("-", "_").replace(".", "_")
        if _NAMES.get(kind, kind) == stem and path.is_file():
            found.append(path)
    for case in sorted(ROOT.glob(f"src/ktrial/bench/adapters/{stem}/cases/*")):
        found += [
            path for path in sorted(case.rglob("*")) if path.name in {"stdout", "stderr"} or "files" in path.parts
        ]
    kept = [path.read_bytes() for path in found if path.is_file() and 0 < path.stat().st_size <= _LARGEST_SAMPLE]
    return kept[:: max(1, len(kept) // 3)][:3]


def places(sample: bytes) -> Iterator[Callable[[bytes], bytes]]:
    """Yield the places in a sample where a filling may be: inside and at the end of some lines."""
    lines = sample.split(b"\n")
    chosen = [at for at, line in enumerate(lines) if line.strip()]
    for at in chosen[:: max(1, len(chosen) // 6)][:6]:
        begin = len(b"\n".join(lines[:at])) + (at > 0)
        for place in (begin + len(lines[at]) // 2, begin + len(lines[at])):
            yield lambda filling, place=place: sample[:place] + filling + sample[place:]  # type: ignore[misc]


def took_s(reader: Reader, data: bytes, cap_s: float = CAP_S) -> float:
    """Return the CPU time of one reading; infinite if it does not end."""
    begin_s = time.process_time()
    try:
        with at_most(cap_s), suppress(*REFUSALS):
            reader(data)
    except TooLong:
        return float("inf")
    return time.process_time() - begin_s


def filled(filling: bytes, size: int) -> bytes:
    """Return this many bytes of the filling."""
    return (filling * (size // len(filling) + 1))[:size]


def in_lines(filling: bytes, size: int) -> bytes:
    """Return this many bytes, in lines of the maximum length that readers accept."""
    line = filled(filling, _LONG_LINE) + b"\n"
    return filled(line, size)


def few(name: str) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Yield the shortest inputs: single fillings, and some inside the first recorded input."""
    for filling in FEW:
        yield f"{filling!r}", partial(filled, filling)
    for sample in samples(name)[:1]:
        for place, put in enumerate(places(sample)):
            for filling in WITHIN[:3]:
                yield f"{filling!r} at place {place} of sample 0", partial(_put, put, filling)


def texts(name: str) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Yield the inputs: each filling as the only line of a file, in many lines, and inside a recorded input."""
    for filling in FILLINGS:
        yield f"{filling!r}", partial(filled, filling)
        yield f"lines of {filling!r}", partial(in_lines, filling)
    for number, sample in enumerate(samples(name)):
        for place, put in enumerate(places(sample)):
            for filling in WITHIN:
                yield f"{filling!r} at place {place} of sample {number}", partial(_put, put, filling)


def _put(put: Callable[[bytes], bytes], filling: bytes, size: int) -> bytes:
    return put(filled(filling, size))


def slower(reader: Reader, make: Callable[[int], bytes], sizes: tuple[int, int]) -> str | None:
    """Return both times if the larger text took more than in proportion; otherwise None."""
    small, large = sizes
    with at_most_bytes(64 * large + _ROOM_BYTES):
        small_s = took_s(reader, make(small))
        allowed_s = _SLACK * large / small * max(small_s, DUE_S)
        large_s = took_s(reader, make(large), allowed_s)
    return None if large_s <= allowed_s else f"{small_s:.3f} s for {small} bytes, {large_s:.3f} s for {large}"


@contextmanager
def at_most_bytes(room: int) -> Iterator[None]:
    """Limit the growth of memory; a larger allocation raises MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

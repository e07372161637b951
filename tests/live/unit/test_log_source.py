# SPDX-License-Identifier: Apache-2.0
"""Numbers in the lines of a log that is renamed, emptied, and written to by anybody."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import BadInput
from ktrial.live.model import LiveMetric, Stretch, StretchReading
from ktrial.live.parse import open_source
from ktrial.live.sources.follow import LINE_BYTES, FileHere, LineSplitter
from ktrial.live.sources.line_pattern import line_pattern
from tests.support.live import START_MS, StillClock, world

TOOK = "match=took ([0-9.]+) ms"


class Logged:
    """A log that a source follows, once a second."""

    def __init__(
        self, folder: Path, options: str, name: str = "m_ms", *, is_remote: bool = False, kind: str = "log"
    ) -> None:
        self.clock = StillClock()
        self.file = folder / "app.log"
        self.file.write_bytes(b"took 99 ms\n")
        metric = LiveMetric(name, "lower", f"{kind}:{self.file}?{options}")
        self.source = open_source(metric, world(self.clock, run=self.run, is_remote=is_remote))
        self.source.begin()

    @staticmethod
    def run(words: Sequence[str], limit_s: float) -> RawOutput:
        ran = subprocess.run(words, capture_output=True, timeout=limit_s, check=False)
        return RawOutput(stdout=ran.stdout[:64], stderr=ran.stderr, exit_status=ran.returncode)

    def write(self, data: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(data)

    def poll(self, data: bytes = b"") -> list[float]:
        if data:
            self.write(data)
        self.clock.pass_s(1)
        return [sample.value for sample in self.source.poll()]

    def over(self, begin_s: float, end_s: float) -> StretchReading:
        return self.source.over(Stretch(START_MS + round(begin_s * 1000), START_MS + round(end_s * 1000)))


@pytest.mark.parametrize("is_remote", [False, True])
def test_lines_of_a_stretch_have_a_mean(tmp_path: Path, is_remote: bool) -> None:
    log = Logged(tmp_path, TOOK, is_remote=is_remote)
    assert log.poll(b"took 1 ms\nnothing\ntook 3 ms\ntook 5") == [pytest.approx(0.002)]
    assert log.poll(b"0 ms\n\xff\x00 binary \xfe\n" + b"took 70 ms\n" * 20) == [pytest.approx(1.45 / 21)]
    assert log.poll() == []
    found = log.over(0, 2)
    assert found.value == pytest.approx(0.002)
    assert found.samples == 2
    assert log.over(0, 2.5).samples == 23


def test_a_log_is_followed_over_renames_and_when_it_is_emptied(tmp_path: Path) -> None:
    log = Logged(tmp_path, f"{TOOK}&take=count", "lines")
    log.write(b"took 1 ms\n")
    log.file.rename(tmp_path / "app.log.1")
    assert log.poll() == [1.0]
    with (tmp_path / "app.log.1").open("ab") as file:
        file.write(b"took 1 ms\n")
    log.file.write_bytes(b"took 1 ms\ntook 1 ms\n")
    assert log.poll() == [3.0]
    # copytruncate, then fewer and then more bytes than before
    for lines in (1, 40):
        log.file.write_bytes(b"")
        log.write(b"took %d ms\n" % (lines + 1) * lines)
        assert log.poll() == [float(lines)]
    found = log.over(0.5, 4.5)
    assert (found.value, found.samples) == (45 / 4, 45)


def test_a_night_without_lines_is_missing(tmp_path: Path) -> None:
    log = Logged(tmp_path, f"{TOOK}&take=p50")
    for _ in range(10):
        log.poll()
    assert log.over(0, 10).why == f"no line of {log.file} matches the expression"
    log.poll(b"took fast ms\ntook 1,5 ms\n")
    log.clock.pass_s(60)
    assert log.over(0, 11.5).value is None
    assert (log.over(0, 50).why or "").startswith("nothing was read for")


def test_part_of_a_number_is_no_number(tmp_path: Path) -> None:
    log = Logged(tmp_path, "match=took ([0-9]+)")
    assert log.poll(b"took 1,500 ms\n") == []
    assert log.over(0, 1.5).why == f"the expression matches only part of '1,500' in {log.file}"
    assert log.poll(b"other\n") == []
    assert log.over(1.5, 2.5).why == f"no line of {log.file} matches the expression"
    assert Logged(tmp_path, "match=(?:took ([0-9]+)|other)").poll(b"other\ntook 3\n") == [0.003]


def test_a_word_is_no_number(tmp_path: Path) -> None:
    log = Logged(tmp_path, "match=took ([^ ]*) ms")
    assert log.poll(b"took long ms\n") == []
    assert log.over(0, 1.5).why == f"the expression matches 'long' instead of a finite number in {log.file}"


def test_quantiles_need_lines_beyond_them(tmp_path: Path) -> None:
    log = Logged(tmp_path, f"{TOOK}&take=p99")
    log.poll(b"".join(b"took %d ms\n" % number for number in range(1, 100)))
    assert log.over(0, 1.5).why == "99 lines are too few for p99"
    log.poll(b"took 100 ms\n")
    assert log.over(0, 2.5).value == pytest.approx(0.099)


def test_a_share_of_lines(tmp_path: Path) -> None:
    log = Logged(tmp_path, r"match= ([0-9]{3}) &take=share&of=5\d\d", "errors")
    assert log.poll(b"GET / 200 1\nGET / 503 1\nGET / 500 1\nno status\nGET / 404 1\n") == [0.5]
    assert log.source.outcome.unit == "ratio"


def test_lines_that_were_skipped_void_the_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrial.live.sources.follow.MOST_BYTES", 100)
    log = Logged(tmp_path, TOOK)
    log.poll(b"took 1 ms\n" * 50)
    assert "lines were skipped" in (log.over(0, 1.5).why or "")


@pytest.mark.parametrize("name", ["none.log", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    source = open_source(LiveMetric("m", "lower", f"log:{tmp_path}/{name}?{TOOK}"), world(StillClock()))
    with pytest.raises(BadInput) as error:
        source.begin()
    assert error.value.hint


def test_a_log_that_cannot_be_opened_any_more_gives_nothing(tmp_path: Path) -> None:
    log = Logged(tmp_path, TOOK)
    log.file.rename(tmp_path / "old")
    log.file.mkdir()
    for _ in range(5):
        assert log.poll() == []
    assert f"{log.file} is not a file" in (log.over(0, 5).why or "")


def test_a_disk_that_was_full_leaves_a_gap_and_no_number_of_two_halves(tmp_path: Path) -> None:
    log = Logged(tmp_path, TOOK)
    assert log.poll(b"took 10 ms\ntook 1") == [0.01]
    # What the program could not write is gone, and the next line follows what it could.
    assert [log.poll() for _ in range(4)] == [[]] * 4
    assert log.over(1.5, 4.5).why == f"no line of {log.file} matches the expression"
    assert log.poll(b"took 30 ms\n") == [0.03]


def test_frames_of_a_stretch_have_statistics(tmp_path: Path) -> None:
    log = Logged(tmp_path, r"match=frame (?P<ms>[0-9.]+) ms", "worst", kind="frames")
    found = [log.poll(b"frame 10 ms\n" * 60 + b"frame 30.5 ms\nframe 0 ms\n") for _ in range(4)]
    assert found == [[], [0.0305], [], [0.0305]]
    reading = log.over(0, 4.5)
    assert reading.value == pytest.approx(0.0305)
    assert reading.samples == 244
    log.poll(b"frame 10 ms\n")
    assert "too few" in (log.over(4.5, 5.5).why or "")


@given(st.lists(st.binary(max_size=50)), st.integers(1, 7))
def test_lines_are_the_same_in_any_parts(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    whole, split = LineSplitter().feed(data), LineSplitter()
    found = [line for at in range(0, len(data), size) for line in split.feed(data[at : at + size])]
    assert found == whole == data.split(b"\n")[:-1]


def test_long_lines_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    file = FileHere(str(path))
    path.write_bytes(b"x" * 700_000 + b"\nshort\n" + b"y" * 5000)
    first, second = file.take()
    assert (len(first), second) == (LINE_BYTES, b"short")
    file.close()


@pytest.mark.parametrize(
    "text",
    [
        r"(\d+)+x",
        r"(?:a*)*(b)",
        r"(.*) .* .* x",
        r"(?:a|ab)*(c)",
        r"(a)\1",
        r"(?=.*a)(b)",
        r".*a.*b(.*)c",
        r"(?:\w+\s?)+(x)",
        r"(?i)[a-z]+(A)[A-Z]+b",
        r"(?:a{0,60}){0,60}(b)",
        r"(?:.*a|.*b.*c)(d).*e",
        r"(?:.*a)?(?:.*b)?(?:.*c)?(d)",
        r"(\S+)→\S+→x",
        r".{9,}b+(x)$",
        r"\w{0,3}.*?[ab]*?(1)x",
        r"(?:a?b?c?d?e?){2}(x)y",
    ],
)
def test_expressions_that_may_take_long_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="may take very long"):
        line_pattern(text, "match", (1,))


LINE = '10.0.0.1 - - [01/Jan/2026:10:00:00 +0000] "GET /a b?c=d HTTP/1.1" 503 1234 "-" "curl/8" took=12.5ms'


@pytest.mark.parametrize(
    "text, found",
    [
        (r"took=([0-9.]+)", "12.5"),
        (r"GET .* took=([0-9.]+)ms", "12.5"),
        (r"HTTP/1\.1\" (\d{3}) ", "503"),
        (r"^\S+ \S+ \S+ \[[^\]]+\] \"[^\"]*\" (\d+) ", "503"),
        (r"^(?:\d{1,3}\.){3}\d{1,3} .* took=(\S+)ms$", "12.5"),
        (r"(?i)\"(?:get|post) .*TOOK=([\d.]+)", "12.5"),
    ],
)
def test_usual_expressions_are_taken_and_no_line_takes_long(text: str, found: str) -> None:
    pattern = line_pattern(text, "match", (1,))
    match = pattern.search(LINE)
    assert match is not None
    assert match[1] == found
    begin = time.process_time()
    for part in (LINE, " ", "1", "took=", '"GET ', "took=1", "1.1.", "[", '" 5'):
        pattern.search(part * (LINE_BYTES // len(part)))
    assert time.process_time() - begin < 8


@given(st.text(alphabet="ab.*+?()[]{}|\\^$1,2-dwsSi:=!<P"))
def test_any_expression_is_compiled_or_refused(text: str) -> None:
    try:
        assert line_pattern(text, "match", (0, 1)).groups <= 1
    except BadInput as error:
        assert error.hint

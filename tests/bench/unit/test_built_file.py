# SPDX-License-Identifier: Apache-2.0
"""A file that a build writes: its bytes, and whether it was written anew."""

from pathlib import Path

from ktrial.bench.run.built_file import look


def test_the_same_bytes_written_anew_are_told_from_a_file_that_was_left(tmp_path: Path) -> None:
    path = tmp_path / "prog"
    assert look(str(path)) is None
    assert look(str(tmp_path)) is None
    path.write_bytes(b"one")
    first = look(str(path))
    assert first is not None
    assert first == look(str(path))
    other = tmp_path / "other"
    other.write_bytes(b"one")
    other.rename(path)
    again = look(str(path))
    assert again is not None
    assert again.sha256 == first.sha256
    assert again.written != first.written

# SPDX-License-Identifier: Apache-2.0
"""What holds for every reader: names what it cannot read, fails on what it does not recognise, never raises anything
else.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.tuning.origin.formats.lines import FileReading, ForeignFormatError
from ktrial.tuning.origin.formats.sniff import READERS, Format, read, sniff

GOLDEN = Path(__file__).parents[2] / "golden" / "formats_foreign"
INPUTS = {str(path.relative_to(GOLDEN)): path.read_bytes() for path in sorted(GOLDEN.glob("*/*/input"))}
FORMATS: tuple[Format, ...] = get_args(Format)
NOISE = "()[]{}<>|&;=\"'`$\\#*?!-+:.,/\n\r\t \0%~^@0aé\ufeff\u2028"


def checked(format_name: Format, data: str | bytes) -> None:
    """Read; a declared error is fine, and every record must name a line of the text."""
    try:
        reading = READERS[format_name](data, "f")
    except ForeignFormatError:
        return
    lines = data.count("\n" if isinstance(data, str) else b"\n") + 1  # type: ignore[arg-type]
    records = [(item.file, item.line_number) for item in reading.assignments]
    records += [(item.file, item.line_number) for item in reading.unread]
    assert all(file == "f" and 1 <= number <= lines for file, number in records)
    assert all(item.name for item in reading.assignments)
    assert all(item.reason for item in reading.unread)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("data", ["", "\n\n", b""])
def test_nothing_is_nothing(format_name: Format, data: str | bytes) -> None:
    if format_name == "list":
        with pytest.raises(ForeignFormatError):
            READERS[format_name](data, "f")
    else:
        assert READERS[format_name](data, "f") == FileReading(file="f")


@pytest.mark.parametrize("format_name", [name for name in FORMATS if name not in ("command-line", "list")])
def test_text_of_another_kind_is_refused(format_name: Format) -> None:
    text = "@@ nothing here ]] means (anything\n%% nor here\n"
    with pytest.raises(ForeignFormatError) as caught:
        READERS[format_name](text, "some/file")
    assert caught.value.file == "some/file"
    assert caught.value.line_number == 1
    assert str(caught.value).startswith("some/file:1: ")


@pytest.mark.parametrize("format_name", FORMATS)
def test_bytes_that_are_no_text_are_named(format_name: Format) -> None:
    sample = next(data for name, data in INPUTS.items() if name.startswith(f"{format_name}/"))
    reading = READERS[format_name](sample.rstrip(b"\n") + b"\n\xff\xfe\n", "f")
    assert sample.rstrip(b"\n").count(b"\n") + 2 in {item.line_number for item in reading.unread}


@settings(max_examples=60, deadline=None)
@given(data=st.text(max_size=400) | st.text(alphabet=NOISE + "echo sysctl vm.", max_size=400))
def test_arbitrary_text(data: str) -> None:
    for format_name in FORMATS:
        checked(format_name, data)
    assert sniff("-", data).format in FORMATS


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes(data: bytes) -> None:
    for format_name in FORMATS:
        checked(format_name, data)
    assert sniff("-", data).format in FORMATS


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(INPUTS)), seed=st.integers(0, 2**32))
def test_mutated_real_inputs(name: str, seed: int) -> None:
    chance = random.Random(seed)
    text = list(INPUTS[name].decode("utf-8", "replace"))
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                text[at] = chance.choice(NOISE)
            case 1:
                text.insert(at, chance.choice(NOISE))
            case 2:
                del text[at : at + chance.randint(1, 20)]
            case _:
                text[at:at] = text[chance.randrange(len(text)) :][:30]
        if not text:
            break
    mutated = "".join(text)
    for format_name in FORMATS:
        checked(format_name, mutated)
    with suppress(ForeignFormatError):
        read(mutated, "-")


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    "data", ["$(" * 3000, "((" * 3000, '"' * 5001, "a=" * 4000, "[" * 5000, " " * 20000 + "x", "vm." * 4000]
)
def test_long_and_nested_text_ends(format_name: Format, data: str) -> None:
    checked(format_name, data)
    checked(format_name, f"echo $(({'(' * 300}1{')' * 300})) > /proc/sys/vm/swappiness\n" + data)


def test_shell_loops_end() -> None:
    text = "f() { f; f; }\nf\n" + "for a in 1 2 3 4 5 6 7 8; do\n" * 12 + "echo $a > /sys/x\n" + "done\n" * 12
    checked("shell", text)

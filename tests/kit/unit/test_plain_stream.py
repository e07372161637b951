# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import click
import pytest

from ktrial.cli.main import cli, main
from ktrial.kit.console import LiveLines
from ktrial.kit.streams import draw, pass_on, plain_stream, tell
from tests.support.tree import FakeRoot

HOSTILE = "\x1b[31m\x9b2J\u202eevil\u2066\u2028\ufeff\r"
SHOWN = "\\x1b[31m\\x9b2J\\u202eevil\\u2066\\u2028\\ufeff\\r"
COLOURLESS = SHOWN.removeprefix("\\x1b[31m")  # click's own writer takes colours out where there is no terminal


@click.command("hostile")
def hostile() -> None:
    """Write to both streams as verbs do, and end with an error."""
    sys.stdout.write(HOSTILE + "\n")
    click.echo(HOSTILE)
    print(HOSTILE, file=sys.stderr)  # noqa: T201 (as verbs do)
    click.echo(HOSTILE, err=True)
    tell(sys.stderr, HOSTILE)
    raise click.UsageError(HOSTILE)


def test_what_any_verb_writes_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "resolve_command", lambda _context, words: (words[0], hostile, words[1:]))
    out, err = io.StringIO(), io.StringIO()
    assert main(["hostile"], out, err) == 2
    assert out.getvalue() == f"{SHOWN}\n{COLOURLESS}\n"
    assert err.getvalue().count(COLOURLESS) == 4
    assert not set("\x1b\x9b\u202e\u2066\u2028\ufeff\r") & set(out.getvalue() + err.getvalue())


def test_bytes_of_somebody_and_drawings_go_through() -> None:
    kept = io.BytesIO()
    stream = plain_stream(io.TextIOWrapper(kept, encoding="utf-8", write_through=True))
    pass_on(stream, b"\x1b\x9b")
    draw(stream, "\x1b[K")
    stream.write("\x1b")
    assert kept.getvalue() == b"\x1b\x9b\x1b[K\\x1b"
    assert stream.encoding == "utf-8"


def test_lines_that_are_drawn_steer_nothing_themselves() -> None:
    drawn: list[str] = []
    lines = LiveLines(drawn.append, lambda: os.terminal_size((80, 24)))
    lines.draw([f"name {HOSTILE}"])
    lines.say(f"said {HOSTILE}\n")
    text = "".join(drawn)
    assert f"name {SHOWN}" in text
    assert f"said {SHOWN}" in text
    assert text.count("\x1b") == text.count("\x1b[K\n") + text.count("\x1b[J") + text.count("\x1b[1A")


def test_json_of_a_value_that_a_kernel_holds(tmp_path: Path) -> None:
    root = FakeRoot(tmp_path)
    value = f"a{HOSTILE}z"
    root.write("/proc/sys/net/ipv4/tcp_congestion_control", value + "\n")
    told = root.run("state", "show", "--json")
    assert told.status == 0, told.err
    assert not set("\x7f\x9b\u202e\u2066\u2028\ufeff\x1b\r") & set(told.out)
    assert "\\u009b" in told.out
    assert "\\u202e" in told.out
    assert repr(value)[1:-1] in str(json.loads(told.out))

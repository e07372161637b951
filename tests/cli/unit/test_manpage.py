# SPDX-License-Identifier: Apache-2.0
"""The manual page holds what the commands say, and roff reads it without complaint."""

import subprocess
from pathlib import Path

import click

from ktrial import __version__
from ktrial.cli.main import cli
from ktrial.cli.manpage import manual_page

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/ktrial.1"


@click.group()
@click.option("--no-sudo", is_flag=True, help="Refuse what needs root.")
def small(no_sudo: bool) -> None:
    """Tune a machine.

    .hidden files and 'quotes' at the begin of a line, a back\\slash, an ellipsis…
    """


@small.command(name="apply")
@click.argument("profile", nargs=-1)
@click.option("--for", "duration", metavar="TIME", help='Revert after "TIME".')
@click.option("--secret", hidden=True, help="Not shown.")
def apply_command(profile: tuple[str, ...], duration: str, secret: str) -> None:
    """Apply a profile.

    \b
    ktrial apply quiet
    ktrial apply ktweak
    """


@small.command(hidden=True)
def internal() -> None:
    """Not for people."""


def rendered(page: str) -> str:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", "-Kutf8"], input=page, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_every_visible_command_and_option_is_there() -> None:
    text = rendered(manual_page(small, "small", "1.2"))
    assert "small - tune a machine" in text
    assert "small apply [OPTIONS] [PROFILE]..." in " ".join(text.split())
    assert "--for TIME" in text
    assert 'Revert after "TIME".' in text
    assert "--no-sudo" in text
    assert "secret" not in text
    assert "internal" not in text
    assert "small 1.2" in text


def test_text_that_looks_like_roff_stays_text() -> None:
    text = rendered(manual_page(small, "small", "1.2"))
    assert ".hidden files and 'quotes' at the begin of a line, a back\\slash, an ellipsis…" in " ".join(text.split())


def test_marked_paragraphs_keep_their_lines() -> None:
    lines = [line.strip() for line in rendered(manual_page(small, "small", "1.2")).splitlines()]
    at = lines.index("ktrial apply quiet")
    assert "       ktrial apply ktweak" in rendered(manual_page(small, "small", "1.2")).splitlines()
    assert lines[at + 1] == "ktrial apply ktweak"


def test_the_page_in_docs_is_fresh() -> None:
    assert PAGE.read_text() == manual_page(cli, "ktrial", __version__), (
        f"{PAGE} is stale: make it anew with `.venv/bin/python -m ktrial man >docs/reference/ktrial.1`"
    )
    rendered(PAGE.read_text())

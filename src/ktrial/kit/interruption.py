# SPDX-License-Identifier: Apache-2.0
"""What a command that was interrupted says, and its exit status."""

from __future__ import annotations

import signal

#: A status beyond this tells the signal: 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
_EXIT_SIGNAL = 128


def words(number: int) -> str:
    """`interrupted`, and by what if not by Ctrl-C."""
    return "interrupted" if number == signal.SIGINT else f"interrupted by {signal.Signals(number).name}"


def status(number: int) -> int:
    """As a shell tells of a program that the signal ended."""
    return _EXIT_SIGNAL + number

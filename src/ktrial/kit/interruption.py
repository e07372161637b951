# SPDX-License-Identifier: Apache-2.0
"""Message and exit status of an interrupted command."""

from __future__ import annotations

import signal

#: Added to the number of the signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
_EXIT_SIGNAL = 128


def words(number: int) -> str:
    """Return `interrupted`, followed by the signal's name unless the signal is SIGINT (Ctrl-C)."""
    return "interrupted" if number == signal.SIGINT else f"interrupted by {signal.Signals(number).name}"


def status(number: int) -> int:
    """Return the exit status that a shell reports for a program that the signal ended."""
    return _EXIT_SIGNAL + number

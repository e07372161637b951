# SPDX-License-Identifier: Apache-2.0
"""What stops a release."""

from __future__ import annotations


class CannotRelease(Exception):
    """A release that cannot be made, with the reason and the next step."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

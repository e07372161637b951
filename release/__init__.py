# SPDX-License-Identifier: Apache-2.0
"""Builds what a release consists of; `setup/release` starts it, and docs/releasing.md says when."""


class CannotRelease(Exception):
    """A release that cannot be made, with the reason and the next step."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

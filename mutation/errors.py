# SPDX-License-Identifier: Apache-2.0
"""What ends a run of the tool itself."""


class CannotRun(Exception):
    """The list does not fit the sources, or the tests do not pass without any fault."""

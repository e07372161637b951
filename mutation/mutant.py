# SPDX-License-Identifier: Apache-2.0
"""A planted fault, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Mutant(NamedTuple):
    """One fault in one function, under a name that holds until that function changes."""

    file: str
    function: str
    what: str

    @property
    def place(self) -> str:
        return f"{self.file}::{self.function}"

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class Fate(Enum):
    """What the tests made of a mutant; one that does not build is no mutant."""

    CAUGHT = "caught"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    UNBUILT = "unbuilt"


Fates = Sequence[tuple[Mutant, Fate]]

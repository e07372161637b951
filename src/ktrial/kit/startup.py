# SPDX-License-Identifier: Apache-2.0
"""What lets short commands start and end sooner, each with what it saves; `__main__` finds the packages sooner too."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from types import ModuleType
from typing import NoReturn


def collect_nothing() -> None:
    """A command is over before there is anything to collect: 4 ms of the 123 that `explain` takes."""
    gc.disable()


def load_msgspec() -> None:
    """Load msgspec without typing_extensions, which others bring: what it takes from there is in typing since 3.11.

    That is a fifteenth of what a short command takes.
    """
    if "typing_extensions" in sys.modules:
        return
    hidden: dict[str, object] = sys.modules  # type: ignore[assignment]
    hidden["typing_extensions"] = None
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]


#: Parts of numpy that load when they are first named, as SciPy's `from numpy import *` does with all of them.
_PARTS = ("f2py", "testing", "random", "fft", "ma", "polynomial", "ctypeslib", "rec", "char", "strings")
#: The functions of scipy.special for arrays that are not numpy's.
_BACKENDS = "scipy.special._support_alternative_backends"


def load_special() -> ModuleType:
    """scipy.special without what it loads for arrays that are not numpy's: less than half of its time.

    Whoever asks for what is left out gets it.
    """
    if "scipy.special" in sys.modules:
        return sys.modules["scipy.special"]
    numpy = importlib.import_module("numpy")
    parts = {part: ModuleType(part) for part in _PARTS if part not in vars(numpy)}
    vars(numpy).update(parts)
    sys.modules[_BACKENDS] = ModuleType(_BACKENDS)
    try:
        special = importlib.import_module("scipy.special")
    finally:
        del sys.modules[_BACKENDS]
        for part, empty in parts.items():
            if vars(numpy)[part] is empty:
                delattr(numpy, part)
    vars(special)["__getattr__"] = _left_out
    return special


def _left_out(name: str) -> object:
    """What a module that is loaded later wants of scipy.special."""
    try:
        return getattr(importlib.import_module(_BACKENDS), name)
    except (AttributeError, ModuleNotFoundError):
        raise AttributeError(f"module 'scipy.special' has no attribute {name!r}") from None


def end(status: int) -> NoReturn:
    """End the process: `main` closed its sessions, and to take modules down one by one is 50 ms of 169 of `explain`."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:  # whoever read it has gone, and knows
            continue
    os._exit(status)

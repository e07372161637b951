# SPDX-License-Identifier: Apache-2.0
"""Plug-ins: what a module of each kind has, one checker that knows it, and those that other packages bring.

A package brings one with an entry point, as `[project.entry-points."ktrial.importers"]` with `mytool = "mine.reader"`.
One that lacks something is named and left out, one that fails when it is used is named; none is loaded by root.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

from ktrial.kit.errors import KtrialError

#: What something is: of this type, or a function of so many arguments.
RunRequest = type | int
_WORDS: Mapping[type, str] = {str: "text", int: "a number", bool: "True or False"}


class Contract(NamedTuple):
    """What a module of a kind has, may have, and of what it has one at least."""

    kind: str
    has: Mapping[str, RunRequest] = {}
    may: Mapping[str, RunRequest] = {}
    one_of: Mapping[str, RunRequest] = {}

    @property
    def group(self) -> str:
        """The group of entry points that bring such modules."""
        return f"ktrial.{self.kind}s"


IMPORTER = Contract(
    kind="importer",
    has={"NAME": str, "WHAT": str, "sniff": 2, "read": 3},
    may={"TAKES_COLUMNS": bool, "TAKES_FRAMES": bool},
)
EXPORTER = Contract(kind="exporter", has={"NAME": str, "WHAT": str, "write": 1})
CHART = Contract(kind="chart", has={"PLACE": int}, one_of={"of_comparison": 2, "of_outcome": 3})
BENCHMARK = Contract(kind="benchmark", one_of={"BENCHMARK": object, "BENCHMARKS": tuple})


def faults(module: object, contract: Contract) -> tuple[str, ...]:
    """Return what a module lacks of its contract, in words."""
    found = [_fault(module, name, wanted) for name, wanted in contract.has.items()]
    there = [(name, wanted) for name, wanted in {**contract.may, **contract.one_of}.items() if hasattr(module, name)]
    found += [_fault(module, name, wanted) for name, wanted in there]
    if contract.one_of and not any(hasattr(module, name) for name in contract.one_of):
        found.append(f"it has neither {' nor '.join(f'`{name}`' for name in contract.one_of)}")
    return tuple(one for one in found if one is not None)


def _fault(module: object, name: str, wanted: RunRequest) -> str | None:
    if not hasattr(module, name):
        return f"it has no `{name}`"
    value = getattr(module, name)
    if isinstance(wanted, int):
        return _of_function(name, value, wanted)
    return None if isinstance(value, wanted) else f"`{name}` is not {_WORDS.get(wanted, wanted.__name__)}"


def _of_function(name: str, value: object, count: int) -> str | None:
    import inspect  # slow to load, and for plug-ins of others alone

    if not callable(value):
        return f"`{name}` is not a function"
    try:
        inspect.signature(value).bind(*range(count))
    except ValueError:  # a function in C may not tell
        return None
    except TypeError:
        return f"`{name}` cannot be called with {count} arguments"
    return None


Result = TypeVar("Result")


def guarded(function: Callable[..., Result], what: str) -> Callable[..., Result]:
    """Return a function of another package, whose faults become errors that name it."""

    def called(*arguments: object) -> Result:
        try:
            return function(*arguments)
        except KtrialError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 (as below)
            hint = "tell who made it, or remove its package"
            raise KtrialError(f"{what} failed: {type(error).__name__}: {error}", hint=hint) from None

    return called


def of_others(contract: Contract, warn: Callable[[str], None]) -> Iterator[tuple[str, ModuleType]]:
    """Modules of this kind from other packages, by name; `warn` gets a sentence for each that cannot be used."""
    if os.geteuid() == 0 or not _are_there():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=contract.group), key=lambda one: one.name):
        try:
            module = point.load()
            wrong = faults(module, contract)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it raises, it is not ours)
            wrong = (f"{type(error).__name__}: {error}",)
            module = None
        if module is not None and not wrong:
            yield point.name, module
        else:
            package = point.dist.name if point.dist is not None else point.value
            warn(f"the {contract.kind} {point.name} of {package} is left out: {'; '.join(wrong)}")


def _are_there() -> bool:
    """Return whether any package brings one: what else would load takes longer than all of a short command."""
    try:
        return any(
            b"[ktrial." in entry.read_bytes()
            for folder in sys.path
            for entry in Path(folder or ".").glob("*.dist-info/entry_points.txt")
        )
    except OSError:  # one that this user may not read: whoever loads them knows what to do
        return True

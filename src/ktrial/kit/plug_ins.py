# SPDX-License-Identifier: Apache-2.0
"""Plug-ins: the contract of each kind of module, a checker, and the plug-ins of other packages.

A package registers a plug-in as an entry point, such as `mytool = "mine.reader"` in the table
`[project.entry-points."ktrial.importers"]`. A plug-in that breaks its contract is skipped with a warning. An error in a
plug-in names the plug-in. ktrial loads no plug-ins as root.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

from ktrial.kit.errors import KtrialError

#: What a name must be: a value of this type, or a function that takes this many arguments.
RunRequest = type | int
_WORDS: Mapping[type, str] = {str: "text", int: "a number", bool: "True or False"}


class Contract(NamedTuple):
    """The names that a kind of module must define (`has`) or may define (`may`); it needs at least one of `one_of`."""

    kind: str
    has: Mapping[str, RunRequest] = {}
    may: Mapping[str, RunRequest] = {}
    one_of: Mapping[str, RunRequest] = {}

    @property
    def group(self) -> str:
        """Return the group of entry points that register modules of this kind."""
        return f"ktrial.{self.kind}s"


IMPORTER = Contract(
    kind="importer",
    has={"NAME": str, "WHAT": str, "sniff": 2, "read": 3},
    may={"TAKES_COLUMNS": bool, "TAKES_FRAMES": bool},
)
EXPORTER = Contract(kind="exporter", has={"NAME": str, "WHAT": str, "write": 1})
CHART = Contract(kind="chart", has={"PLACE": int}, one_of={"of_comparison": 2, "of_outcome": 3})
TARGET = Contract(
    kind="target",
    has={"NAME": str, "WHAT": str, "FORMS": frozenset, "NEXT": str, "refusal": 1, "write": 1},
    may={"ON_PHONE": bool},
)
BENCHMARK = Contract(kind="benchmark", one_of={"BENCHMARK": object, "BENCHMARKS": tuple})


def faults(module: object, contract: Contract) -> tuple[str, ...]:
    """Return a sentence for each way in which a module breaks its contract."""
    optional = {name: shape for name, shape in {**contract.may, **contract.one_of}.items() if hasattr(module, name)}
    wrong = [_fault(module, name, shape) for name, shape in {**contract.has, **optional}.items()]
    if contract.one_of and not any(hasattr(module, name) for name in contract.one_of):
        wrong.append(f"it has neither {' nor '.join(f'`{name}`' for name in contract.one_of)}")
    return tuple(one for one in wrong if one is not None)


def _fault(module: object, name: str, wanted: RunRequest) -> str | None:
    if not hasattr(module, name):
        return f"it has no `{name}`"
    value = getattr(module, name)
    if isinstance(wanted, int):
        return _of_function(name, value, wanted)
    return None if isinstance(value, wanted) else f"`{name}` is not {_WORDS.get(wanted, wanted.__name__)}"


def _of_function(name: str, value: object, count: int) -> str | None:
    import inspect  # slow to load, and needed only for plug-ins of other packages

    if not callable(value):
        return f"`{name}` is not a function"
    try:
        inspect.signature(value).bind(*range(count))
    except ValueError:  # a function written in C may have no signature
        return None
    except TypeError:
        return f"`{name}` cannot be called with {count} arguments"
    return None


Result = TypeVar("Result")


def guarded(function: Callable[..., Result], what: str) -> Callable[..., Result]:
    """Wrap a function of another package: its exceptions become errors that name `what`."""

    def called(*arguments: object) -> Result:
        try:
            return function(*arguments)
        except KtrialError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 (as below)
            hint = "report the failure to the author of the plug-in"
            raise KtrialError(f"{what} failed: {type(error).__name__}: {error}", hint=hint) from None

    return called


def of_others(contract: Contract, warn: Callable[[str], None]) -> Iterator[tuple[str, ModuleType]]:
    """Yield the name and the module of each usable plug-in from other packages; call `warn` for each unusable one.

    For root, yield no plug-ins.
    """
    if os.geteuid() == 0 or not _are_there():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=contract.group), key=lambda one: one.name):
        try:
            module = point.load()
            wrong = faults(module, contract)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (foreign code may raise anything)
            wrong = (f"{type(error).__name__}: {error}",)
            module = None
        if module is not None and not wrong:
            yield point.name, module
        else:
            package = point.dist.name if point.dist is not None else point.value
            warn(f"skipped the {contract.kind} {point.name} of {package}: {'; '.join(wrong)}")


def _are_there() -> bool:
    """Return whether any package registers a plug-in. This avoids importlib.metadata, which is slow to load."""
    try:
        return any(
            b"[ktrial." in entry.read_bytes()
            for folder in sys.path
            for entry in Path(folder or ".").glob("*.dist-info/entry_points.txt")
        )
    except OSError:  # this user may not read a folder: importlib.metadata copes with it
        return True

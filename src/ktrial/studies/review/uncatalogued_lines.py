# SPDX-License-Identifier: Apache-2.0
"""Reviews lines for settings that the catalog lacks: their values here, if they are sysctls or files of settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ktrial.kit.tables import clean, shorten
from ktrial.studies.review.model import ReviewedLine
from ktrial.tuning.knobs.knob import ROOTS
from ktrial.tuning.origin.formats.command_line import same_name, split_words

if TYPE_CHECKING:
    from ktrial.machine.ports import Machine
    from ktrial.machine.reading import Reading
    from ktrial.tuning.origin.formats.lines import Assignment
    from ktrial.tuning.origin.import_profile import UnknownSetting
    from ktrial.tuning.plans.model import Context

_FILE = re.compile(r"/(?:proc/)?sys(?:/(?!\.{1,2}(?:/|\Z))[^/*?\[\]{}\s]+)+")
#: The folder of files that are not read, because reading them may wait or change something.
_DEBUGFS = "/sys/kernel/debug/"
_LONGEST_VALUE = 60


def uncatalogued_lines(
    user: Machine, pairs: Sequence[tuple[Assignment, UnknownSetting]], context: Context, program: str
) -> Iterator[ReviewedLine]:
    """Yield a reviewed line for each setting that has no knob, or whose value the knob rejects."""
    paths = [path for item, found in pairs if found.no_such_knob and (path := _path(item)) is not None]
    readings = user.read(list(dict.fromkeys(paths))) if paths else {}
    for item, found in pairs:
        if found.no_such_knob:
            yield _line(item, found, readings, context, program)
        else:
            yield ReviewedLine(
                line=item.line_number, text=item.text, setting=_as_written(item), state="invalid", why=found.reason
            )


def _as_written(item: Assignment) -> str:
    return item.name if item.value is None else f"{item.name}={item.value}"


def _path(item: Assignment) -> str | None:
    """Return the file of a setting; None if its name is a pattern, or not a file name."""
    path = None
    if item.kind == "sysctl":
        path = "/proc/sys/" + item.name.translate(str.maketrans("./", "/."))
    elif item.kind == "path":
        path = item.name
    elif item.kind in ("module", "boot") and "." in item.name:
        module, _, parameter = item.name.partition(".")
        path = f"/sys/module/{module.replace('-', '_')}/parameters/{parameter}"
    is_file = path is not None and _FILE.fullmatch(path) and path.startswith(ROOTS)
    return path if is_file and path is not None and not path.startswith(_DEBUGFS) else None


def _line(
    item: Assignment, found: UnknownSetting, readings: Mapping[str, Reading | None], context: Context, program: str
) -> ReviewedLine:
    why = found.reason.replace("unknown knob", "the catalog has no knob", 1)
    path = _path(item)
    reading = readings.get(path) if path is not None else None
    now = None
    if reading is not None and reading.text is not None:
        now = shorten(clean(" ".join(reading.text.split())), _LONGEST_VALUE)
    elif item.kind == "boot":
        now = _on_command_line(item, context)
    is_set = now is not None and now == ("on" if item.value is None else " ".join(item.value.split()))
    missing = path is not None and reading is None
    if missing:
        _, advice, names = why.partition("; did you mean ")
        why = f"{path} does not exist{advice}{names}"
    return ReviewedLine(
        line=item.line_number,
        text=item.text,
        setting=_as_written(item),
        state="already set" if is_set else "not here" if missing else "unknown",
        now=now,
        why=why,
        next=f"{program} why {shlex.quote(path)}" if reading is not None and path is not None else None,
    )


def _on_command_line(item: Assignment, context: Context) -> str | None:
    line = context.facts.value("kernel.command_line")
    words = split_words(line.partition(" -- ")[0]) if isinstance(line, str) else []
    same = [(equals, value) for name, equals, value in (w.partition("=") for w in words) if same_name(name, item.name)]
    return None if not same else same[-1][1] if same[-1][0] else "on"

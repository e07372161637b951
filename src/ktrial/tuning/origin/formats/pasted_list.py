# SPDX-License-Identifier: Apache-2.0
"""A pasted list of settings with free text: bullets, headings, tables, commands, udev rules, `name: 60 --> 10`.

A saved web page is read as a list too. Lines of other formats in the list (kernel command lines, module options, lines
of tmpfiles.d) are read by their own readers. Prose without the name of a setting is ignored and counted. A line is
reported as unread if it names a scheduler, a kernel, or a setting without a clear value. A value is unclear if there
are several candidates, or if it has a unit that the kernel does not take. The reader does not guess a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from ktrial.tuning.origin.formats import command_line, modprobe_d, shell, sysctl_d, tmpfiles_d, udev
from ktrial.tuning.origin.formats.lines import (
    Assignment,
    FileReading,
    ForeignFormatError,
    Line,
    TargetKind,
    Unread,
    in_order,
    split_lines,
    unread_line,
)
from ktrial.tuning.origin.formats.web_page import is_page, page_lines

_KEY = r"(?:vm|kernel|net|fs|dev|user|abi|debug)(?:[./][A-Za-z0-9_*/-]++)++"
_PATH = r"/(?:sys|proc/sys|proc/irq)/[A-Za-z0-9_./*?\[\]{}:@-]*[A-Za-z0-9_*\]}]"
_MODULE = r"[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*"
_NAMED = re.compile(rf"(?P<path>{_PATH})|(?<![\w./:-])(?P<key>{_KEY})")
_SETTING = re.compile(rf"(?:(?P<path>{_PATH})|(?P<key>{_KEY}))\s*(?P<sign>:=|:|=>|=|-+>|→)?\s*(?P<rest>.*)")
#: `name=value` within a sentence, and what must follow it.
_INLINE_VALUE = re.compile(r"\s?=\s?(?P<value>[+-]?[A-Za-z0-9][A-Za-z0-9_.+-]*+)(?P<after>[)\]\"',;:!?]*+)(?=\s|\Z)")
#: Words with which a sentence does not recommend the value that it names.
_AGAINST = re.compile(
    r"\b(?:not|never|avoid|don't|without|instead|rather|unless|defaults?|was|were|from|than|or|either|between|don\u2019t)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`([^`]{1,300})`")
_OF_BOOT = re.compile(
    r"\b(?:boot|kernel|cmdline|command[ -]line|grub|parameters?|arguments?|options?)\b", re.IGNORECASE
)
_BOOT = re.compile(rf"(?P<name>{_MODULE}|[a-z][a-z0-9_-]*+)=(?P<value>[^\s=]+)")
#: Boot parameters without a value.
_FLAGS = frozenset(
    (
        *("threadirqs", "nowatchdog", "nosoftlockup", "nosmt", "noautogroup", "nohz", "nohlt", "nomodeset"),
        *("noibrs", "nopti"),
    )
)
#: Files of block queues that people name without a path.
_OF_QUEUES = {
    "iostats": "iostats",
    "readahead": "read_ahead_kb",
    "read_ahead_kb": "read_ahead_kb",
    "nr_requests": "nr_requests",
    "rq_affinity": "rq_affinity",
    "add_random": "add_random",
    "nomerges": "nomerges",
}
_BARE = re.compile(r"(?P<name>[a-z][a-z0-9_]*+)\s*:\s+(?P<rest>.*)")
#: Names of files of governors and modules that people use without the governor or module.
_PLACELESS = re.compile(
    r"(?:go_)?hispeed_(?:load|freq)|(?:above_)?hispeed_delay|input_boost_(?:freq|ms)|(?:up|down)_rate_limit_us"
)
_EXPLAINED = re.compile(r"(?<=\S):\s+[A-Z].*$")
_FEATURES = frozenset(
    (
        *("NEXT_BUDDY", "LAST_BUDDY", "STRICT_SKIP_BUDDY", "CACHE_HOT_BUDDY", "NONTASK_CAPACITY", "TTWU_QUEUE"),
        *("WAKEUP_PREEMPTION", "GENTLE_FAIR_SLEEPERS", "START_DEBIT", "RT_PUSH_IPI", "RUN_TO_PARITY", "PLACE_LAG"),
        *("HRTICK", "SIS_PROP", "SIS_UTIL", "ENERGY_AWARE", "ARCH_POWER", "ATTACH_AGE_LOAD", "UTIL_EST"),
    )
)
_FEATURES_FILE = "/sys/kernel/debug/sched_features"
_IO_SCHEDULER = re.compile(r"\b(?:cfq|bfq|kyber|mq-deadline)\b")
_KERNEL = re.compile(
    r"\b(?:BORE|MuQSS|BMQ|scx_[a-z0-9_]+|sched[_-]ext|CachyOS|linux-(?:zen|cachyos|rt|lqx|xanmod)|XanMod|Liquorix|"
    r"PREEMPT_RT|BBRv3|ThinLTO)\b"
)
_ARROW = re.compile(r"(?:(?<!\s)\s++)?(?:(?<!=)=++>|(?<!-)-++>|→|⇒|➜)\s*")
_COMMAND = re.compile(r"(?:sudo\s+)?(?:sysctl\s|echo\s|printf\s|tee\s)")
_NUMBERS = re.compile(r"[+-]?(?:0x[0-9A-Fa-f]+|\d+)(?:\s+[+-]?\d+)*%?")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]*")
_NEW_COLUMNS = (
    *("tuned", "new", "value", "recommended", "set to", "setting", "after", "to", "suggested", "optimal"),
    *("wert",),
)
_OLD_COLUMNS = ("default", "old", "before", "stock", "from", "current")

#: Lines of other formats, and their readers.
_OTHER_LINES: tuple[tuple[re.Pattern[str], Callable[[str, str], FileReading]], ...] = (
    (re.compile(r"(?:export\s+)?GRUB_CMDLINE_LINUX[A-Z_]*\+?="), command_line.parse),
    (re.compile(r"options\s+[A-Za-z0-9_-]+\s+[A-Za-z0-9_-]+="), modprobe_d.parse),
    (re.compile(r"w[!+=~^-]*+\s+/(?:sys|proc)/\S+\s"), tmpfiles_d.parse),
)


class _Table(msgspec.Struct):
    """The table that is being read; `value_column` is None if the header does not say which column has the value."""

    value_column: int | None


def parse(data: str | bytes, file: str) -> FileReading:
    lines, unread = page_lines(data, file) if is_page(data, file) else split_lines(data, file)
    assignments: list[Assignment] = []
    passed_over: list[int] = []
    table: _Table | None = None
    for line in lines:
        cells = _cells(line.text)
        if cells is None:
            table = None
            entries = _line(line, file)
            if entries and all(isinstance(entry, Unread) for entry in entries):
                entries = _in_code(line, file) or entries
        elif table is None:
            table = _Table(_value_column(cells))
            entries = [] if not _NAMED.search(cells[0]) else _row(cells, table, line, file)
        else:
            entries = _row(cells, table, line, file)
        if not entries and line.text.strip():
            passed_over.append(line.number)
        for entry in entries:
            if isinstance(entry, Unread):
                unread.append(entry)
            else:
                assignments.append(entry)
    if not assignments:
        first = unread[0] if unread else None
        reason = "the text contains no readable setting" + (f"; first unclear line: {first.reason}" if first else "")
        number = first.line_number if first else None
        hint = "write one setting per line, as in: vm.swappiness = 10"
        raise ForeignFormatError(file, reason, line_number=number, hint=hint)
    return FileReading(
        file=file, assignments=tuple(assignments), unread=in_order(unread), passed_over=tuple(passed_over)
    )


def _cells(text: str) -> list[str] | None:
    """Return the cells of a table row, or None for any other line."""
    stripped = text.strip()
    if stripped.count("|") < 2 and not (stripped.startswith("|") or _KEY_FIRST.match(stripped)):
        return None
    if "|" not in stripped or _COMMAND.match(stripped) or '"' in stripped:
        return None
    return [_plain(cell) for cell in stripped.strip("|").split("|")]


_KEY_FIRST = re.compile(rf"`?(?:{_KEY}|{_PATH})`?\s*\|")


def _plain(text: str) -> str:
    """Return text without Markdown marks for emphasis, code, bullets and headings."""
    text = re.sub(r"^\s*(?:>\s*)*(?:[-*+•·]\s+|\d+[.)]\s+|#{1,6}\s+)?(?:\[[ xX]\]\s+)?", "", text)
    text = re.sub(r"`|\*\*|__(?=\W|$)|(?<!\w)__", "", text)
    return text.replace("\\_", "_").strip()


def _value_column(cells: list[str]) -> int | None:
    """Return the index of the column whose header announces the new value; None if it is unclear."""
    lowered = [cell.lower() for cell in cells]
    for name in _NEW_COLUMNS:
        for index, cell in enumerate(lowered):
            if index and (cell == name or cell.startswith(f"{name} ")):
                return index
    rest = [index for index, cell in enumerate(lowered) if index and not cell.startswith(_OLD_COLUMNS)]
    return rest[0] if len(rest) == 1 else None


def _row(cells: list[str], table: _Table, line: Line, file: str) -> list[Assignment | Unread]:
    """Read a row: the name in the first cell, the value in the column of the header or in the only other cell."""
    name = _NAMED.match(cells[0])
    if name is None:
        return []
    column = table.value_column if table.value_column is not None else (1 if len(cells) == 2 else None)
    if column is None or column >= len(cells):
        return [unread_line(file, line.number, line.text, "the table's header does not say which column is the value")]
    value = _value(cells[column])
    return [_entry(name, value, line, file)]


def _line(line: Line, file: str) -> list[Assignment | Unread]:
    text = re.sub(r"^\s*[$#]\s+(?=(?:sudo\s+)?(?:sysctl|echo|printf)\s)", "", line.text)
    text = _plain(text) if not _COMMAND.match(text.strip()) else text.strip()
    if _COMMAND.match(text):
        return _delegate(shell.parse, text, line, file)
    if re.match(r'[A-Z]+(?:\{[^}]*\})?\s*[=!:+]=?\s*"', text):
        return _delegate(lambda data, name: udev.parse(data, name).reading(), text, line, file)
    for shape, parse_text in _OTHER_LINES:
        if shape.match(text):
            return _delegate(parse_text, text, line, file)
    found = _SETTING.match(text)
    if found is None:
        return _boot_or_prose(text, line, file)
    if not found["sign"] and not _is_value_alone(found["rest"]):
        return [_prose(found, line, file)]
    if not found["rest"].strip():
        return [_prose(found, line, file)]
    return [_entry(found, _value(found["rest"]), line, file)]


def _is_value_alone(rest: str) -> bool:
    """Return whether only a number follows the name, as in `vm.swappiness 10`."""
    return re.fullmatch(rf"{_NUMBERS.pattern}\s*(?:\(.*\)|#.*)?", rest.strip()) is not None


def _prose(found: re.Match[str], line: Line, file: str) -> Unread:
    name = found["path"] or found["key"]
    return unread_line(file, line.number, line.text, f"names {name.rstrip('.,:/')} without a clear value")


def _boot_or_prose(text: str, line: Line, file: str) -> list[Assignment | Unread]:
    """Read a line of kernel parameters. A line of prose is reported if it names a setting."""
    words = [word.strip("\"',") for word in text.split()]
    boots = [_BOOT.fullmatch(word) for word in words]
    if words and all(boot is not None or word in _FLAGS for boot, word in zip(boots, words, strict=True)):
        return [
            _set(line, file, "boot", boot["name"].replace("-", "_") if boot else word, boot["value"] if boot else None)
            for boot, word in zip(boots, words, strict=True)
        ]
    found = _NAMED.search(text)
    if found is None:
        return _by_other_names(text, line, file) or _boot_in_code(line, file)
    return _in_sentence(text, line, file) or [_prose(found, line, file)]


def _in_sentence(text: str, line: Line, file: str) -> list[Assignment | Unread]:
    """Return the settings that a sentence names as `name=value`; none if one of them has no clear value."""
    if _AGAINST.search(text):
        return []
    entries: list[Assignment | Unread] = []
    names = set()
    for found in _NAMED.finditer(text):
        name = found["path"] or sysctl_d.canonical(found["key"])
        value = _INLINE_VALUE.match(text, found.end())
        if value is None or name in names or re.match(r"\s+[+-]?\d", text[value.end() : value.end() + 9]):
            return []
        names.add(name)
        entries.append(_entry(found, value["value"].rstrip("."), line, file))
    return entries


def _in_code(line: Line, file: str) -> list[Assignment | Unread]:
    """Return the settings that a sentence marks as code, each with its value."""
    if _AGAINST.search(line.text):
        return []
    found = [match for code in _CODE.findall(line.text) if (match := _SETTING.fullmatch(code.strip())) is not None]
    entries = [_entry(match, _value(match["rest"]), line, file) for match in found if match["sign"]]
    return [] if any(isinstance(entry, Unread) for entry in entries) else entries


def _boot_in_code(line: Line, file: str) -> list[Assignment | Unread]:
    """Return the kernel arguments that a sentence about the command line marks as code."""
    if not _OF_BOOT.search(line.text) or _AGAINST.search(line.text):
        return []
    words = [word for code in _CODE.findall(line.text) for word in code.split()]
    return [
        _set(line, file, "boot", boot["name"].replace("-", "_") if boot else word, boot["value"] if boot else None)
        for word in words
        if (boot := _BOOT.fullmatch(word)) is not None or word in _FLAGS
    ]


def _by_other_names(text: str, line: Line, file: str) -> list[Assignment | Unread]:
    """Read settings with informal names: files of queues, scheduler features, schedulers and kernels."""
    bare = _BARE.match(text)
    if bare is not None and bare["name"] in _OF_QUEUES:
        value = _value(_EXPLAINED.sub("", bare["rest"]))
        if isinstance(value, Unread):
            return [unread_line(file, line.number, line.text, value.reason)]
        return [_set(line, file, "path", f"/sys/block/*/queue/{_OF_QUEUES[bare['name']]}", value)]
    if bare is not None and _PLACELESS.fullmatch(bare["name"]):
        why = f"names {bare['name']} without its governor or module"
        return [unread_line(file, line.number, line.text, why)]
    feature = "_".join(text.upper().split())
    if feature.removeprefix("NO_") in _FEATURES:
        return [_set(line, file, "path", _FEATURES_FILE, feature)]
    if named := _KERNEL.search(text):
        why = f"names {named[0]}, a scheduler or kernel and not a setting: `ktrial kernel trial` compares kernels"
        return [unread_line(file, line.number, line.text, why)]
    if bare is None:
        bare = re.match(r"(?P<name>[a-z-]+(?:\s*/\s*[a-z-]+)*):", text)
    if bare is not None and _IO_SCHEDULER.search(bare["name"]):
        return [unread_line(file, line.number, line.text, "names schedulers of block devices but not the devices")]
    return []


def _set(line: Line, file: str, kind: TargetKind, name: str, value: str | None) -> Assignment:
    shown = line.text.strip()
    return Assignment(kind=kind, name=name, value=value, file=file, line_number=line.number, text=shown)


def _value(text: str) -> str | Unread:
    """Return the value at the start of `text` or after its arrow, or an `Unread` that holds only the reason."""
    parts = _ARROW.split(text)
    wanted = re.sub(r"(?<!\s)\s++(?:#|//|;|--|\u2014|\u2013|-)\s.*$", "", parts[-1].strip())
    wanted = re.sub(r"(?<!\s)\s*+[(\[].*$", "", wanted).strip().strip("\"'").strip().rstrip(".,;").strip()
    if not wanted:
        return unread_line("", 0, text, "no value")
    if _NUMBERS.fullmatch(wanted) or _WORD.fullmatch(wanted):
        return re.sub(r"\s+", " ", wanted.removesuffix("%"))
    unit = re.match(r"[~≈]?\s*[\d.,]+\s*[A-Za-zµ%]+", wanted)
    reason = f"{wanted!r} has a unit or is not exact" if unit else f"{wanted!r} is not a single value"
    return unread_line("", 0, text, reason)


def _entry(found: re.Match[str], value: str | Unread, line: Line, file: str) -> Assignment | Unread:
    if isinstance(value, Unread):
        return unread_line(file, line.number, line.text, value.reason)
    path, key = found["path"], found["key"]
    return Assignment(
        kind="path" if path else "sysctl",
        name=path.rstrip("/:.") if path else sysctl_d.canonical(key.rstrip("/:.")),
        value=value,
        file=file,
        line_number=line.number,
        text=line.text.strip(),
    )


def _delegate(
    parse_text: Callable[[str, str], FileReading], text: str, line: Line, file: str
) -> list[Assignment | Unread]:
    """Read a command or a udev rule in the list with its own reader."""
    try:
        reading = parse_text(text, file)
    except ForeignFormatError as error:
        return [unread_line(file, line.number, line.text, error.reason)]
    number = line.number
    return [
        *(msgspec.structs.replace(item, line_number=number) for item in reading.assignments),
        *(msgspec.structs.replace(item, line_number=number) for item in reading.unread),
    ]

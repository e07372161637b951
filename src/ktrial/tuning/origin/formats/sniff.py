# SPDX-License-Identifier: Apache-2.0
"""Detect the format of a text by its name and content, and choose its reader."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Literal

import msgspec

from ktrial.tuning.origin.formats import (
    command_line,
    modprobe_d,
    pasted_list,
    shell,
    sysctl_d,
    tmpfiles_d,
    tuned,
    udev,
    zram_generator,
)
from ktrial.tuning.origin.formats.lines import LONGEST_LINE_BYTES, FileReading, ForeignFormatError
from ktrial.tuning.origin.formats.web_page import is_page

Format = Literal[
    "sysctl.d", "udev", "tuned", "shell", "command-line", "modprobe.d", "tmpfiles.d", "zram-generator", "list"
]

READERS: dict[Format, Callable[[str | bytes, str], FileReading]] = {
    "sysctl.d": lambda data, file: sysctl_d.parse(data, file).reading(),
    "udev": lambda data, file: udev.parse(data, file).reading(),
    "tuned": lambda data, file: tuned.parse(data, file).reading(),
    "shell": shell.parse,
    "command-line": command_line.parse,
    "modprobe.d": modprobe_d.parse,
    "tmpfiles.d": tmpfiles_d.parse,
    "zram-generator": zram_generator.parse,
    "list": pasted_list.parse,
}
"""The reader of each format: it maps (text, file name) to what the text sets."""


class Sniffed(msgspec.Struct, frozen=True):
    """The detected format of a text, and the reason."""

    format: Format
    reason: str


_BY_NAME: tuple[tuple[str, Format, str], ...] = (
    (r"(?:^|/)tuned\.conf$", "tuned", "named tuned.conf"),
    (r"\.rules$", "udev", "named *.rules"),
    (r"(?:^|/)sysctl(?:\.d/.*)?\.conf$", "sysctl.d", "a sysctl file by its name"),
    (r"(?:^|/)modprobe(?:\.d/.*)?\.conf$", "modprobe.d", "a modprobe file by its name"),
    (r"(?:^|/)tmpfiles\.d/", "tmpfiles.d", "in a tmpfiles.d folder"),
    (r"zram-generator\.conf", "zram-generator", "a zram-generator file by its name"),
    (r"(?:^|/)(?:proc/cmdline|kernel/cmdline|default/grub|grub\.d/[^/]*\.cfg)$", "command-line", "by its name"),
    (r"\.sh$", "shell", "named *.sh"),
    (r"\.(?:md|markdown|html?)$", "list", "a document by its name"),
)
_BY_LINE: tuple[tuple[str, Format, str], ...] = (
    (r"#!.*\b(?:sh|bash|dash|ash|zsh)\b", "shell", "begins with a shell's #! line"),
    (r"GRUB_CMDLINE_LINUX", "command-line", "sets GRUB_CMDLINE_LINUX"),
    (r"\[zram\d+\]", "zram-generator", "has a [zram0] section"),
    (r"\[(?:main|sysctl|sysfs|vm|cpu|disk|bootloader|variables)\]", "tuned", "has a section of TuneD"),
    (r"options\s+[\w-]+\s+[\w-]+=", "modprobe.d", "has an options line"),
    (r"[wfdDLcb][!+=~^-]*\s+/\S+\s+\S+\s+\S+\s+\S+\s+\S+", "tmpfiles.d", "has a line of a type and a path"),
    (r'[A-Z]+(?:\{[^}]*\})?\s*[=!:+]=?\s*".*(?:ATTR|SYSCTL)\{', "udev", "has a rule that sets ATTR{} or SYSCTL{}"),
)
_COMMANDS, _SYSCTLS = "has commands that set values", "most lines are key = value with a sysctl name"
#: Reasons that rest on single lines; the other lines may have other formats.
_PERHAPS_MIXED = {
    *(_COMMANDS, _SYSCTLS),
    *(reason for _, found, reason in _BY_LINE if found in {"command-line", "modprobe.d", "tmpfiles.d", "udev"}),
}
_SHELL_LINE = re.compile(
    r"(?:sudo\s+)?(?:sysctl\s|echo\s.*>|echo\s.*\|\s*(?:sudo\s+)?tee\s|printf\s.*>|write\s+/|for\s+\w+\s+in\s|if\s|fi$|done$)"
)
_SYSCTL_LINE = re.compile(r"-?(?:vm|kernel|net|fs|dev|user|abi|debug)[./][\w./*:-]+\s*=\s*[^>]*")
_BOOT_LINE = re.compile(r"(?:[\w.-]+\s+)*(?:[\w.-]+=\S|(?:quiet|splash|ro|rw|nosmt|threadirqs)\b)")
_MARKDOWN_LINE = re.compile(r"(?:[-*•]\s|#{1,6}\s.*(?:vm|kernel|net|fs)\.|\||```|.*-->|.*→)")


def sniff(name: str, data: str | bytes) -> Sniffed:
    """Detect the format by a distinctive name, then by distinctive lines, then by what most lines look like."""
    for pattern, found, reason in _BY_NAME:
        if re.search(pattern, name):
            return Sniffed(found, reason)
    if is_page(data, name):
        return Sniffed("list", "a web page")
    text = data if isinstance(data, str) else data.decode("utf-8-sig", "replace")
    lines = [line.strip()[:LONGEST_LINE_BYTES] for line in text.split("\n") if line.strip()]
    markdown = sum(1 for line in lines if _MARKDOWN_LINE.match(line))
    prose = sum(1 for line in lines if _is_prose(line))
    for pattern, found, reason in _BY_LINE:
        if any(re.match(pattern, line) for line in lines) and (found == "shell" or not prose):
            return Sniffed(found, reason)
    content = [line for line in lines if line[0] not in "#;"]
    shells = sum(1 for line in content if _SHELL_LINE.match(line))
    sysctls = sum(1 for line in content if _SYSCTL_LINE.fullmatch(line))
    if sysctls * 2 >= len(content) > 0 and not (prose or markdown or shells):
        return Sniffed("sysctl.d", _SYSCTLS)
    if shells and not prose and not markdown:
        return Sniffed("shell", _COMMANDS)
    if len(content) == 1 and not (sysctls or markdown or prose) and _BOOT_LINE.match(content[0]):
        return Sniffed("command-line", "is one line of words as on a kernel command line")
    return Sniffed("list", "format not recognised, treated as free text")


def _is_prose(line: str) -> bool:
    """Return whether a line is a sentence: four words in a row, and no comment."""
    return (
        line[0] not in "#;"
        and re.search(r"(?:\b[A-Za-z]{2,}[,']?\s+){3}[A-Za-z]{2,}[.,:;!?)]*(?:\s|$)", line) is not None
    )


def read(data: str | bytes, file: str, as_format: Format | None = None) -> tuple[FileReading, Sniffed]:
    if as_format is not None:
        return READERS[as_format](data, file), Sniffed(as_format, "from --format")
    sniffed = sniff(file, data)
    reading = READERS[sniffed.format](data, file)
    ignores_others = sniffed.format == "command-line" and sniffed.reason in _PERHAPS_MIXED
    if ignores_others or (sniffed.reason in _PERHAPS_MIXED and reading.unread):
        # Lists from the web mix commands, sysctls and kernel arguments.
        with contextlib.suppress(ForeignFormatError):
            as_list = READERS["list"](data, file)
            understood = ignores_others or len(as_list.unread) < len(reading.unread)
            if understood and len(as_list.assignments) > len(reading.assignments):
                return as_list, Sniffed("list", "has lines of several formats")
    return reading, sniffed

# SPDX-License-Identifier: Apache-2.0
"""udev rules: which attribute or sysctl a rule sets, and for which devices.

Rules that set neither are ignored. A rule that runs a program on a file below /sys or on sysctl is reported as unread,
because the program's effect is unknown. If a `GOTO` may skip a rule, the rule gets a condition that says so.
"""

from __future__ import annotations

import re

import msgspec

from ktrial.tuning.origin.formats import sysctl_d
from ktrial.tuning.origin.formats.lines import (
    Assignment,
    FileReading,
    Line,
    Unread,
    in_order,
    is_comment,
    require_something,
    split_lines,
    unread_line,
)
from ktrial.tuning.origin.formats.words import fits

_MATCH_ONLY = frozenset(
    (
        *("ACTION", "DEVPATH", "KERNEL", "KERNELS", "SUBSYSTEM", "SUBSYSTEMS", "DRIVER", "DRIVERS", "ATTRS"),
        *("TAGS", "TEST", "PROGRAM", "RESULT", "CONST"),
    )
)
_BOTH = frozenset(["ATTR", "SYSCTL", "ENV", "TAG", "NAME", "SYMLINK", "IMPORT"])
_ASSIGN_ONLY = frozenset(["OWNER", "GROUP", "MODE", "SECLABEL", "RUN", "LABEL", "GOTO", "OPTIONS", "WAIT_FOR"])
_RUNS = frozenset(("PROGRAM", "IMPORT"))
_SETS = re.compile(r"/sys/|/proc/sys|sysctl")
_APPLIES_FILES = re.compile(r"\S*/systemd-sysctl(?:\s|$)")
"""systemd-sysctl only applies the sysctl.d files again, and those are read separately."""
_TOKEN = re.compile(
    r"""[\s,]*(?P<key>[A-Z_]+)(?:\{(?P<attribute>[^}"]*)\})?\s*(?P<operator>==|!=|\+=|-=|:=|=)\s*"""
    r"""(?P<prefix>[ei]{0,2})"(?P<value>(?:\\.|[^"\\])*)"\s*"""
)


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of a rule, such as `SUBSYSTEM=="block"` or `ATTR{queue/rotational}=="0"`."""

    key: str
    attribute: str | None
    operator: str
    value: str

    def __str__(self) -> str:
        braces = "" if self.attribute is None else "{" + self.attribute + "}"
        return f'{self.key}{braces}{self.operator}"{self.value}"'


class UdevRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that sets something: its conditions, its assignments, and the number of its first line."""

    line_number: int
    matches: tuple[Match, ...]
    assignments: tuple[Assignment, ...]

    def may_match(self, key: str, name: str) -> bool:
        """Return whether the conditions on `key` (`KERNEL`, `SUBSYSTEM`) allow `name`; True without such conditions."""
        for match in self.matches:
            if match.key != key:
                continue
            hit = any(fits(name, pattern) for pattern in match.value.split("|"))
            if hit != (match.operator == "=="):
                return False
        return True


class UdevRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one file that set something, in order."""

    file: str
    rules: tuple[UdevRule, ...] = ()
    unread: tuple[Unread, ...] = ()

    def reading(self) -> FileReading:
        found = tuple(item for rule in self.rules for item in rule.assignments)
        return FileReading(file=self.file, assignments=found, unread=self.unread)


class _Token(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    attribute: str | None
    operator: str
    value: str
    line_number: int

    def is_match(self) -> bool:
        return self.operator in ("==", "!=") or self.key in _RUNS


class _Logical(msgspec.Struct, frozen=True):
    """A rule's text and its original lines as (offset in the text, line number)."""

    text: str
    starts: tuple[tuple[int, int], ...]

    def line_at(self, offset: int) -> int:
        return max((start, number) for start, number in self.starts if start <= offset)[1]


def parse(data: str | bytes, file: str) -> UdevRules:
    """Read one rules file. A trailing backslash continues the rule on the next line."""
    lines, unread = split_lines(data, file)
    tokenised: list[tuple[_Logical, list[_Token]]] = []
    for logical in _join(lines):
        tokens = _tokens(logical)
        if isinstance(tokens, str):
            unread.append(unread_line(file, logical.starts[0][1], logical.text, tokens))
        else:
            tokenised.append((logical, tokens))
    rules: list[UdevRule] = []
    for index, (logical, tokens) in enumerate(tokenised):
        unless = _jumps_over([tokens for _, tokens in tokenised], index)
        rule, failures = _rule(logical, tokens, file, unless)
        unread.extend(failures)
        if rule.assignments:
            rules.append(rule)
    require_something(file, len(tokenised), unread, "udev rules")
    return UdevRules(file=file, rules=tuple(rules), unread=in_order(unread))


def _join(lines: list[Line]) -> list[_Logical]:
    """Join the lines of each rule; comment lines are ignored, even between the lines of one rule."""
    rules: list[_Logical] = []
    text, starts = "", []
    for line in lines:
        if line.text.lstrip().startswith("#"):
            continue
        starts.append((len(text), line.number))
        if line.text.endswith("\\"):
            text += line.text[:-1] + " "
            continue
        text += line.text
        if not is_comment(text):
            rules.append(_Logical(text, tuple(starts)))
        text, starts = "", []
    if text.strip():
        rules.append(_Logical(text, tuple(starts)))
    return rules


def _tokens(logical: _Logical) -> list[_Token] | str:
    """Return the parts of a rule, or why it cannot be read."""
    tokens: list[_Token] = []
    offset = 0
    text = logical.text.rstrip().rstrip(",").rstrip()
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        if found is None:
            shown = text[offset : offset + 40].strip()
            return f'cannot read from {shown!r} on: expected KEY=="value" or KEY="value"'
        key, operator = found["key"], found["operator"]
        if key not in _MATCH_ONLY | _BOTH | _ASSIGN_ONLY:
            return f"{key} is not a key of udev rules"
        if key in _MATCH_ONLY - _RUNS and operator not in ("==", "!="):
            return f"{key} can only be compared, with == or !=, not set"
        if key in _ASSIGN_ONLY and operator in ("==", "!="):
            return f"{key} can only be set, with =, not compared"
        if key in ("ATTR", "SYSCTL") and not found["attribute"]:
            return f"{key} needs a name in braces"
        value = found["value"].replace('\\"', '"')
        line_number = logical.line_at(found.start("key"))
        tokens.append(
            _Token(key=key, attribute=found["attribute"], operator=operator, value=value, line_number=line_number)
        )
        offset = found.end()
    return tokens


def _jumps_over(rules: list[list[_Token]], index: int) -> tuple[str, ...]:
    """Return a condition for each earlier rule whose GOTO may skip rule `index`."""
    conditions: list[str] = []
    for earlier in rules[:index]:
        for label in (token.value for token in earlier if token.key == "GOTO"):
            later = (token for rule in rules[index + 1 :] for token in rule)
            if any(token.key == "LABEL" and token.value == label for token in later):
                conditions.append("unless " + (", ".join(str(item) for item in _matches(earlier)) or "always"))
    return tuple(conditions)


def _matches(tokens: list[_Token]) -> tuple[Match, ...]:
    return tuple(
        Match(key=token.key, attribute=token.attribute, operator=token.operator, value=token.value)
        for token in tokens
        if token.is_match()
    )


def _substituted(value: str) -> str:
    """Return a value without substitutions as udev writes it: `%` for `%%`, `$` for `$$`."""
    return re.sub(r"%%|\$\$", lambda found: found[0][0], value)


def _rule(logical: _Logical, tokens: list[_Token], file: str, unless: tuple[str, ...]) -> tuple[UdevRule, list[Unread]]:
    """Return the rule's assignments, each with all of the rule's conditions."""
    matches = _matches(tokens)
    conditions = (*unless, *(str(match) for match in matches))
    assignments: list[Assignment] = []
    unread: list[Unread] = []
    for token in tokens:
        if token.key == "RUN" and _SETS.search(token.value) and not _APPLIES_FILES.match(token.value):
            reason = f"runs a program whose effect is unknown: {token.value}"
            unread.append(unread_line(file, token.line_number, logical.text, reason))
        if token.is_match() or token.key not in ("ATTR", "SYSCTL") or token.attribute is None:
            continue
        if token.operator == "-=":
            unread.append(unread_line(file, token.line_number, logical.text, f"{token.key} cannot be set with -="))
            continue
        is_sysctl = token.key == "SYSCTL"
        assignments.append(
            Assignment(
                kind="sysctl" if is_sysctl else "attribute",
                name=sysctl_d.canonical(token.attribute) if is_sysctl else token.attribute,
                value=_substituted(token.value),
                file=file,
                line_number=token.line_number,
                text=logical.text.strip(),
                conditions=conditions,
            )
        )
    rule = UdevRule(line_number=logical.starts[0][1], matches=matches, assignments=tuple(assignments))
    return rule, unread

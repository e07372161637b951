# SPDX-License-Identifier: Apache-2.0
"""Shell scripts that set knobs: `sysctl -w`, `echo V > FILE`, `echo V | tee FILE`, helper functions, simple loops.

A script is read, never run. The reader substitutes variables and whole-number arithmetic, follows the script's
functions and unrolls loops over written lists; globs stay patterns. An assignment keeps the conditions that it depends
on (`if`, `&&`, `while`). A loop that breaks at the first match gives one assignment with alternatives. Every command
that may set something and is not understood is reported.
"""

from __future__ import annotations

import posixpath
import re
from itertools import islice

import msgspec

from ktrial.tuning.origin.formats import sysctl_d
from ktrial.tuning.origin.formats.lines import (
    Assignment,
    FileReading,
    Unread,
    in_order,
    require_something,
    split_lines,
    unread_line,
)
from ktrial.tuning.origin.formats.shell_words import Command, Unknown, closing, expand, group, tokenise

#: Commands that set no knob.
_HARMLESS_WORDS = """
: true false test [ [[ ]] exit return break continue shift set unset local export readonly declare typeset sleep wait
sync cd pwd echo printf cat grep egrep fgrep sed awk cut tr head tail sort uniq wc ls find read basename dirname id
whoami uname date log log_print ui_print chmod chown mkdir rm touch getprop command type which trap umask alias
logger dmesg tput clear stat seq expr let shopt
"""
_HARMLESS = frozenset(_HARMLESS_WORDS.split())
_PREFIXES = frozenset(("sudo", "doas", "command", "exec", "busybox", "env", "nohup", "builtin"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ash", "su"))
_KNOB_FOLDERS = ("/sys/", "/proc/", "/dev/cpuctl/", "/dev/stune/", "/dev/cpuset/")
_DEEPEST = 8
_MOST_COMMANDS = 20_000
#: Commands nested deeper than this count more towards the limit.
_ORDINARY_DEPTH = 16
#: Maximum number of commands between `if` and `then`.
_LONGEST_CONDITION = 100

Variables = dict[str, list[str] | Unknown]


class _ShellFrame(msgspec.Struct):
    """An open `if`, `while` or `case`; `before` are the variables at its start.

    `entered` means that its condition has ended.
    """

    kind: str
    condition: str
    before: Variables
    entered: bool = False


class _Place(msgspec.Struct, frozen=True):
    """The place of a command for messages; commands in a function have the place of its outermost call."""

    line_number: int
    text: str


def parse(data: str | bytes, file: str) -> FileReading:
    lines, unread = split_lines(data, file)
    numbered = {line.number: line.text for line in lines}
    text = "\n".join(numbered.get(number, "") for number in range(1, max(numbered, default=0) + 1))
    reader = _ShellReader(file, numbered)
    reader.unread.extend(unread)
    reader.script(text)
    require_something(file, len(reader.assignments) + reader.passed_over, reader.unread, "a shell script")
    return FileReading(
        file=file, assignments=tuple(reader.assignments), unread=in_order(list(dict.fromkeys(reader.unread)))
    )


class _ShellReader:
    """Walk the commands in order and collect what they set."""

    def __init__(self, file: str, lines: dict[int, str]) -> None:
        self.file = file
        self.lines = lines
        self.assignments: list[Assignment] = []
        self.unread: list[Unread] = []
        self.passed_over = 0
        self.variables: Variables = {}
        self.functions: dict[str, tuple[list[Command], int, int]] = {}
        self.called: set[str] = set()
        self.frames: list[_ShellFrame] = []
        self.call: _Place | None = None
        self.depth = 0
        self.budget = _MOST_COMMANDS

    def script(self, text: str, line_offset: int = 0) -> None:
        """Read a whole script; `line_offset` is added to its line numbers."""
        tokens, failures = tokenise(text)
        for number, reason in failures:
            self.unread.append(unread_line(self.file, number + line_offset, self.lines.get(number, ""), reason))
        commands = group(tokens)
        known = set(self.functions)
        self.run(commands, 0, len(commands))
        for name in [name for name in self.functions if name not in known | self.called]:
            definition, start, _ = self.functions[name]
            place = self._place(definition[start])
            reason = f"the function {name} is never called, so its settings are not read"
            self.unread.append(unread_line(self.file, place.line_number, place.text, reason))

    def run(self, commands: list[Command], start: int, stop: int) -> None:
        open_frames = len(self.frames)
        index = start
        while index < stop:
            self.budget -= 1 + len(self.frames) // _ORDINARY_DEPTH
            if self.budget < 0:
                self.fail(commands[index], "the script is too long; the rest is not read")
                break
            index = self._step(commands, index, stop)
        del self.frames[open_frames:]

    def _step(self, commands: list[Command], index: int, stop: int) -> int:
        """Process one command or block; return the index of the next one."""
        command = commands[index]
        if command.keyword in ("for", "select"):
            end = closing(commands, index, stop)
            self._loop(commands, index, end)
            return end + 1
        if command.keyword == "function":
            if index + 1 < stop and commands[index + 1].keyword == "{":
                end = closing(commands, index + 1, stop)
                self.functions[command.words[0]] = (commands, index + 1, end)
                return end + 1
            self.fail(command, "cannot read a function whose body is not within { }")
            return index + 1
        if command.keyword is not None:
            self._keyword(commands, index)
            return index + 1
        return self._simple(commands, index, stop)

    def _keyword(self, commands: list[Command], index: int) -> None:
        """Open, advance and close the frames of `if`, `while` and `case`."""
        command = commands[index]
        word = command.keyword
        if word in ("if", "while", "until", "case"):
            subject = command.text if word == "case" else _condition_text(commands, index)
            self.frames.append(_ShellFrame(word, subject, dict(self.variables)))
        elif word in ("elif", "else", "pattern") and self.frames:
            frame = self.frames[-1]
            frame.entered = word != "elif"
            self.variables = dict(frame.before)
            if word == "pattern":
                frame.condition = f"{frame.condition.split(': ')[0]}: {' | '.join(command.words)}"
            else:
                frame.condition = _condition_text(commands, index) if word == "elif" else f"unless {frame.condition}"
        elif word in ("then", "do") and self.frames:
            self.frames[-1].entered = True
        elif word in ("fi", "done", "esac") and self.frames:
            frame = self.frames.pop()
            for name, values in list(self.variables.items()):
                if frame.before.get(name) != values:
                    self.variables[name] = Unknown(f"${name} is set under a condition ({frame.condition})")

    def _loop(self, commands: list[Command], index: int, end: int) -> None:
        """Read a `for` loop: once per value, or once with all values if its body breaks at the first match."""
        command = commands[index]
        words = command.words
        body = next((at + 1 for at in range(index + 1, end) if commands[at].keyword == "do"), None)
        if body is None or len(words) < 2 or (len(words) > 2 and words[2] != "in"):
            self.fail(command, "cannot read a loop of this form")
            return
        values: list[str] = []
        for word in words[3:]:
            expanded = expand(word, self.variables)
            if isinstance(expanded, Unknown):
                self.fail(command, f"the list of the loop is unknown: {expanded.reason}")
                self.variables[words[1]] = Unknown(f"${words[1]} takes its values from an unknown list")
                self.run(commands, body, end)
                return
            quoted = word.startswith(('"', "'"))
            values.extend(part for value in expanded for part in ([value] if quoted else value.split()))
        if len(words) == 2:
            self.variables[words[1]] = Unknown(f"${words[1]} takes its values from the script's arguments")
            self.run(commands, body, end)
        elif any("break" in item.words for item in commands[body:end]):
            self.variables[words[1]] = values
            self.run(commands, body, end)
        else:
            for value in values:
                self.variables[words[1]] = [value]
                self.run(commands, body, end)

    def _simple(self, commands: list[Command], index: int, stop: int) -> int:
        """Read a simple command and a `tee` that it is piped into; return the index of the next one."""
        command = commands[index]
        words = _without_prefix(command.words)
        if not words:
            self.passed_over += 1
            self._set_variables(command)
            return index + 1
        name = posixpath.basename(words[0])
        piped = commands[index + 1] if index + 1 < stop and command.after == "|" else None
        chain = _chain(commands, index)
        if name in ("echo", "printf"):
            tee = _tee_operands(piped) if piped is not None else None
            self._write(command, words, chain, tee)
            return index + (1 if tee is None else 2)
        if name in self.functions:
            self._call(command, name, words[1:])
        elif name == "sysctl":
            self._sysctl(command, words[1:], chain)
        elif name in _SHELLS and "-c" in words[:-1]:
            self._shell(command, words[words.index("-c") + 1])
        elif name in ("export", "readonly", "local", "declare", "typeset"):
            self.passed_over += 1
            self._set_variables(msgspec.structs.replace(command, words=tuple(w for w in words[1:] if w[0] != "-")))
        else:
            self._other(command, name)
        return index + 1

    def _other(self, command: Command, name: str) -> None:
        """Ignore any other command if it is harmless; otherwise report it."""
        target = next((x.target for x in command.redirects if x.operator in (">", ">>", ">|", "&>", "&>>")), None)
        if target is not None and re.search(r"^[\"']?(/sys/|/proc/|/etc/)", target):
            self.fail(command, f"writes unknown content to {target}")
        elif name in _HARMLESS:
            self.passed_over += 1
        elif name in (".", "source", "eval"):
            self.fail(command, "runs commands that ktrial cannot see")
        else:
            self.fail(command, f"{name} is not understood")

    def _set_variables(self, command: Command) -> None:
        for word in command.words:
            found = re.match(r"([A-Za-z_]\w*)(\+?)=", word)
            if found is None:
                continue
            value = expand(word[found.end() :], self.variables)
            self.variables[found[1]] = Unknown(f"${found[1]} is appended to") if found[2] else value

    def _call(self, command: Command, name: str, arguments: tuple[str, ...]) -> None:
        self.called.add(name)
        self.passed_over += 1
        if self.depth >= _DEEPEST:
            self.fail(command, f"{name} calls itself too deeply")
            return
        definition, start, end = self.functions[name]
        saved = {key: value for key, value in self.variables.items() if key.isdigit() or key in "@*#"}
        outer = {key: value for key, value in self.variables.items() if key not in saved}
        given: Variables = {str(at): expand(word, self.variables) for at, word in enumerate(arguments, start=1)}
        call = self.call
        self.call = call or self._place(command)
        self.variables = {**outer, **given, "#": [str(len(arguments))]}
        self.depth += 1
        self.run(definition, start + 1, end)
        self.depth -= 1
        self.call = call
        self.variables = {**{k: v for k, v in self.variables.items() if k not in given and k != "#"}, **saved}

    def _shell(self, command: Command, word: str) -> None:
        text = expand(word, self.variables)
        if isinstance(text, Unknown) or len(text) != 1 or self.depth >= _DEEPEST:
            self.fail(command, "the commands after -c are unknown")
            return
        call = self.call
        self.call = call or self._place(command)
        self.depth += 1
        self.script(text[0])
        self.depth -= 1
        self.call = call

    def _sysctl(self, command: Command, arguments: tuple[str, ...], chain: tuple[str, ...]) -> None:
        """Read `sysctl [-w] key=value …`; words without a value set nothing."""
        self.passed_over += 1
        for argument in arguments:
            if argument in ("-p", "--load", "--system", "-f") or argument.startswith(("-p", "--load", "--pattern")):
                self.fail(command, "loads other files: import them separately")
                return
            if argument.startswith("-"):
                continue
            values = expand(argument, self.variables)
            if isinstance(values, Unknown):
                self.fail(command, values.reason)
                continue
            for value in values:
                key, equals, setting = value.partition("=")
                if equals and setting.strip():
                    self.found(command, "sysctl", sysctl_d.canonical(key.strip()), [setting.strip()], chain)
                elif equals:
                    self.fail(command, f"no value for {key}")

    def _write(
        self, command: Command, words: tuple[str, ...], chain: tuple[str, ...], tee: tuple[str, ...] | None
    ) -> None:
        """Read `echo` or `printf` into files, through redirections or `tee`."""
        out = [x.target for x in command.redirects if x.operator in (">", ">>", ">|") and x.descriptor in (None, "1")]
        self.passed_over += 1
        for target in [*out, *(tee or ())]:
            paths = expand(target, self.variables)
            if isinstance(paths, Unknown):
                self.fail(command, f"the target is unknown: {paths.reason}")
                continue
            for path in (posixpath.normpath(path) for path in paths):
                if path.startswith("/etc/"):
                    self.fail(command, f"writes {path}: import that file separately")
                if not path.startswith(_KNOB_FOLDERS):
                    continue
                value = _output_of(words, self.variables)
                if isinstance(value, Unknown):
                    self.fail(command, f"the value is unknown: {value.reason}")
                    continue
                self.found(command, "path", path, value, chain)

    def found(self, command: Command, kind: str, name: str, values: list[str], chain: tuple[str, ...]) -> None:
        place = self.call or self._place(command)
        self.assignments.append(
            Assignment(
                kind="sysctl" if kind == "sysctl" else "path",
                name=name,
                value=values[0],
                file=self.file,
                line_number=place.line_number,
                text=place.text,
                alternatives=tuple(values) if len(values) > 1 else (),
                conditions=(*(frame.condition for frame in self.frames if frame.entered), *chain),
            )
        )

    def fail(self, command: Command, reason: str) -> None:
        place = self.call or self._place(command)
        self.unread.append(unread_line(self.file, place.line_number, place.text, reason))

    def _place(self, command: Command) -> _Place:
        return self.call or _Place(command.line_number, self.lines.get(command.line_number, command.text).strip())


def _condition_text(commands: list[Command], index: int) -> str:
    """Return the commands between `if` and `then` (or `while` and `do`), as written."""
    texts: list[str] = []
    for command in islice(commands, index + 1, index + 1 + _LONGEST_CONDITION):
        if command.keyword in ("then", "do", "fi", "done"):
            break
        texts.append("!" if command.keyword == "!" else command.text)
    return " ".join(texts)


def _chain(commands: list[Command], index: int) -> tuple[str, ...]:
    """Return the tests that guard a command, as in `[ -f x ] && command`."""
    conditions: list[str] = []
    while index > 0 and commands[index].before in ("&&", "||"):
        earlier = commands[index - 1]
        if earlier.words and earlier.words[0] in ("[", "[[", "test"):
            conditions.append(earlier.text if commands[index].before == "&&" else f"unless {earlier.text}")
        index -= 1
    return tuple(reversed(conditions))


def _without_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command without `sudo` and the like and without variables in front of it; may be empty."""
    index = 0
    while index < len(words):
        word = words[index]
        if re.match(r"[A-Za-z_]\w*\+?=", word):
            index += 1
        elif posixpath.basename(word) in _PREFIXES:
            index += 1
            while index < len(words) and words[index].startswith("-"):
                index += 2 if words[index] in ("-u", "-g") else 1
        else:
            break
    return words[index:]


def _tee_operands(command: Command) -> tuple[str, ...] | None:
    words = _without_prefix(command.words)
    if not words or posixpath.basename(words[0]) != "tee":
        return None
    return tuple(word for word in words[1:] if not word.startswith("-"))


def _output_of(words: tuple[str, ...], variables: Variables) -> list[str] | Unknown:
    """Return what `echo` or `printf` prints, without surrounding white space."""
    arguments: list[list[str]] = []
    for word in words[1:]:
        values = expand(word, variables)
        if isinstance(values, Unknown):
            return values
        arguments.append(values)
    if posixpath.basename(words[0]) == "printf":
        return _formatted(arguments)
    while arguments and re.fullmatch(r"-[neE]+", arguments[0][0]):
        arguments.pop(0)
    results = [""]
    for values in arguments:
        results = [f"{left} {right}" for left in results for right in values]
    return [result.strip() for result in results]


def _formatted(arguments: list[list[str]]) -> list[str] | Unknown:
    """Return the output of `printf` if its format is plain text, or only `%s` or `%d`."""
    if not arguments:
        return Unknown("printf without a format")
    pattern = arguments[0][0].replace("\\n", "").strip()
    if "%" not in pattern and "\\" not in pattern:
        return [pattern]
    if pattern in ("%s", "%d", "%i", "%u") and len(arguments) == 2:
        return arguments[1]
    return Unknown(f"cannot read printf {pattern!r}")

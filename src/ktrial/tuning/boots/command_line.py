# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments of this boot, and the changes that a trial boot makes to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ktrial.kit.errors import BadInput, Contradiction, Refused, nearest
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.lasting.boot_words import may_weaken, weakens
from ktrial.tuning.lasting.model import GuardedWord
from ktrial.tuning.origin.formats.command_line import same_name

#: Carries the ID of a trial boot's entry.
MARK = "ktrial.boot"
#: Arguments of trial boots that only the agent sets; `systemd.watchdog_sec` only if the machine has a watchdog.
NETS = (
    "panic",
    "oops",
    "softlockup_panic",
    "hung_task_panic",
    "rd.shell",
    "rd.emergency",
    "systemd.watchdog_sec",
    MARK,
)
#: Characters that no boot loader treats specially.
_SAFE = re.compile(r"[A-Za-z0-9_.,:/+=@-]+")
_NEW = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?:=[A-Za-z0-9_.,:/+=@-]+)?")
#: Words that the boot loader adds for itself.
_OF_LOADER = {"grub": ("BOOT_IMAGE",), "systemd-boot": ("BOOT_IMAGE", "initrd"), "kexec": ("BOOT_IMAGE", "initrd")}
#: Names of arguments that add up: a second one does not replace the first.
_ADD_UP = frozenset(("console", "earlycon", "earlyprintk", "memmap", "video"))
_PAGES = frozenset(("hugepages", "hugepagesz"))
#: x86 and arm64 take 2048 bytes with the final zero; the agent's own arguments and the entry's ID need some of them.
MOST_BYTES = 2047
_NETS_BYTES = 160


class BootWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kernel argument; a flag has no value."""

    name: str
    value: str | None = None

    @property
    def text(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


class WordChange(msgspec.Struct, frozen=True):
    """A kernel argument to add or to remove.

    A new argument replaces those with its name, unless the kernel accepts several with one name, such as `console`. A
    removal without a value removes all arguments with its name.
    """

    word: BootWord
    removes: bool = False

    @property
    def text(self) -> str:
        return f"-{self.word.text}" if self.removes else self.word.text


class ChangedLine(msgspec.Struct, frozen=True):
    """The command line of a trial boot.

    `base` are the arguments of this boot that remain, `words` are the new arguments.
    """

    base: tuple[str, ...]
    words: tuple[BootWord, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def new_names(self) -> frozenset[str]:
        return frozenset(word.name.replace("-", "_") for word in self.words)


def parse_changes(arguments: Iterable[str]) -> tuple[WordChange, ...]:
    """Return the changes that texts such as `nohz_full=2-9`, `-quiet` and `boot:threadirqs` describe.

    A text may contain several changes, separated by spaces. Raise BadInput for an invalid change or if there is none,
    and Contradiction for changes that exclude each other.
    """
    found: dict[str, WordChange] = {}
    for text in (word for argument in arguments for word in argument.split()):
        change = _change(text)
        key = change.word.text if change.word.name in _ADD_UP | _PAGES else change.word.name.replace("-", "_")
        before = found.setdefault(key, change)
        if before != change:
            why = f"{before.text} and {change.text} exclude each other"
            raise Contradiction(why, hint=f"leave out {before.text} or {change.text}")
    if not found:
        raise BadInput("no kernel argument given", hint="name a kernel argument, such as nohz_full=2-9 or -quiet")
    return tuple(found.values())


def _change(text: str) -> WordChange:
    removes = text.startswith("-")
    plain = text.removeprefix("-").removeprefix("boot:")
    if not (plain if removes else _NEW.fullmatch(plain)):
        raise BadInput(
            f"{text!r} is not a kernel argument that ktrial can change",
            hint="write NAME=VALUE, NAME or -NAME, with only letters, digits and _.- in NAME, and also ,:/+=@ in VALUE",
        )
    name, equals, value = plain.partition("=")
    if any(same_name(name, net) for net in NETS) and not removes:
        why = f"cannot set {name}: ktrial reserves it for recognising trial boots and for ending failed ones"
        raise BadInput(why, hint=f"leave out {text}")
    return WordChange(BootWord(name, value if equals else None), removes)


def base_words(command_line: str, loader: str) -> tuple[str, ...]:
    """Return the kernel arguments of this boot, without those of the boot loader.

    Raise Refused if this boot is a trial boot, or if its command line contains `--`.
    """
    own = _OF_LOADER[loader]
    words = tuple(word for word in command_line.split() if word.partition("=")[0] not in own)
    if "--" in words:
        raise Refused(
            "cannot prepare a boot: the kernel command line has a `--`, after which every argument goes to init",
            hint="remove `--` and everything after it from the boot loader's configuration, then reboot",
        )
    mark = next((word for word in words if word.partition("=")[0] == MARK), None)
    if mark is not None:
        raise Refused(
            f"cannot prepare a boot: this boot is a trial boot already ({mark})",
            hint="run `ktrial boot keep` or `ktrial boot undo`, then boot the default entry",
        )
    return words


def change_line(base: Sequence[str], changes: Iterable[WordChange]) -> ChangedLine:
    """Return the command line with the changes.

    Raise BadInput if the command line already has an argument to add, or lacks one to remove. Raise Refused if the
    result would be too long, or if a boot loader would interpret some of its characters.
    """
    changes = tuple(changes)
    left, words, removed = list(base), [], []
    names = {change.word.name for change in changes} | {word.partition("=")[0] for word in base}
    for change in changes:
        word = change.word
        same = [one for one in left if same_name(one.partition("=")[0], word.name)]
        if change.removes:
            gone = [one for one in same if word.value is None or one == word.text]
            if not gone:
                near = nearest(word.text, left)
                raise BadInput(
                    f"cannot remove {word.text}: it is not on the kernel command line",
                    hint=f"did you mean {' or '.join(near)}?"
                    if near
                    else "run `cat /proc/cmdline` to see the arguments",
                )
        else:
            if word.text in same and len(same) == 1:
                raise BadInput(f"{word.text} is on the kernel command line already", hint=f"leave out {word.text}")
            adds_up = word.name in _ADD_UP or (word.name in _PAGES and "hugepagesz" in names)
            gone = [] if adds_up else same
            words.append(word)
        left = [one for one in left if one not in gone]
        removed += gone
    _require_safe(left)
    line = ChangedLine(tuple(left), tuple(words), tuple(removed))
    _require_room(line)
    return line


def _require_safe(words: Iterable[str]) -> None:
    strange = next((word for word in words if not _SAFE.fullmatch(word)), None)
    if strange is not None:
        raise Refused(
            f"cannot copy {strange} from the kernel command line: a boot loader would interpret some of its characters",
            hint=f"add '-{strange.partition('=')[0]}' if the machine boots without this argument",
        )


def _require_room(line: ChangedLine) -> None:
    needed = sum(len(word) + 1 for word in (*line.base, *(word.text for word in line.words))) + _NETS_BYTES
    if needed > MOST_BYTES:
        raise Refused(
            f"cannot prepare a boot: the command line would need {needed} bytes, but the kernel accepts at most"
            f" {MOST_BYTES}",
            hint="remove some kernel arguments with -NAME",
        )


def find_guarded_words(line: ChangedLine, knobs: Mapping[str, Knob]) -> tuple[GuardedWord, ...]:
    """Return the changes that weaken the machine's protection: arguments added, or removed without replacement."""
    found = []
    for word in line.words:
        if weakens(word.name, word.value):
            found.append(GuardedWord(word.name, word.text, _price(word.name, knobs)))
    for text in line.removed:
        name, equals, value = text.partition("=")
        is_replaced = name.replace("-", "_") in line.new_names
        if not is_replaced and may_weaken(name, value if equals else None):
            found.append(GuardedWord(name, f"-{text}", _price(name, knobs)))
    return tuple(found)


def _price(name: str, knobs: Mapping[str, Knob]) -> str:
    knob = next((one for one in knobs.values() if one.kind == "boot" and same_name(one.short_name, name)), None)
    return (knob.security or knob.price or "") if knob is not None else ""

# SPDX-License-Identifier: Apache-2.0
"""Arms that a person sets up, and the facts by which ktrial recognises them.

An expectation is the value of a fact. If the fact is a list of words, the expectation lists words that the fact
contains. `!` before a value or word negates it, and `*` stands for any text. An empty text means that the fact does not
exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.kit.errors import BadInput, Contradiction, UnknownName
from ktrial.machine.when import Truth

if TYPE_CHECKING:
    from ktrial.machine.facts import Fact, FactBook, FactKind
    from ktrial.trial.protocol.file import TrialFile

Expected = bool | int | float | str
Signs = Mapping[str, Expected]

_SCALARS = frozenset(("text", "int", "bool"))
#: A fact whose text is a list of words.
_COMMAND_LINE = "kernel.command_line"
_MOVES = frozenset(("boot.id",))
_NOT = "!"
_UNREPORTED = "this machine does not report it"
_WHOLE_KERNEL = (
    "kernel.release",
    "kernel.version",
    "kernel.build_id",
    "kernel.config_hash",
    "kernel.config_source",
)
#: Where the kernel shows its own release; the version's knob has the same name as the fact.
_SHOWN_TOO = ("kernel.osrelease",)


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """The visit that is due.

    `place` names the arm for which to set up the machine, `instruction` describes how, and `expect` contains the facts
    that the machine then shows. `confirm` means that these facts do not distinguish all arms. `new_boot` means that the
    machine must boot first, even if the arm is in force. `new_build` means that the visit needs a new build of the
    kernel.
    """

    trial: str
    block: int
    arm: str
    visit: int
    visits: int
    place: str
    instruction: str
    expect: Mapping[str, Expected]
    confirm: bool
    new_boot: bool
    new_build: bool = False

    @property
    def command(self) -> str:
        return f"ktrial trial next {self.trial}"

    @property
    def todo(self) -> str:
        """What a person must do for this visit."""
        said = f" --done {self.place}" if self.confirm else ""
        return f"{self.instruction}; then  {self.command}{said}"


def is_by_hand(trial: TrialFile) -> bool:
    """Return whether a person must do something between visits: set up an arm, or boot."""
    if trial.guest is not None:
        return False
    return trial.design.replicate == "boot" or any(arm.manual is not None for arm in trial.arms.values())


def check_manual(trial: TrialFile) -> None:
    """Raise BadInput for manual arms that are invalid on every machine, and for `expect` in other arms."""
    for name, arm in trial.arms.items():
        if arm.expect and arm.manual is None:
            raise BadInput(
                f"arm {name}: only a manual arm can have `expect`",
                hint='add  manual = "…"  to say what to do, or remove `expect`',
            )
        if arm.manual is None:
            continue
        if not arm.manual.strip():
            raise BadInput(f"arm {name}: `manual` is empty", hint='for example  manual = "boot the BORE kernel"')
        if not msgspec.structs.replace(arm, manual=None, environment={}, parameters={}).changes_nothing:
            what = f"sets {arm.words[0]}" if arm.words else "has changes that ktrial would make"
            raise Contradiction(
                f"arm {name} is set up by hand, but {what}",
                hint="describe this change in the text of `manual` instead",
            )
        if trial.baseline != "found":
            raise Contradiction(
                f"cannot combine baseline = {trial.baseline!r} with arm {name}, which you set up by hand",
                hint="remove `baseline`",
            )


def check_signs(trial: TrialFile, kinds: Mapping[str, FactKind]) -> None:
    """Raise BadInput for facts that don't exist, or whose value cannot identify an arm."""
    for name, arm in trial.arms.items():
        for fact, wanted in arm.expect.items():
            if fact not in kinds:
                raise UnknownName("fact", fact, kinds, hint="use a fact that `ktrial facts` lists")
            told = _unusable(kinds[fact], wanted)
            if told is not None:
                raise BadInput(
                    f"arm {name} cannot expect {fact} = {wanted!r}: {told}",
                    hint=f"correct this value, or remove {fact} from the arm's `expect`",
                )


def _unusable(kind: FactKind, wanted: Expected) -> str | None:
    """Return why this expectation cannot identify an arm; None if it can."""
    if kind.name in _MOVES:
        return "its value may change while the arm stays the same"
    if kind.of is not None or (kind.type not in _SCALARS and not _is_words(kind)):
        return "the fact has several values"
    if _is_words(kind):
        return None if isinstance(wanted, str) and wanted.split() else "expected words that the fact contains"
    fits: dict[str, bool] = {
        "text": isinstance(wanted, str),
        "bool": isinstance(wanted, bool) or wanted in {"!true", "!false"},
        "int": (isinstance(wanted, int) and not isinstance(wanted, bool))
        or (isinstance(wanted, str) and re.fullmatch(r"!-?\d+", wanted) is not None),
    }
    return None if fits[kind.type] else f"the fact has type {kind.type}"


def _is_words(kind: FactKind) -> bool:
    return kind.type == "texts" or kind.name == _COMMAND_LINE


class Look(NamedTuple):
    """Whether a machine shows the facts that identify an arm. `told` lists facts that differ or are unknown.

    `found` contains the values of known facts. For a fact that is a list of words, it contains the expected words, or
    an empty text if a word is missing.
    """

    truth: Truth
    told: tuple[str, ...]
    found: Mapping[str, str]


def look(signs: Signs, facts: FactBook, kinds: Mapping[str, FactKind]) -> Look:
    """Compare the facts that identify an arm with a machine. Without facts only a person can recognise the arm."""
    found: dict[str, str] = {}
    against: list[str] = []
    unknown: list[str] = []
    for name, wanted in signs.items():
        fact = facts.get(name)
        if fact is None or fact.unknown is not None:
            unknown.append(f"{name} is unknown: {_UNREPORTED if fact is None else fact.unknown}")
        elif _is_words(kinds[name]):
            words = _words(fact)
            missing = [word for word in str(wanted).split() if not _holds(word, words)]
            against += [_told_word(name, word) for word in missing]
            found[name] = str(wanted) if not missing else ""
        else:
            found[name] = _text(fact)
            if not _holds(_expectation_text(wanted), (found[name],)):
                against.append(f"{name} is {_value_text(found[name])}, not {_expected_text(_expectation_text(wanted))}")
    truth = Truth.NO if against else Truth.UNKNOWN if unknown or not signs else Truth.YES
    return Look(truth, (*against, *unknown), found)


def _holds(wanted: str, values: Iterable[str]) -> bool:
    """Return whether one of the values matches; with `!`, whether none matches."""
    bare = wanted.removeprefix(_NOT)
    pattern = re.compile(".*".join(map(re.escape, bare.split("*"))), re.DOTALL)
    return any(pattern.fullmatch(value) for value in values) is not wanted.startswith(_NOT)


def _told_word(name: str, word: str) -> str:
    return f"{name} contains {word[1:]}" if word.startswith(_NOT) else f"{name} does not contain {word}"


def _expected_text(text: str) -> str:
    return f"anything but {text[1:]}" if text.startswith(_NOT) else _value_text(text)


def _value_text(text: str) -> str:
    return text or "missing"


def _words(fact: Fact) -> tuple[str, ...]:
    if fact.value is None:
        return ()
    return tuple(fact.value.split() if isinstance(fact.value, str) else map(str, fact.value))


def _text(fact: Fact) -> str:
    return "" if fact.value is None else _expectation_text(fact.value)


def _expectation_text(value: Expected) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def signs_as_found(trial: TrialFile, facts: FactBook, kinds: Mapping[str, FactKind]) -> dict[str, Expected]:
    """Return facts that identify a control that nobody sets up: the current values of the other arms' facts.

    Raise BadInput for a fact that is unknown now.
    """
    found: dict[str, Expected] = {}
    for name, wanted in _expected(trial):
        fact = facts.get(name)
        if fact is None or fact.unknown is not None:
            raise BadInput(
                f"cannot read the fact {name}: {_UNREPORTED if fact is None else fact.unknown}",
                hint="use another fact in `expect`, or remove `expect` and confirm the arm yourself",
            )
        if _is_words(kinds[name]):
            bare = [word.removeprefix(_NOT) for word in str(wanted).split()]
            now = [word if _holds(word, _words(fact)) else f"{_NOT}{word}" for word in bare]
            found[name] = " ".join(dict.fromkeys((*str(found.get(name, "")).split(), *now)))
        else:
            found[name] = _text(fact) if fact.value is None else fact.value
    return found


def _expected(trial: TrialFile) -> Iterator[tuple[str, Expected]]:
    for arm in trial.arms.values():
        yield from arm.expect.items()


def place_of(trial: TrialFile, arm: str) -> str:
    """Return the arm for which the machine must be set up: this arm if a person sets it up, otherwise the control."""
    return arm if trial.arms[arm].manual is not None else trial.control


def implied(signs: Signs) -> tuple[str, ...]:
    """Return the names of everything that may change together with the facts in `signs`.

    A fact about the kernel implies all facts about the kernel, and `kernel.command_line` implies the boot parameters
    that it names. Any other fact implies only itself.
    """
    found: list[str] = []
    for name, wanted in signs.items():
        if name == _COMMAND_LINE:
            found += [f"boot:{word.removeprefix(_NOT).partition('=')[0]}" for word in str(wanted).split()]
        else:
            found += (*_WHOLE_KERNEL, *_SHOWN_TOO) if name in _WHOLE_KERNEL else (name,)
    return tuple(dict.fromkeys(found))

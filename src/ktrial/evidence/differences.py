# SPDX-License-Identifier: Apache-2.0
"""The result of a recheck, `ktrial.rechecked/1`, and the differences between two comparisons, field by field."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ktrial.judge.model.comparison import Comparison
from ktrial.kit.tables import labelled, paragraph

#: Numbers whose relative difference is smaller count as equal.
TOLERANCE = 1e-9
#: `hash`: a file does not match its digest. `measurement`: raw output yields another number than the stored one.
#: `question`, `comparison`: the published question or comparison does not follow from the data. `file`: a published
#: file differs from the one generated from the comparison. `protocol`: the protocol changed after the trial began.
#: `trial`: an order, a verdict or a run is wrong.
Kind = Literal["hash", "measurement", "question", "comparison", "file", "protocol", "trial"]
#: Fields of a comparison that hold sentences, reasons, commands and the protocol as text.
_TEXTS = frozenset(
    (
        *("title", "answer", "scope", "why", "sentence", "note", "better", "worse", "blind_spots", "missing"),
        *("declared", "refused", "void", "ended", "text", "reproduce"),
    )
)
_LONG = 120
_NOTHING = object()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a recheck cannot reproduce. `where` is its place, and `told` says what is wrong."""

    kind: Kind
    where: str
    told: str


class UnreadData(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose raw output could not be re-read, with the reason."""

    run: str
    reason: str


class RecheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a recheck.

    `unread` lists the runs whose raw output could not be re-read. `question_sha256` is null without a comparison.
    """

    schema: Literal["ktrial.rechecked/1"] = "ktrial.rechecked/1"
    file: str
    runs: int
    outcomes: int
    question_sha256: str | None
    differences: tuple[Difference, ...]
    unread: tuple[UnreadData, ...]
    notes: tuple[str, ...] = ()


def comparison_differences(stored: Comparison, again: Comparison) -> Iterator[Difference]:
    """Yield each field that differs, with outcome, arm and run.

    Compare texts only if the same code wrote both comparisons.
    """
    both = (_plain(stored), _plain(again))
    if stored.writer != again.writer:
        both = (_without_texts(both[0]), _without_texts(both[1]))
    for where, was, now in _walk(*both, ""):
        yield Difference(kind="comparison", where=where, told=_both(was, now))


def same_figures(stored: Comparison, again: Comparison) -> Difference | None:
    """Return the first number or verdict that differs, ignoring the names of arms; None if all agree."""
    for where, was, now in _walk(_figures(stored), _figures(again), ""):
        return Difference(kind="comparison", where=where, told=_both(was, now))
    return None


def _plain(comparison: Comparison) -> Any:
    """Return the comparison as JSON data, without its writer and its question, which has a digest of its own."""
    plain = msgspec.structs.replace(comparison, asked=None, asked_sha256=None, writer=None)
    return msgspec.json.decode(msgspec.json.encode(plain))


def _without_texts(value: Any) -> Any:
    """Return the data with empty texts in the fields whose wording changes from version to version."""
    if isinstance(value, Mapping):
        return {name: (_blank if name in _TEXTS else _without_texts)(one) for name, one in value.items()}
    return [_without_texts(one) for one in value] if isinstance(value, list) else value


def _blank(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _blank(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_blank(one) for one in value]
    return "" if isinstance(value, str) else value


def _figures(comparison: Comparison) -> Any:
    return {
        one.name: {
            "arms": [[len(arm.points), arm.mean, arm.sd, *(point.value for point in arm.points)] for arm in one.arms],
            "contrasts": [
                [
                    told.verdict,
                    *(() if told.effect is None else (told.effect.estimate, told.effect.low, told.effect.high)),
                ]
                for told in one.contrasts
            ],
        }
        for one in comparison.outcomes
    }


def _walk(was: Any, now: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*was, *now)):
            place = f"{where}.{name}" if where and not where.endswith(": ") else f"{where}{name}"
            yield from _walk(was.get(name, _NOTHING), now.get(name, _NOTHING), place)
    elif isinstance(was, list) and isinstance(now, list):
        left, right = _by_subject(was), _by_subject(now)
        for name in dict.fromkeys((*left, *right)):
            yield from _walk(left.get(name, _NOTHING), right.get(name, _NOTHING), _below(where, name))
    elif not _equal(was, now):
        yield where, was, now


def _below(where: str, name: str) -> str:
    """Extend a place, such as `outcome wakeup.p99, arm bore: effect.low`, by one name.

    The name of an entry replaces the name of its list.
    """
    head, colon, last = where.rpartition(": ")
    if name.startswith("#"):
        return f"{where}{name}"
    if last in ("outcomes", "points", "contrasts", "arms") or not last:
        return f"{head}, {name}: " if colon else f"{name}: "
    return f"{where} [{name}]: "


def _by_subject(values: Sequence[Any]) -> dict[str, Any]:
    """Map subjects to list entries, so that one missing entry does not make all later ones differ."""
    counted: Counter[str] = Counter()
    found = {}
    for number, value in enumerate(values, 1):
        name = _name(value) or f"#{number}"
        counted[name] += 1
        found[name if counted[name] == 1 else f"{name} ({counted[name]})"] = value
    return found


def _name(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    if "outcome" in value and "benchmark" in value:
        return f"outcome {value['benchmark']}.{value['outcome']}"
    if "first" in value and "second" in value:
        return f"{value['first']} and {value['second']}"
    if "arm" in value and "name" in value:
        return f"arm {value['arm']}, {value['name']}"
    for key in ("arm", "run", "name", "kind", "method", "source", "what"):
        if key in value:
            return f"{key} {value[key]}"
    return None


def _equal(was: Any, now: Any) -> bool:
    if isinstance(was, bool) or isinstance(now, bool):
        return was is now
    if isinstance(was, int | float) and isinstance(now, int | float):
        return math.isclose(was, now, rel_tol=TOLERANCE, abs_tol=1e-300)
    return bool(was == now)


def _both(was: Any, now: Any) -> str:
    """Return both values; long texts are cut to the part around the first difference."""
    texts = ["nothing" if value is _NOTHING else msgspec.json.encode(value).decode() for value in (was, now)]
    if max(map(len, texts)) > _LONG:
        differ = next((place for place, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), None)
        start = max(0, (min(map(len, texts)) if differ is None else differ) - _LONG // 2)
        texts = [_shorten(text, start) for text in texts]
    return f"stored {texts[0]}, recomputed {texts[1]}"


def _shorten(text: str, start: int) -> str:
    part = text[start : start + _LONG]
    return f"{'…' if start else ''}{part}{'…' if start + _LONG < len(text) else ''}"


#: Number of differences of each kind in the text; the JSON has all.
_MOST_OF_A_KIND = 12


def rechecked_text(found: RecheckResult, *, width: int) -> str:
    """Return what the recheck read, up to 12 differences of each kind, and the number of all differences."""
    lines = [labelled("file", found.file, width=width)]
    lines.append(labelled("runs", f"{found.runs}, {found.runs - len(found.unread)} re-read", width=width))
    if found.question_sha256 is not None:
        lines.append(labelled("question", f"SHA-256 {found.question_sha256}", width=width))
        lines.append(labelled("outcomes", f"{found.outcomes} recomputed", width=width))
    reasons = Counter(one.reason for one in found.unread)
    lines += [labelled("not read", f"{count} runs: {reason}", width=width) for reason, count in reasons.items()]
    lines += [labelled("note", note, width=width) for note in found.notes]
    shown: Counter[str] = Counter()
    for one in found.differences:
        shown[one.kind] += 1
        if shown[one.kind] <= _MOST_OF_A_KIND:
            lines += ["", paragraph(f"{one.where}", width=width), paragraph(one.told, width=width, indent="  ")]
    for kind, count in shown.items():
        if count > _MOST_OF_A_KIND:
            lines += ["", f"{count - _MOST_OF_A_KIND} more of kind {kind}; --json lists all"]
    count = len(found.differences)
    answer = "all equal" if not count else f"{count} difference{'s'[: count != 1]}"
    return "\n".join([*lines, "", answer]) + "\n"

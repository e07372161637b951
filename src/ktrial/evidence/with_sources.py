# SPDX-License-Identifier: Apache-2.0
"""Adds a comparison and all its sources to a bundle, so that others can recompute the comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.bench import packed_raw
from ktrial.evidence.differences import comparison_differences, same_figures
from ktrial.evidence.model import Packed
from ktrial.evidence.pack import Scrubbing
from ktrial.evidence.unpack import BundleResults
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.query import AskedComparison, AskedFile
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.scrub import Scrubber
from ktrial.results.ports import ReadResults

if TYPE_CHECKING:
    from ktrial.evidence.file import BundleWriter

#: Recomputes a comparison from results, and from files by name.
Again = Callable[[Comparison, ReadResults, Callable[[str], bytes]], Comparison]


class CarriedComparison(NamedTuple):
    """A packed comparison. `replaced` counts, by kind, the names replaced in the comparison and its files."""

    comparison: Comparison
    replaced: Mapping[str, int]


def question_of(published: Comparison) -> AskedComparison:
    """Return the question of a comparison. Raise BadInput if it has none."""
    if published.asked is None:
        raise BadInput(
            "cannot recompute the comparison: it does not contain its question",
            hint="create the comparison again with `ktrial compare A B -o FILE`",
        )
    return published.asked


def sessions_of(question: AskedComparison) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for source in question.sources for name in source.sessions))


def carry(
    published: Comparison,
    read: Callable[[str], bytes],
    again: Again,
    writer: BundleWriter,
    packed: Sequence[Packed],
    scrubbing: Scrubbing | None,
) -> CarriedComparison:
    """Add the compared files to a bundle and return the recomputed comparison.

    Raise Refused if a compared file has changed, or if the recomputed comparison differs from `published`.
    """
    question = question_of(published)
    datas = {file.path: _checked(file, read) for source in question.sources for file in source.files}
    scrubber = None if scrubbing is None else _scrubber(scrubbing, published, datas)
    digests, asked = {}, question
    for path, data in datas.items():
        digests[path] = writer.raw(data if scrubber is None else packed_raw.scrubbed(data, scrubber))
    if scrubber is not None:
        asked = _clean(question, scrubber, digests)
        digests = {scrubber.document(path): digest for path, digest in digests.items()}
        published = msgspec.structs.replace(published, reproduce=tuple(scrubber.document(published.reproduce)))
    bundle = writer.opened(packed)
    given = msgspec.structs.replace(published, asked=asked)
    found = again(given, BundleResults(bundle), lambda path: bundle.raw(digests[path]))
    wrong = same_figures(published, found)
    if wrong is None and scrubber is None:
        wrong = next(comparison_differences(published, found), None)
    if wrong is not None:
        raise Refused(
            f"recomputing the comparison from the bundle gives another result in {wrong.where}: {wrong.told}",
            hint="pack a new comparison, from `ktrial compare A B -o FILE`"
            + (
                ""
                if scrubber is None
                else "; or use --keep-identity to pack everything with the names of hosts and users"
            ),
        )
    return CarriedComparison(
        found, {} if scrubber is None else {str(kind): times for kind, times in scrubber.replaced.items()}
    )


def _checked(file: AskedFile, read: Callable[[str], bytes]) -> bytes:
    data = read(file.path)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Refused(
            f"{file.path} has changed since it was compared",
            hint="pack a new comparison, from `ktrial compare A B -o FILE`",
        )
    return data


def _scrubber(scrubbing: Scrubbing, published: Comparison, datas: Mapping[str, bytes]) -> Scrubber:
    names = {name for one in published.outcomes for name in (one.benchmark, one.outcome)}
    scrubber = Scrubber(scrubbing.identity, scrubbing.salt, names)
    for path, data in datas.items():
        try:
            for layer in packed_raw.layers(data):
                scrubber.learn(layer)
        except BadInput as error:
            raise BadInput(error.message, file=path, hint=error.hint) from None
    return scrubber


def _clean(question: AskedComparison, scrubber: Scrubber, digests: dict[str, str]) -> AskedComparison:
    """Return the question with scrubbed names and with the digests of the packed files."""
    told = msgspec.to_builtins(question)
    told["excluded"] = {}
    for source in told["sources"]:
        for file in source["files"]:
            file["sha256"] = digests[file["path"]]
    excluded = {scrubber.document(run): scrubber.document(reason) for run, reason in question.excluded.items()}
    return msgspec.structs.replace(msgspec.convert(scrubber.document(told), AskedComparison), excluded=excluded)

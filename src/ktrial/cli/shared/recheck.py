# SPDX-License-Identifier: Apache-2.0
"""Checks a bundle or a published folder for `ktrial recheck`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.cli.shared.compare import answered_again
from ktrial.cli.shared.evidence import DATA
from ktrial.compare.files import decode_comparison
from ktrial.evidence.differences import Difference
from ktrial.evidence.file import plain_file
from ktrial.evidence.recheck import Readers, recheck
from ktrial.kit.errors import BadInput
from ktrial.reports.publish import LIST, publication

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.evidence.differences import RecheckResult
    from ktrial.evidence.unpack import Bundle
    from ktrial.judge.model.comparison import Comparison

_COMPARISON = "comparison.json"


def recheck_path(app: App, path: Path) -> RecheckResult:
    """Recompute a bundle, or a folder published with its data, and return every difference."""
    if not path.is_dir():
        return recheck_bundle(app, app.bundles.examine(path))
    if not (path / DATA).is_dir():
        raise BadInput(
            f"{path}: the folder has no {DATA}/, so the comparison cannot be computed",
            hint="name a folder that `ktrial publish … --data` wrote",
        )
    stored = decode_comparison(plain_file(path, _COMPARISON), str(path / _COMPARISON))
    made = recheck(app.bundles.examine(path / DATA), stored, _readers(app))
    files = list(_changed_files(path))
    notes = made.found.notes
    if made.comparison is not None:
        is_own = made.comparison.writer == stored.writer
        notes = notes if is_own else (*notes, "README.md, charts, trial.toml and reproduce.sh are not compared either")
        files += _made_again(path, made.comparison, {one.where for one in files}, runs_only=not is_own)
    return msgspec.structs.replace(
        made.found, file=str(path), notes=notes, differences=(*files, *made.found.differences)
    )


def recheck_bundle(app: App, bundle: Bundle) -> RecheckResult:
    """Recompute everything in an open bundle, and return every difference."""
    data = bundle.comparison()
    stored = None if data is None else decode_comparison(data, f"{bundle.shown}: {_COMPARISON}")
    return recheck(bundle, stored, _readers(app)).found


def _readers(app: App) -> Readers:
    again = partial(answered_again, app)
    return Readers(benchmarks=app.benchmarks, importers=app.importers, catalog=app.catalog, again=again)


def _changed_files(folder: Path) -> Iterator[Difference]:
    """Yield files that differ from SHA256SUMS."""
    try:
        lines = plain_file(folder, LIST).decode().splitlines()
    except (BadInput, UnicodeDecodeError) as error:
        yield Difference(kind="file", where=LIST, told=f"cannot read it: {error}")
        return
    for line in lines:
        digest, _, name = line.partition("  ")
        data = _content(folder, name)
        if data is None:
            yield Difference(kind="file", where=name, told=f"listed in {LIST}, but not a regular file in the folder")
        elif hashlib.sha256(data).hexdigest() != digest:
            yield Difference(kind="hash", where=name, told=f"changed: it differs from {LIST}")


def _made_again(folder: Path, comparison: Comparison, known: set[str], *, runs_only: bool) -> Iterator[Difference]:
    """Yield files that differ from the files that this ktrial writes for the comparison."""
    for name, data in publication(comparison, has_data=True).items():
        if name in (LIST, _COMPARISON) or name in known or (runs_only and not name.startswith("runs/")):
            continue
        there = _content(folder, name)
        if there != data and not (runs_only and there is not None and _figures(there) == _figures(data)):
            yield Difference(kind="file", where=name, told="does not follow from the data")


def _figures(run: bytes) -> Any:
    """Return the measurements of a run; None for a file of another kind."""
    try:
        return msgspec.json.decode(run)["measurements"]
    except (msgspec.DecodeError, TypeError, KeyError):
        return None


def _content(folder: Path, name: str) -> bytes | None:
    """Return the content of a regular file in the folder; None for anything else."""
    try:
        return plain_file(folder, name)
    except BadInput:
        return None

# SPDX-License-Identifier: Apache-2.0
"""Packs, imports and checks bundles, for the commands that use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.cli.shared.compare import answered_again
from ktrial.evidence.differences import same_figures
from ktrial.evidence.pack import PackedBundle, Scrubbing, bring_back, pack
from ktrial.evidence.recheck_trial import told_again
from ktrial.evidence.trials import trial_in
from ktrial.evidence.unpack import BundleResults
from ktrial.evidence.with_sources import carry, question_of, sessions_of
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.files import read_file
from ktrial.results.import_file import LIMIT_BYTES

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.evidence.file import BundleWriter
    from ktrial.evidence.pack import BroughtIn
    from ktrial.judge.model.comparison import Comparison
    from ktrial.results.model import StoredSession

#: Subfolder of a published folder with the data of its comparison.
DATA = "data"
_ZSTD = b"\x28\xb5\x2f\xfd"


def scrubbing_of(app: App) -> Scrubbing:
    identity, salt = app.scrubbing()
    return Scrubbing(identity=identity, salt=salt, benchmarks=app.benchmarks)


def pack_comparison(
    app: App, published: Comparison, names: Sequence[str], *, keep_identity: bool
) -> tuple[BundleWriter, PackedBundle, Comparison]:
    """Pack a comparison and its data; return the unwritten bundle, its content, and the comparison computed from it."""
    if published.trial is not None:
        return carried_trial(app, published, published.trial.trial, keep_identity=keep_identity)

    session_names = dict.fromkeys((*sessions_of(question_of(published)), *names))
    sessions = {one.session: one for one in map(app.store.session, session_names)} if session_names else {}
    writer = app.bundles.new()
    scrubbing = None if keep_identity else scrubbing_of(app)
    made = PackedBundle(sessions=(), left=(), spoiled=())
    if sessions:
        made = pack(list(sessions.values()), app.store, writer, scrubbing, app.trials)
    again = partial(answered_again, app)
    found = carry(published, lambda path: read_file(Path(path), LIMIT_BYTES), again, writer, made.sessions, scrubbing)
    return writer, msgspec.structs.replace(made, replaced=found.replaced), found.comparison


def carried_trial(
    app: App, published: Comparison, name: str, *, keep_identity: bool
) -> tuple[BundleWriter, PackedBundle, Comparison]:
    """Pack a trial; return the unwritten bundle, its content, and the comparison computed from it."""
    kept = app.trials.named(name)
    if kept is None:
        raise BadInput(f"{app.store.shown} has no trial {name}", hint="name the right store with --store")
    writer = app.bundles.new()
    scrubbing = None if keep_identity else scrubbing_of(app)
    made = pack([app.store.session(kept.stored.session)], app.store, writer, scrubbing, app.trials)
    bundle = writer.opened(made.sessions)
    found = told_again(trial_in(bundle, name), BundleResults(bundle), app.benchmarks, app.catalog)
    wrong = same_figures(published, found)
    if wrong is not None:
        raise Refused(
            f"the comparison no longer matches trial {name} ({wrong.where}: {wrong.told})",
            hint=f"write the comparison again: `ktrial trial show {name} --json > FILE`",
        )
    return writer, made, found


def sessions_named(app: App, names: Sequence[str]) -> list[StoredSession]:
    """Return the sessions with these names or of these trials; all sessions if there are no names."""
    if not names:
        return list(app.store.sessions())
    found: dict[str, StoredSession] = {}
    for name in names:
        trial = app.trials.named(name)
        session = app.store.session(name if trial is None else trial.stored.session)
        found[session.session] = session
    return list(found.values())


def tell(app: App, output: Path, made: PackedBundle, *, kept: bool) -> None:
    """Report what a bundle contains, and what to check before publishing. With `kept`, no names were replaced."""
    sessions = "1 session" if len(made.sessions) == 1 else f"{len(made.sessions)} sessions"
    trials = f", with the trial{'s'[: len(made.trials) != 1]} {', '.join(made.trials)}" if made.trials else ""
    app.say(f"{output}: {sessions}{trials}")
    counts = Counter(made.replaced)
    for one in made.sessions:
        counts.update(one.replaced or {})
    replaced = ", ".join(f"{kind} ({times})" for kind, times in sorted(counts.items()))
    if kept:
        app.say("the bundle contains names of hosts and users, serial numbers and MAC addresses")
    else:
        app.say(f"replaced: {replaced or 'nothing'}; check labels and commands before you publish it")
    if made.left:
        app.say(f"names replaced only in known places, because they are also ordinary words: {', '.join(made.left)}")
    if made.spoiled:
        app.say(f"runs with raw output that ktrial cannot parse without the replaced names: {', '.join(made.spoiled)}")


def is_bundle(path: Path) -> bool:
    """Return whether the file starts like zstd data, which no other result file does."""
    try:
        if not path.is_file():
            return False  # reading a pipe would block
        with path.open("rb") as file:
            return file.read(4) == _ZSTD
    except OSError:
        return False


def import_bundle(app: App, path: Path, *, dry_run: bool) -> BroughtIn:
    if dry_run:
        raise BadInput(f"{path}: --dry-run does not support bundles", hint="leave out --dry-run")

    return bring_back(app.bundles.open(path), app.store, scrubbing_of(app), app.trials)

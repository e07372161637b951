# SPDX-License-Identifier: Apache-2.0
"""Imports verdicts of other people from bundles, removes them, and reads them to show beside the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ktrial.kit.errors import BadInput, KtrialError, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from ktrial.cli.app import App
    from ktrial.machine.ports import Machine
    from ktrial.studies.ledger.model import LedgerEntry
    from ktrial.studies.ledger.others import MergedOthers, OthersLedger, OthersVerdict


def verdicts_elsewhere(
    app: App, machine: Machine, is_wanted: Callable[[LedgerEntry], bool] = lambda entry: True
) -> tuple[OthersVerdict, ...]:
    """Return verdicts of other machines, the most similar machines first. Report a damaged file; raise no error."""
    try:
        ledger = read_others(app)
    except KtrialError as error:
        app.say(f"{error.message}; {error.hint}")
        return ()
    if ledger is None or not any(is_wanted(entry) for trial in ledger.trials for entry in trial.entries):
        return ()
    from ktrial.studies.ledger.others import HARDWARE_FACTS, hardware_from, verdicts_of

    facts = machine.facts((*HARDWARE_FACTS, "block.devices"))
    disks = [str(one.get("name")) for one in facts.records("block.devices") if one.get("virtual") is not True]
    return verdicts_of(ledger, hardware_from(facts.value, disks), is_wanted)


def import_others(app: App, path: Path, signers: Path | None) -> tuple[MergedOthers, str | None]:
    """Recheck a bundle, and add its verdicts to the ledger of other machines. Also return the verified signer, if any.

    Raise Refused if the recheck finds a difference.
    """
    from ktrial.cli.shared.ledger import own_machine
    from ktrial.cli.shared.recheck import recheck_bundle
    from ktrial.evidence.others import BundleOrigin, others_in
    from ktrial.kit import plain_json
    from ktrial.studies.ledger.others import OthersLedger, merge

    ledger = read_others(app) or OthersLedger()
    digest = _sha256(path)
    signer = None if signers is None else _signer(path, signers)
    bundle = app.bundles.open(path)
    checked = recheck_bundle(app, bundle)
    if checked.differences:
        first = checked.differences[0]
        raise Refused(
            f"{path}: the verdicts do not follow from the runs ({first.where}: {first.told})",
            hint=f"ktrial recheck {path}",
        )
    if _sha256(path) != digest:
        raise Refused(f"{path} changed while ktrial read it", hint="run the same command again")
    origin = BundleOrigin(path.name, digest, signer, app.clock.unix_ms())
    found = merge(ledger, others_in(bundle, origin, own_machine(app), app.catalog.knobs))
    if found.added or found.newly_signed:
        app.ledger_file.of_others().write(plain_json.line(found.ledger).encode())
    if checked.unread:
        app.say(f"the raw output of {len(checked.unread)} runs cannot be read again; their stored numbers count")
    return found, signer


def _sha256(path: Path) -> str:
    import hashlib

    if not path.is_file():
        raise BadInput(
            f"{path}: {'not a file' if path.exists() else 'no such file'}",
            hint="give a bundle that `ktrial bundle` wrote",
        )
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _signer(path: Path, signers: Path) -> str:
    from ktrial.evidence.signature import verify

    found = verify(path, signers)
    if found.signer is None:
        reason = f" ({found.reason})" if found.reason else ""
        raise KtrialError(
            f"cannot import {path} as signed: {found.sentence}{reason}",
            hint="check the bundle, its signature and the file of signers, or leave out --signers",
        )
    return found.signer


def forget_others(app: App, source: str) -> int:
    """Remove the verdicts of a signer or a bundle; return the number of their trials."""
    from ktrial.kit import plain_json
    from ktrial.studies.ledger.others import OthersLedger, without

    before = read_others(app) or OthersLedger()
    after = without(before, source)
    app.ledger_file.of_others().write(plain_json.line(after).encode())
    return len(before.trials) - len(after.trials)


def read_others(app: App) -> OthersLedger | None:
    """Return the ledger of other machines; None if nothing was imported. Raise KtrialError if the file is damaged."""
    file = app.ledger_file.of_others()
    data = file.read()
    if data is None:
        return None
    from ktrial.studies.ledger.others import decode_others

    return decode_others(data, file.path)

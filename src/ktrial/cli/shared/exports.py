# SPDX-License-Identifier: Apache-2.0
"""Turns the words of `ktrial export` into lasting settings with their reasons, and writes the files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ktrial.cli.shared.lasting_words import NamedSettings, WordReader, proofs_of
from ktrial.compare.files import write_file
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import machine_of
from ktrial.machine.transactions import status
from ktrial.studies.ledger.text import verdict_sentence
from ktrial.tuning.exports.model import UNTESTED, UNTESTED_ON_PHONE, LastingProfile, LastingSetting, Omission
from ktrial.tuning.exports.phone.module import zip_entries
from ktrial.tuning.exports.phone.resolve import PHONE_FACTS, phone_settings
from ktrial.tuning.exports.resolve import WantedSetting, lasting_settings
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.plans.model import Context

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.tuning.catalog.model import Catalog
    from ktrial.tuning.exporters import ExportTarget
    from ktrial.tuning.knobs.knob import Evidence

#: Time of every file in an archive, so that the same settings give the same bytes.
_ZIP_TIME = (2020, 1, 1, 0, 0, 0)


class Lasting(NamedTuple):
    """Settings to export, and skipped settings."""

    profile: LastingProfile
    left_out: tuple[Omission, ...]


def lasting_profile(app: App, words: Sequence[str], name: str | None, *, on_phone: bool = False) -> Lasting:
    """Return the settings that the words name, computed for this machine if they depend on it.

    With `on_phone`, values that depend on the machine are computed by the phone that gets the settings.
    """
    if not words:
        raise BadInput(
            "nothing to export", hint="name a profile, a trial, a transaction, or settings such as vm.swappiness=10"
        )
    catalog, names = app.catalog_for(words)
    machine = app.user_session
    here = machine.facts()
    is_phone = here.value("os.android") is True
    facts = PHONE_FACTS if on_phone else here
    reader = WordReader(app, catalog, machine, facts, lambda: status(app.root_session("reading its transactions")))
    if on_phone:
        _refuse_generated(names, catalog)
    named = [reader.settings_of(word) for word in names]
    wanted = [one for each in named for one in _wanted_settings(each, catalog, on_phone=on_phone, is_phone=is_phone)]
    left = tuple(one for each in named for one in each.not_exported)
    knobs = {knob.id: knob for one in wanted if (knob := find_knob(one.setting.knob, catalog.knobs)).files}
    states = {} if on_phone else observe(machine, knobs.values())
    context = Context(catalog.knobs, catalog.kinds, facts, states)
    proofs = {} if on_phone and not is_phone else proofs_of(app, machine_of(here))
    untested = UNTESTED_ON_PHONE if on_phone else UNTESTED

    def tested(setting: LastingSetting) -> tuple[str, ...]:
        entry = proofs.get((setting.address, setting.text))
        return (untested,) if entry is None else (verdict_sentence(entry),)

    settings, more = lasting_settings(wanted, context, tested, phone_settings if on_phone else None)
    if not settings:
        reasons = "; ".join(f"cannot export {one.address}: {one.reason}" for one in (*left, *more))
        raise BadInput(
            reasons or f"{' '.join(names)}: no settings to export",
            hint="name other settings",
        )
    profile = LastingProfile(name=name or _slug(names), title=" ".join(names), settings=settings)
    return Lasting(profile, (*left, *more))


def _refuse_generated(names: Sequence[str], catalog: Catalog) -> None:
    for name in names:
        if name in catalog.profiles and catalog.profiles[name].generated is not None:
            raise BadInput(
                f"cannot write profile {name} for a phone: its values are those of this machine",
                hint="name another profile, or settings such as vm.swappiness=10",
            )


def _wanted_settings(named: NamedSettings, catalog: Catalog, *, on_phone: bool, is_phone: bool) -> list[WantedSetting]:
    origin, entry = named.request.origin, named.entry
    is_trial = origin.startswith("trial ")
    verdict = f"{origin}: no verdict yet" if entry is None else verdict_sentence(entry)
    elsewhere = (UNTESTED_ON_PHONE,) if on_phone and not is_phone else ()
    profile = catalog.profiles.get(origin.removeprefix("profile "))
    source = profile.source if profile is not None else None
    wanted = []
    for one in named.request.settings:
        if is_trial:
            reasons: tuple[str, ...] = (verdict, *elsewhere)
        elif origin.startswith("setting "):
            reasons = ()
        else:
            reasons = (f"{origin}: {one.why}" if one.why else origin,)
        if on_phone:
            evidence = find_knob(one.knob, catalog.knobs).evidence
            reasons += tuple(_claim_line(each) for each in evidence if each.source == source)
        wanted.append(WantedSetting(one, origin, reasons, judged=is_trial))
    return wanted


def _claim_line(evidence: Evidence) -> str:
    note = f" ({evidence.note})" if evidence.note else ""
    return f"{evidence.source}, {evidence.status}: {evidence.claim}{note}"


def _slug(names: Sequence[str]) -> str:
    """Return a file name derived from `names`."""
    first = names[0].partition("=")[0] if len(names) == 1 else "-".join(word.partition("=")[0] for word in names[:3])
    return re.sub(r"[^a-z0-9]+", "-", first.lower()).strip("-")[:60].rstrip("-") or "settings"


def write_folder(folder: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write files below a folder.

    Without `force`, raise BadInput, before anything is written, if a file exists with other content.
    """
    if folder.is_file():
        raise BadInput(f"{folder}: expected a folder, got a file", hint="name a folder after -o")
    for path, text in files.items():
        _refuse_other_content(folder / path, text.encode(), force=force)
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, text.encode())
        if text.startswith("#!"):
            place.chmod(0o755)


def write_archive(place: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write files as one zip archive. Without `force`, raise BadInput if `place` exists with other content."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content, mode in zip_entries(files):
            entry = zipfile.ZipInfo(path, _ZIP_TIME)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    _refuse_other_content(place, data.getvalue(), force=force)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_file(place, data.getvalue())


def _refuse_other_content(place: Path, data: bytes, *, force: bool) -> None:
    if place.is_dir():
        raise BadInput(f"{place}: expected a file, got a folder", hint="choose another place with -o")
    if place.exists() and not force and place.read_bytes() != data:
        raise BadInput(f"{place}: file exists with other content", hint="choose another place with -o, or add --force")


def is_for_phone(chosen: Sequence[ExportTarget], output: Path | None) -> bool:
    """Return whether the target makes a module for phones.

    Raise BadInput if other targets are named too, or if `output` is a zip file but the target writes files.
    """
    modules = [target for target in chosen if target.on_phone]
    if modules and len(chosen) > 1:
        raise BadInput(
            f"{modules[0].name} makes a module of its own and cannot be combined with other targets",
            hint="export the other targets with a second command",
        )
    if not modules and output is not None and output.suffix == ".zip" and not output.is_dir():
        raise BadInput(f"{output}: {chosen[0].name} writes files, not a zip", hint="name a folder after -o")
    return bool(modules)

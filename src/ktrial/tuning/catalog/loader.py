# SPDX-License-Identifier: Apache-2.0
"""Read and check the catalog's TOML files: the built-in ones and the user's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.kit.toml_files import BUILT_IN, Place, read_listed, read_toml
from ktrial.machine.facts import FactKind
from ktrial.machine.when import check_condition
from ktrial.tuning.catalog.model import Catalog, CatalogSource, catalog_files
from ktrial.tuning.knobs.computed import COMPUTED_DEFAULTS, check_recipe
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.knob import Knob, check_knob
from ktrial.tuning.knobs.meaning import MEANINGS
from ktrial.tuning.knobs.profile import Profile, flatten
from ktrial.tuning.knobs.value import kernel_text

T = TypeVar("T")
_PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _KnobFile(msgspec.Struct, forbid_unknown_fields=True):
    knob: list[Knob]


class _FactFile(msgspec.Struct, forbid_unknown_fields=True):
    fact: list[FactKind]


class _SourceFile(msgspec.Struct, forbid_unknown_fields=True):
    source: list[CatalogSource]


def load_catalog(folders: Iterable[Path] = ()) -> Catalog:
    """Read and check the built-in catalog and the user's folders."""
    kinds = {kind.name: kind for kind in read_toml(BUILT_IN / "facts.toml", _FactFile).fact}
    sources = {source.key: source for source in read_toml(BUILT_IN / "sources.toml", _SourceFile).source}
    knobs: dict[str, Knob] = {}
    profiles: dict[str, Profile] = {}
    places: dict[str, Place] = {}
    for path in catalog_files(folders)[2:]:
        if path.parent.name == "knobs":
            _read_knobs(path, knobs, sources, places)
        else:
            profile = _checked_profile(path, read_listed(path, Profile), profiles)
            places[f"profile {profile.name}"] = Place(path, "$")
    own = {name: str(places[name].file) for name in knobs if BUILT_IN not in places[name].file.parents}
    catalog = Catalog(knobs, profiles, kinds, sources, own)
    _check_catalog(catalog, places)
    return catalog


def with_profile_file(catalog: Catalog, path: Path) -> tuple[Catalog, str]:
    """Add the profile from one more file; return the larger catalog and the profile's name."""
    profiles = dict(catalog.profiles)
    try:
        read = read_toml(path, Profile)
    except BadInput as error:
        if path.suffix != ".toml" and path.is_file():
            error.hint = f"turn a list of settings into a profile with `ktrial profile import {path} -o mine.toml`"
        raise
    profile = _checked_profile(path, read, profiles)
    larger = msgspec.structs.replace(catalog, profiles=profiles)
    check_profile(profile, larger, path)
    return larger, profile.name


def _check_catalog(catalog: Catalog, places: Mapping[str, Place]) -> None:
    """Raise BadInput for an invalid reference, value or condition."""
    for knob in catalog.knobs.values():
        try:
            _check_references(knob, catalog.knobs)
            for rule in knob.inert:
                check_condition(rule.when, catalog.kinds)
        except KtrialError as error:
            raise places[knob.id].mended(error, about=knob.id) from None
    for profile in catalog.profiles.values():
        check_profile(profile, catalog, places[f"profile {profile.name}"].file)


def _check_references(knob: Knob, knobs: Mapping[str, Knob]) -> None:
    for name in (
        *(*knob.couples, *knob.after, *knob.successor, *knob.interacts),
        *(one for rule in knob.inert for one in rule.unless),
    ):
        if name not in knobs:
            raise UnknownName("knob", name, knobs, hint="run `ktrial knobs` to list all knobs")
    if knob.meaning is not None and knob.meaning not in MEANINGS:
        raise UnknownName("meaning", knob.meaning, MEANINGS, hint=f"use one of: {', '.join(MEANINGS)}")
    if isinstance(knob.default, Mapping):
        if knob.default.get("compute") not in COMPUTED_DEFAULTS:
            name, known = str(knob.default.get("compute")), ", ".join(COMPUTED_DEFAULTS)
            raise UnknownName("computed default", name, COMPUTED_DEFAULTS, hint=f"use one of: {known}")
    elif knob.default is not None:
        kernel_text(knob, knob.default)


def check_profile(profile: Profile, catalog: Catalog, file: Path | None = None) -> None:
    """Raise BadInput for a profile with an unknown name, or with a value that its knob does not accept."""
    at = "$"
    try:
        flatten(profile.name, catalog.profiles)
        if profile.source not in {None, "own", *catalog.sources}:
            raise UnknownName(
                "source", str(profile.source), ["own", *catalog.sources], hint="write `own` for your own settings"
            )
        for requirement in profile.require:
            check_condition(requirement.that, catalog.kinds)
        for number, setting in enumerate(profile.setting):
            at = f"$.setting[{number}]"
            knob = find_knob(setting.knob, catalog.knobs)
            if setting.when is not None:
                check_condition(setting.when, catalog.kinds)
            if isinstance(setting.value, dict):
                check_recipe(setting.value, catalog.kinds)
            else:
                kernel_text(knob, setting.value)
    except KtrialError as error:
        about = f"profile {profile.name}"
        if file is None:
            raise BadInput(f"{about}: {error.message}", hint=error.hint) from None
        raise Place(file, at).mended(error, about=about) from None


def _read_knobs(
    path: Path, knobs: dict[str, Knob], sources: Mapping[str, CatalogSource], places: dict[str, Place]
) -> None:
    for number, knob in enumerate(read_listed(path, _KnobFile).knob):
        place = Place(path, f"$.knob[{number}]")
        try:
            check_knob(knob)
            if knob.id in knobs:
                raise BadInput(f"knob {knob.id} already exists in {places[knob.id].file}", hint="choose another id")
            for evidence in knob.evidence:
                if evidence.source not in sources and evidence.source != "own":
                    raise UnknownName("source", evidence.source, sources, hint="write `own` if the claim is your own")
        except KtrialError as error:
            raise place.mended(error) from None
        knobs[knob.id] = knob
        places[knob.id] = place


def check_profile_name(name: str) -> None:
    if not _PROFILE_NAME.fullmatch(name):
        hint = "use letters, digits and . _ - with a letter or digit first"
        raise BadInput(f"invalid profile name {name!r}", hint=hint)


def _checked_profile(path: Path, profile: Profile, profiles: dict[str, Profile]) -> Profile:
    try:
        check_profile_name(profile.name)
    except BadInput as error:
        raise Place(path, "$").mended(error, key=".name") from None
    if profile.name in profiles:
        raise BadInput(f"profile {profile.name} already exists", file=str(path), hint="choose another name")
    profiles[profile.name] = profile
    return profile

# SPDX-License-Identifier: Apache-2.0
"""Reads the catalog's TOML files, the built-in ones and those of the user, and checks them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from ktrial.domain.address import parse_address
from ktrial.domain.condition import check_condition
from ktrial.domain.errors import BadInput, KtrialError, UnknownName
from ktrial.domain.facts import FactKind
from ktrial.domain.knob import Knob
from ktrial.domain.meaning import MEANINGS
from ktrial.domain.plan import find_knob
from ktrial.domain.profile import Profile, flatten
from ktrial.domain.value import kernel_text
from ktrial.domain.wanted import COMPUTED_DEFAULTS, COMPUTED_VALUES

BUILT_IN = Path(__file__).parent
T = TypeVar("T")
_SYNTAX = re.compile(r"^(?P<what>.*?) \(at line (?P<line>\d+), column (?P<column>\d+)\)$")
_PATH_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+|\.\.\.)\]")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where claims come from: what was measured on what, how, and what speaks against believing it."""

    key: str
    title: str
    kind: str
    machine: str | None = None
    method: str | None = None
    address: str | None = None
    doubts: tuple[str, ...] = ()


class Catalog(msgspec.Struct, frozen=True):
    """Everything that the catalog's files say."""

    knobs: dict[str, Knob]
    profiles: dict[str, Profile]
    kinds: dict[str, FactKind]
    sources: dict[str, Source]


class _KnobFile(msgspec.Struct, forbid_unknown_fields=True):
    knob: list[Knob]


class _FactFile(msgspec.Struct, forbid_unknown_fields=True):
    fact: list[FactKind]


class _SourceFile(msgspec.Struct, forbid_unknown_fields=True):
    source: list[Source]


def catalog_files(folders: Iterable[Path]) -> list[Path]:
    """All catalog files of the built-in folder and of `folders`, in the order in which they are read."""
    files = [BUILT_IN / "facts.toml", BUILT_IN / "sources.toml"]
    for folder in (BUILT_IN, *folders):
        files += sorted((folder / "knobs").glob("*.toml"))
        files += sorted((folder / "profiles").glob("*.toml"))
    return files


def load_catalog(folders: Iterable[Path] = (), extra_profiles: Iterable[Path] = ()) -> Catalog:
    """Read and check the built-in catalog, the users' folders, and single profile files."""
    kinds = {kind.name: kind for kind in read_toml(BUILT_IN / "facts.toml", _FactFile).fact}
    sources = {source.key: source for source in read_toml(BUILT_IN / "sources.toml", _SourceFile).source}
    knobs: dict[str, Knob] = {}
    profiles: dict[str, Profile] = {}
    for path in [*catalog_files(folders)[2:], *extra_profiles]:
        if path.parent.name == "knobs":
            _read_knobs(path, knobs, sources)
        else:
            _read_profile(path, profiles)
    catalog = Catalog(knobs, profiles, kinds, sources)
    check_catalog(catalog)
    return catalog


def read_toml(path: Path, shape: type[T]) -> T:
    """A TOML file as `shape`; raises BadInput with file, line and column."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"is not UTF-8 text (byte {error.start})", file=str(path)) from None
    return parse_toml(text, str(path), shape)


def parse_toml(text: str, file: str, shape: type[T]) -> T:
    """TOML text as `shape`; raises BadInput with file, line and column."""
    import tomllib

    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _SYNTAX.match(str(error))
        if match is None:
            raise BadInput(f"TOML: {error}", file=file, line=text.count("\n") + 1) from None
        raise BadInput(
            f"TOML: {match['what']}", file=file, line=int(match["line"]), column=int(match["column"])
        ) from None
    try:
        return msgspec.convert(tree, shape)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `")
        line, column = locate(text, where.rstrip("`"), message)
        raise BadInput(
            message, file=file, line=line, column=column, hint="docs/catalog.md lists the keys and their values"
        ) from None


def check_catalog(catalog: Catalog) -> None:
    """Raise BadInput for a reference, value or condition that cannot be right."""
    for knob in catalog.knobs.values():
        for name in (*knob.couples, *knob.after, *knob.successor, *knob.interacts):
            if name not in catalog.knobs:
                raise UnknownName("knob", name, catalog.knobs, hint=f"{knob.id} names it")
        if knob.meaning is not None and knob.meaning not in MEANINGS:
            raise UnknownName("meaning", knob.meaning, MEANINGS, hint=f"{knob.id} names it")
        if isinstance(knob.default, Mapping):
            if knob.default.get("compute") not in COMPUTED_DEFAULTS:
                raise UnknownName("computed default", str(knob.default.get("compute")), COMPUTED_DEFAULTS)
        elif knob.default is not None:
            kernel_text(knob, knob.default)
    for profile in catalog.profiles.values():
        check_profile(profile, catalog)


def check_profile(profile: Profile, catalog: Catalog) -> None:
    """Raise BadInput for a profile that names what is not there, or a value that its knob does not take."""
    try:
        flatten(profile.name, catalog.profiles)
        for requirement in profile.require:
            check_condition(requirement.that, catalog.kinds)
        for setting in profile.setting:
            knob = find_knob(setting.knob, catalog.knobs)
            parse_address(setting.knob)
            if setting.when is not None:
                check_condition(setting.when, catalog.kinds)
            if not isinstance(setting.value, dict):
                kernel_text(knob, setting.value)
            elif setting.value.get("compute") not in COMPUTED_VALUES:
                raise UnknownName("computed value", str(setting.value.get("compute")), COMPUTED_VALUES)
    except KtrialError as error:
        raise BadInput(f"profile {profile.name}: {error.message}", hint=error.hint) from None


def _read_knobs(path: Path, knobs: dict[str, Knob], sources: Mapping[str, Source]) -> None:
    for knob in read_toml(path, _KnobFile).knob:
        parse_address(knob.id)
        if knob.id in knobs:
            raise BadInput(f"the knob {knob.id} is described twice", file=str(path))
        for evidence in knob.evidence:
            if evidence.source not in sources and evidence.source != "own":
                raise UnknownName("source", evidence.source, sources, hint=f"{path}: evidence of {knob.id}")
        knobs[knob.id] = knob


def _read_profile(path: Path, profiles: dict[str, Profile]) -> None:
    profile = read_toml(path, Profile)
    if profile.name in profiles:
        raise BadInput(f"a profile called {profile.name} exists already", file=str(path), hint="give it another name")
    profiles[profile.name] = profile


def locate(text: str, where: str, message: str) -> tuple[int | None, int | None]:
    """Line and column of a msgspec path such as `$.knob[3].risk` in the text."""
    lines = text.splitlines()
    start, key = 0, ""
    tables: list[str] = []
    for match in _PATH_STEP.finditer(where):
        if match[1] is not None:
            key = match[1]
            tables.append(key)
        elif match[2] != "...":
            header = f"[[{'.'.join(tables)}]]"
            count = -1
            for number in range(start, len(lines)):
                count += lines[number].strip().startswith(header)
                if count == int(match[2]):
                    start = number
                    break
            key = ""
    named = re.search(r"unknown field `([^`]+)`", message)
    for wanted in (named[1] if named else "", key):
        for number in range(start, len(lines)):
            if wanted and re.match(rf"\s*\"?{re.escape(wanted)}\"?\s*[=.]", lines[number]):
                return number + 1, len(lines[number]) - len(lines[number].lstrip()) + 1
    return (start + 1, 1) if lines else (None, None)

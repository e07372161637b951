# SPDX-License-Identifier: Apache-2.0
"""The bundle format `ktrial.bundle/1`: sessions with all their data in one file."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ktrial.results.model import RunState

SCHEMA = "ktrial.bundle/1"
MANIFEST = "manifest.json"
#: The comparison that the sessions belong to, if the bundle has one; the compared files are in `raw/`.
COMPARISON = "comparison.json"
#: Size limit for everything that is loaded as a whole. Files of runs may be larger, but not single lines.
LARGEST_BYTES = 256 << 20
#: Limit for a whole bundle, unpacked.
LARGEST_BUNDLE_BYTES = 16 << 30
MOST_MEMBERS = 1_000_000
#: Hint for an invalid bundle.
OTHER_COPY = "fetch the bundle again, or ask its author for a new one"
#: All names that a member may have.
MEMBER = re.compile(
    r"comparison\.json|raw/[0-9a-f]{64}|sessions/[A-Za-z0-9_%-][A-Za-z0-9._%-]{0,99}/(?:session\.json|runs\.jsonl)"
    r"|trials/[A-Za-z0-9_%-][A-Za-z0-9._%-]{0,199}/(?:trial\.json|log\.jsonl|noise\.json)"
)


class BundleMember(msgspec.Struct, frozen=True):
    """One file of the bundle."""

    sha256: str
    size_bytes: int


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """One session in the manifest. `replaced` counts replaced names by kind; null if ktrial did not look for names."""

    session: str
    replaced: Mapping[str, int] | None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first member of a bundle. The manifest lists every other member with the digest of its packed bytes."""

    schema: Literal["ktrial.bundle/1"] = "ktrial.bundle/1"
    sessions: tuple[Packed, ...]
    members: Mapping[str, BundleMember]


class BundledSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file `session.json`.

    `origin` is the session's origin before any bundle, such as `bench`. `states` maps `begin`, `end` or a trial's arm
    to the digest of a machine state in `raw/`.
    """

    session: str
    suite: str
    label: str | None
    origin: str
    kernel_release: str | None
    boot_id: str | None
    started_unix_ms: int
    document: Mapping[str, Any]
    states: Mapping[str, str]
    replaced: Mapping[str, int] | None


class BundledRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `runs.jsonl`. `raw` maps the names of the run's outputs to digests in `raw/`."""

    number: int
    benchmark: str
    state: RunState
    warm_up: bool
    started_unix_ms: int
    raw: Mapping[str, str]
    document: Mapping[str, Any] | None


def folder_of(session: str) -> str:
    """Return `sessions/NAME`. Characters that a file name should not contain are encoded as in a URL (`%2F`)."""
    return f"sessions/{_quoted(session)}"


def trial_folder_of(trial: str) -> str:
    """Return `trials/NAME`, encoded like the name of a session's folder."""
    return f"trials/{_quoted(trial)}"


def trials_of(members: Iterable[str]) -> tuple[str, ...]:
    folders = {name.split("/")[1] for name in members if name.startswith("trials/")}
    return tuple(sorted(urllib.parse.unquote(folder) for folder in folders))


def _quoted(name: str) -> str:
    quoted = urllib.parse.quote(name, safe="").replace("~", "%7E")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted

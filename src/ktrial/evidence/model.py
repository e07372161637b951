# SPDX-License-Identifier: Apache-2.0
"""A bundle: sessions with all that is kept of them, in one file, `ktrial.bundle/1`."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ktrial.results.model import RunState

SCHEMA = "ktrial.bundle/1"
MANIFEST = "manifest.json"
#: The comparison that the sessions belong to, where a bundle is of one; files that were compared lie in `raw/`.
COMPARISON = "comparison.json"
#: What is loaded whole is never larger; a file of runs may be, a line of it not.
LARGEST_BYTES = 256 << 20
#: All of a bundle, unpacked.
LARGEST_BUNDLE_BYTES = 16 << 30
MOST_MEMBERS = 1_000_000
#: What to do about a bundle that is not in order.
ANEW = "nothing was imported; get it once more from where you have it, or have it made anew"
#: Every name that a member may have.
MEMBER = re.compile(
    r"comparison\.json|raw/[0-9a-f]{64}|sessions/[A-Za-z0-9_%-][A-Za-z0-9._%-]{0,99}/(?:session\.json|runs\.jsonl)"
    r"|trials/[A-Za-z0-9_%-][A-Za-z0-9._%-]{0,199}/(?:trial\.json|log\.jsonl|noise\.json)"
)


class BundleMember(msgspec.Struct, frozen=True):
    """One file of the bundle."""

    sha256: str
    size_bytes: int


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """One session in the manifest. `replaced` counts by kind what was replaced; null: nothing was looked for."""

    session: str
    replaced: Mapping[str, int] | None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first member. Every other member is listed, with the digest of its bytes as they are in the bundle."""

    schema: Literal["ktrial.bundle/1"] = "ktrial.bundle/1"
    sessions: tuple[Packed, ...]
    members: Mapping[str, BundleMember]


class BundledSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session.json`. `origin` is that of the first store; `states` are places with digests of `raw/`."""

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
    """One line of `runs.jsonl`. `raw` are names with digests of `raw/`."""

    number: int
    benchmark: str
    state: RunState
    warm_up: bool
    started_unix_ms: int
    raw: Mapping[str, str]
    document: Mapping[str, Any] | None


def folder_of(session: str) -> str:
    """`sessions/NAME`, with what a file's name should not hold written as `%41`."""
    return f"sessions/{_quoted(session)}"


def trial_folder_of(trial: str) -> str:
    """`trials/NAME`, likewise."""
    return f"trials/{_quoted(trial)}"


def trials_of(members: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the trials whose files are among these."""
    folders = {name.split("/")[1] for name in members if name.startswith("trials/")}
    return tuple(sorted(urllib.parse.unquote(folder) for folder in folders))


def _quoted(name: str) -> str:
    quoted = urllib.parse.quote(name, safe="").replace("~", "%7E")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted

# SPDX-License-Identifier: Apache-2.0
"""The parts of a release, as a CycloneDX document: what is linked into the agent and what the head imports."""

from __future__ import annotations

import re
import uuid
import zipfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from release.licences import Crate

_LOCKED = re.compile(r"^([a-z0-9._-]+)==(\S+)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)


def document(
    version: str, dated: int, crates: Iterable[Crate], lock: str, wheels: Sequence[Path], glibc: str
) -> dict[str, Any]:
    """Return the document; its serial number follows from its content, so that it is the same when made again."""
    licences = {name: licence for wheel in wheels for name, licence in [_licence_of(wheel)]}
    components = [
        *(_crate(crate) for crate in crates),
        *(_package(name, found, sums, licences) for name, found, sums in locked(lock)),
        {
            "type": "library",
            "bom-ref": "glibc",
            "name": "glibc",
            "version": glibc,
            "licenses": [{"expression": "LGPL-2.1-or-later"}],
        },
    ]
    purl = f"pkg:pypi/ktrial@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, repr((version, dated, components)))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(dated, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": "ktrial",
                "version": version,
                "purl": purl,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": [component["bom-ref"] for component in components]}],
    }


def locked(lock: str) -> list[tuple[str, str, list[str]]]:
    """Return name, version and the sums of the files of each package in a lock file of pip."""
    return [(match[1], match[2], re.findall(r"sha256:([0-9a-f]{64})", match[3])) for match in _LOCKED.finditer(lock)]


def _crate(crate: Crate) -> dict[str, Any]:
    purl = f"pkg:cargo/{crate.name}@{crate.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": crate.name,
        "version": crate.version,
        "purl": purl,
        "licenses": [{"expression": crate.licence.replace("/", " OR ")}],
        "hashes": [{"alg": "SHA-256", "content": crate.checksum}],
    }


def _package(name: str, version: str, sums: list[str], licences: dict[str, str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        # A package has a file for each Python and architecture: the lock file allows these.
        "properties": [{"name": "ktrial:sha256", "value": one} for one in sums],
    }
    if licences.get(name):
        part["licenses"] = [{"license": {"name": licences[name]}}]
    return part


def _licence_of(wheel: Path) -> tuple[str, str]:
    """Return a wheel's package and the licence that it names: an expression, a short text or a classifier."""
    with zipfile.ZipFile(wheel) as archive:
        (place,) = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        fields = HeaderParser().parsestr(archive.read(place).decode(errors="replace"))
    name = re.sub(r"[-_.]+", "-", str(fields["Name"])).lower()
    classified = [
        line.rpartition(" :: ")[2] for line in fields.get_all("Classifier", []) if line.startswith("License :: ")
    ]
    short = str(fields["License"] or "")
    named = fields["License-Expression"] or (classified[0] if classified else "") or short.partition("\n")[0][:80]
    return name, str(named)

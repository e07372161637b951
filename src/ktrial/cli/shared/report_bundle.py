# SPDX-License-Identifier: Apache-2.0
"""Writes the file of `ktrial doctor --bundle`, for bug reports, without names of hosts, users and devices."""

from __future__ import annotations

import gzip
import io
import os
import platform
import tarfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ktrial import __version__
from ktrial.cli.shared.ledger import kept_ledger
from ktrial.kit import plain_json
from ktrial.kit.errors import AgentError
from ktrial.kit.scrub import Scrubber
from ktrial.machine.facts_text import facts_json
from ktrial.tuning.doctor.text import doctor_json, doctor_text

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.tuning.doctor.model import Examination

_TOP = "ktrial-report"
_WIDTH = 100
#: Newest entries of the ledger that go into a report.
_NEWEST = 20
#: Variables that change what ktrial does or prints.
_VARIABLES = ("COLUMNS", "LANG", "LC_ALL", "NO_COLOR", "TERM")
_READ_ME = """\
This is what `ktrial doctor --bundle` wrote for a bug report. Look through it before you send it.

versions.json  versions of ktrial, Python and the kernel, and variables that matter
doctor.txt     what `ktrial doctor` prints
doctor.json    the same for programs
facts.json     what ktrial found out about the machine
journal.json   the settings that ktrial changed, with their old values
ledger.json    the newest trials and their verdicts

Placeholders such as host-bcdfghjklm replace names of hosts and users, serial numbers and MAC addresses.
"""


class ReportBundle(NamedTuple):
    """The bytes of the file, the names of its members, and how many names of each kind were replaced."""

    data: bytes
    members: tuple[str, ...]
    replaced: Mapping[str, int]


def report_bundle(app: App, session: AgentSession, examination: Examination) -> ReportBundle:
    """Collect what a bug report needs, and replace the names in it."""
    ledger = kept_ledger(app)
    documents: dict[str, Any] = {
        "versions.json": _versions(session),
        "doctor.json": doctor_json(examination),
        "facts.json": facts_json(session.facts()),
        "journal.json": _journal(session),
        "ledger.json": ledger.entries[:_NEWEST] if ledger is not None else (),
    }
    plain = {name: plain_json.document(document, indent=2) for name, document in documents.items()}
    plain["doctor.txt"] = doctor_text(examination, width=_WIDTH).encode()
    identity, salt = app.scrubbing()
    scrubber = Scrubber(identity, salt)
    for data in plain.values():
        scrubber.learn(data)
    members = {"README": _READ_ME.encode(), **{name: scrubber.raw(data) for name, data in sorted(plain.items())}}
    return ReportBundle(
        _archive(members), tuple(members), {str(kind): count for kind, count in scrubber.replaced.items()}
    )


def _versions(session: AgentSession) -> dict[str, Any]:
    return {
        "ktrial": __version__,
        "agent": session.hello.get("agent"),
        "python": platform.python_version(),
        "kernel": session.facts(("kernel.release",)).value("kernel.release"),
        "is_root": session.is_root,
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _journal(session: AgentSession) -> dict[str, Any]:
    try:
        return session.request("status")
    except AgentError as error:
        return {"unreadable": error.message}


def _archive(members: Mapping[str, bytes]) -> bytes:
    """Return a tar.gz archive. The same members always give the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(f"{_TOP}/{name}")
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()

# SPDX-License-Identifier: Apache-2.0
"""Tables of the store.

A run is one row with its whole record as a document; measurements repeat the numbers in a form that can be grouped.
They lie in the order of their series (benchmark and outcome), so that a series is read in one piece.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
#: Numbers that SQLite gives by itself only to a plain integer key.
_KEY = BigInteger().with_variant(Integer, "sqlite")

sessions = Table(
    "sessions",
    metadata,
    Column("key", _KEY, primary_key=True),
    Column("session", String, nullable=False, unique=True),
    Column("suite", String, nullable=False),
    Column("label", String),
    Column("origin", String, nullable=False),
    Column("plan", String),
    Column("kernel_release", String),
    Column("boot_id", String),
    Column("started_unix_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Column("writer", String),
    Index("ix_sessions_plan", "plan"),
)

runs = Table(
    "runs",
    metadata,
    Column("session_key", _KEY, ForeignKey(sessions.c.key, ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("benchmark", String, nullable=False),
    Column("state", String, nullable=False),
    Column("warm_up", Integer, nullable=False, default=0),
    Column("started_unix_ms", BigInteger, nullable=False),
    Column("writer", String),
    Column("document", Text),
    Index("ix_runs_state", "state"),
    sqlite_with_rowid=False,
)

series = Table(
    "series",
    metadata,
    Column("key", _KEY, primary_key=True),
    Column("benchmark", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("unit", String, nullable=False),
    Column("direction", String, nullable=False),
    UniqueConstraint("benchmark", "outcome", "unit", "direction"),
)

measurements = Table(
    "measurements",
    metadata,
    Column("series_key", _KEY, ForeignKey(series.c.key), primary_key=True),
    Column("session_key", _KEY, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("value", Double, nullable=False),
    ForeignKeyConstraint(["session_key", "number"], [runs.c.session_key, runs.c.number], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("packed", LargeBinary, nullable=False),
)

artefacts = Table(
    "artefacts",
    metadata,
    Column("session_key", _KEY, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("name", String, primary_key=True),
    Column("sha256", String(64), ForeignKey(blobs.c.sha256), nullable=False),
    ForeignKeyConstraint(["session_key", "number"], [runs.c.session_key, runs.c.number], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

#: States of the machine, of a session: `place` is `begin`, `end` or the name of an arm.
states = Table(
    "states",
    metadata,
    Column("session_key", _KEY, ForeignKey(sessions.c.key, ondelete="CASCADE"), primary_key=True),
    Column("place", String, primary_key=True),
    Column("sha256", String(64), ForeignKey(blobs.c.sha256), nullable=False),
    sqlite_with_rowid=False,
)

trials = Table(
    "trials",
    metadata,
    Column("key", _KEY, primary_key=True),
    Column("trial", String, nullable=False, unique=True),
    Column("session", String, nullable=False),
    Column("protocol_sha256", String(64), nullable=False),
    Column("started_unix_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
)

#: The log of a trial, an event a row; nothing in it is ever changed.
trial_events = Table(
    "trial_events",
    metadata,
    Column("trial_key", _KEY, ForeignKey(trials.c.key, ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("document", Text, nullable=False),
    sqlite_with_rowid=False,
)

noise_profiles = Table(
    "noise_profiles",
    metadata,
    Column("key", _KEY, primary_key=True),
    Column("suite", String, nullable=False),
    Column("machine", String, nullable=False),
    Column("made_unix_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
)

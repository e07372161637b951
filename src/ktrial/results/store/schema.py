# SPDX-License-Identifier: Apache-2.0
"""Tables of the store.

A run is a row with its whole record as a document; measurements repeat the numbers in a form that SQL can group. The
measurements are ordered by series (benchmark and outcome), so a series lies in contiguous pages.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
#: SQLite assigns numbers only to a plain integer key.
_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("session", sa.String, nullable=False, unique=True),
    sa.Column("suite", sa.String, nullable=False),
    sa.Column("label", sa.String),
    sa.Column("origin", sa.String, nullable=False),
    sa.Column("plan", sa.String),
    sa.Column("kernel_release", sa.String),
    sa.Column("boot_id", sa.String),
    sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("writer", sa.String),
    sa.Index("ix_sessions_plan", "plan"),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("session_key", _KEY, sa.ForeignKey(sessions.c.key, ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("benchmark", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("warm_up", sa.Integer, nullable=False, default=0),
    sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
    sa.Column("writer", sa.String),
    sa.Column("document", sa.Text),
    sa.Index("ix_runs_state", "state"),
    sqlite_with_rowid=False,
)

series = sa.Table(
    "series",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("benchmark", sa.String, nullable=False),
    sa.Column("outcome", sa.String, nullable=False),
    sa.Column("unit", sa.String, nullable=False),
    sa.Column("direction", sa.String, nullable=False),
    sa.UniqueConstraint("benchmark", "outcome", "unit", "direction"),
)

measurements = sa.Table(
    "measurements",
    metadata,
    sa.Column("series_key", _KEY, sa.ForeignKey(series.c.key), primary_key=True),
    sa.Column("session_key", _KEY, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.ForeignKeyConstraint(["session_key", "number"], [runs.c.session_key, runs.c.number], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("packed", sa.LargeBinary, nullable=False),
)

artefacts = sa.Table(
    "artefacts",
    metadata,
    sa.Column("session_key", _KEY, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("sha256", sa.String(64), sa.ForeignKey(blobs.c.sha256), nullable=False),
    sa.ForeignKeyConstraint(["session_key", "number"], [runs.c.session_key, runs.c.number], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

#: States of the machine in a session; `place` is `begin`, `end` or the name of an arm.
states = sa.Table(
    "states",
    metadata,
    sa.Column("session_key", _KEY, sa.ForeignKey(sessions.c.key, ondelete="CASCADE"), primary_key=True),
    sa.Column("place", sa.String, primary_key=True),
    sa.Column("sha256", sa.String(64), sa.ForeignKey(blobs.c.sha256), nullable=False),
    sqlite_with_rowid=False,
)

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("trial", sa.String, nullable=False, unique=True),
    sa.Column("session", sa.String, nullable=False),
    sa.Column("protocol_sha256", sa.String(64), nullable=False),
    sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)

#: The log of a trial, one event per row; rows are never changed.
trial_events = sa.Table(
    "trial_events",
    metadata,
    sa.Column("trial_key", _KEY, sa.ForeignKey(trials.c.key, ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

noise_profiles = sa.Table(
    "noise_profiles",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("suite", sa.String, nullable=False),
    sa.Column("machine", sa.String, nullable=False),
    sa.Column("made_unix_ms", sa.BigInteger, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)

#: Trials of fleets. `holder` is the coordinator of a trial until `held_until_unix_ms`; `fence` grows with each holder.
fleets = sa.Table(
    "fleets",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("fleet", sa.String, nullable=False, unique=True),
    sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String),
    sa.Column("fence", sa.BigInteger, nullable=False),
    sa.Column("held_until_unix_ms", sa.BigInteger, nullable=False),
)

#: The log of a fleet's trial, one event per row; rows are never changed.
fleet_events = sa.Table(
    "fleet_events",
    metadata,
    sa.Column("fleet_key", _KEY, sa.ForeignKey("fleets.key", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

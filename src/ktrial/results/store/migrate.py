# SPDX-License-Identifier: Apache-2.0
"""Brings a store's schema to the present version, with Alembic."""

from __future__ import annotations

import logging

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from ktrial.kit.errors import KtrialError

#: Any number that others hardly use: one process at a time makes the tables.
_ONE_AT_A_TIME = 0x6B747269616C
_SCRIPTS = "ktrial.results.store:migrations"


def migrate(engine: sa.Engine, found: str | None, shown: str) -> None:
    """From version `found` (None: a new store) to the newest, in one transaction."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise KtrialError(
            f"{shown} was made by a newer ktrial (its schema is {found})", hint="use that ktrial, or another --store"
        )
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ONE_AT_A_TIME})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

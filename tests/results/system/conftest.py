# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import fresh_database, postgresql


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A real PostgreSQL server, one for each worker."""
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty store of either kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "state" / "results.db")
        return
    with fresh_database(request.getfixturevalue("server")) as made:
        yield made


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(Database.open(url))
    yield opened
    opened.close()

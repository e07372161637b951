# SPDX-License-Identifier: Apache-2.0
"""Trial boots that fail, many times in a row and with nobody there: each leads back to the default entry by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boot_attempts import FAULTS, FILES, KTRIAL, AttemptsGuest
from tests.support.boot_counts import record_count
from tests.support.boot_guest import LOADERS, BootImages

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(3 * 3600)]

ATTEMPTS = 20
#: Two boots on a busy machine, and the panic's 10 s or the watchdog's 20 s.
MOST_S = 240


@pytest.fixture(params=LOADERS)
def guest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AttemptsGuest]:
    with AttemptsGuest(BootImages.make(request.param, tmp_path), tmp_path) as running:
        yield running


def test_every_attempt_leads_back_by_itself(guest: AttemptsGuest) -> None:
    guest.prepare()
    before = guest.succeed(FILES)
    guest.arm_first()
    found = {}
    for fault in FAULTS:
        found[fault] = made = guest.attempt(fault, ATTEMPTS)
        record_count(guest, "script", fault, made)
    for fault, attempts in found.items():
        assert (attempts.begun, attempts.back) == (ATTEMPTS, ATTEMPTS), f"{fault}: {attempts.trouble}"
        assert max(attempts.took_s) <= MOST_S, f"{fault}: {attempts.took_s}"
    guest.succeed(f"{KTRIAL} boot undo")
    assert guest.succeed(FILES) == before

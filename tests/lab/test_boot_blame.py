# SPDX-License-Identifier: Apache-2.0
"""The story of arashi: settings and kernel arguments make it worse together; blame names the word that did it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.test_boot_trial import FILES, KTRIAL, LOAD, WORD, follow, succeed
from tests.support.boot_guest import BootGuest, BootImages

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(12 * 3600)]

LIMIT_S = 11 * 3600.0
INNOCENT = "vm.swappiness=10 vm.page-cluster=0 --boot skew_tick=1 --boot preempt=full"
BLAME = (
    f"{KTRIAL} blame {INNOCENT} --boot {WORD} --metric 'work:lower=work ([0-9]+)' --primary work"
    " --known worse --seed 11 --settle 0s"
)


def test_the_boot_word_that_did_it_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with BootGuest(BootImages.make("grub-bios", tmp_path), tmp_path) as guest:
        before = succeed(guest, FILES)
        succeed(guest, f"cat > /root/load << 'END'\n{LOAD}\nEND")
        shown = succeed(guest, f"{BLAME} -- /bin/sh /root/load 2>&1")
        assert "nothing was started; add --yes" in shown
        assert succeed(guest, FILES) == before
        guest.send(f"{BLAME} --yes -- /bin/sh /root/load > /root/said 2>&1")
        # 24 for the search, 27 to confirm, 14 alone, the rehearsal's two, and three times the default entry.
        assert follow(guest, LIMIT_S) >= 24 + 27 + 14
        assert succeed(guest, FILES) == before
        found = json.loads(succeed(guest, f"{BLAME} --json -- /bin/sh /root/load").splitlines()[-1])["blame"]
        assert [(one["factors"], one["kind"]) for one in found["culprits"]] == [([f"boot:{WORD}"], "alone")], found
        assert f"boot:{WORD}" in succeed(guest, f"{KTRIAL} trial show")

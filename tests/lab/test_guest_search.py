# SPDX-License-Identifier: Apache-2.0
"""Of three kernel arguments, a search in exact guests confirms the one that undoes planted late timers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, fetch
from tests.support.guest_trials import ktrial

pytestmark = [pytest.mark.timeout(7200), pytest.mark.xdist_group("guest-trials")]
KERNEL = KERNELS[-1]
#: The control has the word that makes timers fire at the next tick of 4 ms; with `rdinit` no guest comes up.
SPACE = """
name = "timers"

[[dimension]]
boot = "highres"
values = ["off", "on"]
default = "off"

[[dimension]]
boot = "skew_tick"
values = [0, 1]

[[dimension]]
boot = "rdinit"
values = ["/nowhere"]
"""


def test_the_argument_that_helps_is_confirmed_and_what_does_not_boot_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fetch(KERNEL)
    space = tmp_path / "space.toml"
    space.write_text(SPACE)
    measured = ("--suite", "wakeups-busy", "--primary", "lateness-p50", "--budget", "90min", "--seed", "1", "--json")
    done = ktrial("search", str(space), "--kernel", str(KERNEL.tree), *measured)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["search"]
    assert (found["ending"], found["in_guests"]) == ("confirmed", True), found["reason"]
    assert found["winner"] == {"boot:highres": "on"}
    assert [(one["dimension"], one["values"]) for one in found["crashes"]] == [("boot:rdinit", ["/nowhere"])]
    assert any(one["changes"].get("boot:rdinit") and one["state"] == "refused" for one in found["history"])
    assert ktrial("trial", "recheck", found["confirmed_by"]).returncode == 0

# SPDX-License-Identifier: Apache-2.0
"""A whole trial over boots: a kernel argument with a planted effect, a placebo, and power cuts in between."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from ktrial.api import judge, read_log
from ktrial.judge.model.log import BlockDrawn, Event, Protocol, RunEnded, TrialLog, block_order, protocol_in
from tests.support.boot_guest import BootGuest, BootImages
from tests.support.debian_guest import CLONE

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(4 * 3600)]

WORD = "transparent_hugepage=never"
KTRIAL = f"{CLONE}/ktrial"
#: Names, modes, owners and contents of what an attempt must leave as it was.
FILES = """
find /boot /etc/systemd /etc/default /usr/local/libexec -type f -printf '%p %m %u %g %s ' -exec sha256sum {} ';' | sort
"""
#: Work that depends on the word by a third, and by a little on the boot.
LOAD = f"""
noise=$(( $(tr -dc 0-9 < /proc/sys/kernel/random/boot_id | cut -c1-9 | sed 's/^0*//') % 20 ))
if grep -qw {WORD} /proc/cmdline; then echo work $((1340 + noise)); else echo work $((1000 + noise)); fi
"""
PROTOCOL = f"""
name = "boots"
command = ["/bin/sh", "/root/load"]
metrics = ["work:lower=work ([0-9]+)"]
primary = "work"

[design]
seed = 11
cap = 9
runs_per_visit = 1
settle = "0s"
until_all_decided = true

[arms.control]

[arms.huge]
boot = ["{WORD}"]

[arms.placebo]
placebo = true
"""
#: Prints the log of the newest trial.
LOG = f"""
PYTHONPATH={CLONE}/src {CLONE}/.venv/bin/python - << 'END'
from ktrial.agent.user_folders import state_folder
from ktrial.api import write_log
from ktrial.results.store.database import Database
from ktrial.trial.store import StoredTrials
trials = StoredTrials(lambda: Database.open(str(state_folder() / "results.db")))
print(write_log(trials.log(trials.find(None).trial)).decode(), end="")
END
"""
REPLAYS = 200
CUTS = 3
LIMIT_S = 3 * 3600.0


def succeed(guest: BootGuest, script: str) -> str:
    ran = guest.run(script)
    assert ran.status == 0, ran.err + ran.out
    return ran.out


def test_a_planted_effect_is_found_a_placebo_is_not_and_nothing_is_left(tmp_path: Path) -> None:
    with BootGuest(BootImages.make("grub-bios", tmp_path), tmp_path) as guest:
        before = succeed(guest, FILES)
        succeed(guest, f"cat > /root/load << 'END'\n{LOAD}\nEND\ncat > /root/trial.toml << 'END'\n{PROTOCOL}\nEND")
        guest.send(f"{KTRIAL} trial run /root/trial.toml --yes > /root/said 2>&1")
        boots = follow(guest)
        assert boots >= 21
        assert succeed(guest, FILES) == before
        found = json.loads(succeed(guest, f"{KTRIAL} trial show --json"))
        verdicts = {one["arm"]: one["verdict"] for one in contrasts(found)}
        assert verdicts["huge"] == "worse", found
        assert verdicts.get("placebo") not in {"better", "worse"}, found
        log = read_log(succeed(guest, LOG).encode())
    assert replayed(log, REPLAYS) <= 0.05 * REPLAYS


def replayed(log: TrialLog, count: int) -> int:
    """Return how many placebos get a verdict if the boots of the control's entry are dealt anew."""
    protocol = protocol_in(log)
    assert protocol is not None
    values = [
        run.measurements[protocol.primary]
        for run in log
        if isinstance(run, RunEnded) and run.arm in {"control", "placebo"} and protocol.primary in run.measurements
    ]
    cap = protocol.cap
    assert cap is not None
    assert len(values) >= cap, "each of its blocks has a boot of that entry, or two while the placebo is open"
    arms = tuple(one for one in protocol.arms if one.name in {"control", "placebo"})
    generator = Random(1)
    said = []
    for seed in range(count):
        dealt = iter(generator.choices(values, k=2 * cap))
        said.append(verdict_of(msgspec.structs.replace(protocol, arms=arms, seed=seed), dealt))
    return sum(verdict in {"better", "worse"} for verdict in said)


def verdict_of(protocol: Protocol, values: Iterator[float]) -> str | None:
    """Return what the judge says of the placebo in a trial with these values, which it ends itself."""
    log: list[Event] = [protocol]
    while True:
        judgement = judge(log)
        step = judgement.next
        if step.action == "stop" or step.block is None:
            return next(one.verdict for one in judgement.judged if one.outcome == protocol.primary)
        order = block_order(protocol.seed, step.block, step.arms)
        log.append(BlockDrawn(block=step.block, order=order))
        for arm in order:
            run = RunEnded(run=len(log), block=step.block, arm=arm, measurements={protocol.primary: next(values)})
            log.append(run)


def contrasts(found: dict[str, Any]) -> list[dict[str, Any]]:
    (primary,) = [one for one in found["outcomes"] if one["outcome"] == "work"]
    made: list[dict[str, Any]] = primary["contrasts"]
    return made


def follow(guest: BootGuest, limit_s: float = LIMIT_S) -> int:
    """Wait until nothing boots any more, and cut the power in three of the boots; return how many there were."""
    boots = cuts = 0
    seen = guest.boot_id
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        # What was asked of a boot that ended meanwhile has been answered by the next one.
        if guest.boot_id == seen:
            guest.wait_boot(900)
        seen = guest.boot_id
        boots += 1
        if cuts < CUTS and boots % 6 == 4:
            cuts += 1
            time.sleep(20)
            guest.kill()
            guest.start()
            seen = guest.boot_id
            continue
        try:
            over = guest.run("test -e /boot/grub/custom.cfg || echo over")
        except AssertionError:
            continue
        if over.out.strip() == "over":
            guest.assert_running()
            return boots
    raise AssertionError("the boots have no end")

# SPDX-License-Identifier: Apache-2.0
"""Three hours at default rates keep every sample: hours of an exact guest, whose idle time passes at once."""

from __future__ import annotations

import json

import pytest

from ktrial.bench.guest_tools import Shape
from tests.support.guest_recordings import recorded_in_guest

pytestmark = [pytest.mark.xdist_group("guest"), pytest.mark.timeout(5400)]
HOURS_S = 3 * 3600
#: A program that writes and forgets files in memory is watched, so that there is something to see.
SCRIPT = """
(while :; do
    for file in 1 2 3; do dd if=/dev/urandom of=/tmp/$file bs=64k count=64 2>/dev/null; sleep 9; done
    rm /tmp/1 /tmp/2 /tmp/3
done) &
load=$!
(echo '{{"id":1,"do":"watch","limit_s":{seconds},"process":'$load'}}'; sleep {limit}) |
    ktrial-agent serve --role root > /tmp/told
echo recorded; echo; cat /tmp/told
"""


def test_three_hours_keep_every_sample() -> None:
    script = SCRIPT.format(seconds=HOURS_S, limit=HOURS_S + 5)
    shape = Shape(mode="exact", memory_bytes=512 << 20, cpus=1)
    recording, printed, answers = recorded_in_guest(script, shape, 4800)
    assert printed == "recorded"
    assert HOURS_S <= recording.length_s <= HOURS_S + 1
    ended = json.loads(answers.splitlines()[-1])["ok"]
    assert (ended["ended"], ended["trace"]["lost"], ended["dropped"]) == ("limit", 0, 0)
    sources = {name: found for name, found in ended["sources"].items() if "missed" in found}
    assert len(sources) >= 10
    for name, found in sources.items():
        wanted = HOURS_S * 1e9 / found["period_ns"]
        # Wake-ups are no samples: one that is late leaves out those that it slept over.
        least = wanted * 0.999 if name == "wakeup" else wanted - 1
        assert (found["missed"], least <= found["taken"] <= wanted + 1) == (0, True), (name, found)
    written = {series.source: len(series.times_s) for series in recording.series.values()}
    taken = {name: found["taken"] for name, found in sources.items()}
    assert len(written) >= 12
    assert written == {name: taken[name] for name in written}
    assert all(gap.kind != "missing" for gap in recording.gaps), recording.gaps

# SPDX-License-Identifier: Apache-2.0
"""How often a planted cause of stutters is the only one named, and how often a cause is named if there is none.

Run in a checkout that is set up:  .venv/bin/python -m perf.causes [RECORDINGS]   (50 a cell; some minutes)

Each recording has thirty stutters, seven kinds of background events, and series that wander. Planted: the cause is
there at every stutter. Half: at every second one. Shuffled: as often, but at other times. Exits with status 1 if false
names are above 5 % by more than Monte Carlo error, or if a planted cause is the only one named in less than 95 %.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from ktrial.tuning.catalog.loader import load_catalog
from ktrial.watch.diagnosis.diagnose import diagnose
from ktrial.watch.diagnosis.symptoms import load_symptoms
from perf.arguments import argument, how_many
from tests.support.recordings import recording

#: The planted cause -> the symptom that must be named for it.
PLANTED: Mapping[str, str] = {
    "direct-reclaim": "direct-reclaim",
    "compaction": "compaction",
    "block-io": "device-latency",
    "run-delay": "scheduler-delay",
    "dirty-pause": "dirty-throttling",
    "softirq": "interrupts",
    "kswapd": "kswapd-overrun",
    "vmstat.pswpin": "swap-in",
    "vmstat.allocstall_normal": "allocation-stalls",
    "cpu.steal": "steal",
    "frequency.policy0": "frequency-drop",
    "gpu.card0.busy": "gpu-starved",
    "trace.tlb-shootdown.count": "tlb-shootdowns",
    "vmstat.workingset_refault_file": "cache-thrash",
    "vmstat.thp_split_page": "thp",
}
WANTED, ALPHA = 0.95, 0.05


def main(argv: list[str]) -> int:
    """Print the table; return 1 if a target is missed."""
    count = argument("RECORDINGS", 50, how_many, argv)
    symptoms = load_symptoms(load_catalog())
    named = exact = false = shuffled = 0
    print(f"{'planted':<32} {'named alone':>12} {'half: named':>12} {'shuffled: any':>14}")
    for cause, wanted in PLANTED.items():
        alone = half = wrong = 0
        for seed in range(count):
            found = [one.id for one in diagnose(recording(seed, cause), symptoms).named]
            alone += found == [wanted]
            partly = [one.id for one in diagnose(recording(seed, cause, share=0.5), symptoms).named]
            half += wanted in partly
            wrong += bool(diagnose(recording(seed, cause, shuffled=True), symptoms).named)
        print(f"{cause:<32} {alone / count:>12.0%} {half / count:>12.0%} {wrong / count:>14.1%}", flush=True)
        exact, named, false, shuffled = exact + alone, named + count, false + wrong, shuffled + count
    print(f"named alone {exact / named:.1%} of {named}; false names {false / shuffled:.1%} of {shuffled}")
    kept = exact / named >= WANTED - 2 * math.sqrt(WANTED * (1 - WANTED) / named)
    kept &= false / shuffled <= ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / shuffled)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

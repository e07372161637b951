# SPDX-License-Identifier: Apache-2.0
"""Earlier reclaim in exact guests: stalls fall, what does not improve is told as that, and a placebo is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, fetch
from tests.support.guest_trials import arm_like, contrast, trial

pytestmark = [pytest.mark.timeout(7200), pytest.mark.xdist_group("guest-trials")]
KERNEL = KERNELS[-1]
#: Counters are judged over so many blocks at least; the spread of stalls between same boots is 3 %.
WORDS = ("--seed", "1", "--budget", "20", "--placebo", "--margin", "10%")


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fetch(KERNEL)


def test_watermarks_spare_stalls_and_what_they_do_not_improve_is_told() -> None:
    outcomes = ("--primary", "allocation-stalls", "--secondary", "late-frames")
    words = ("vm.watermark_scale_factor=500", "--suite", "pressure-small", *outcomes, *WORDS)
    found = trial(str(KERNEL.tree), *words)[-1]["comparison"]
    early = arm_like(found, "500")
    assert contrast(found, "allocation-stalls", early)["verdict"] == "better"
    assert contrast(found, "allocation-stalls", "placebo")["verdict"] == "equivalent"
    assert contrast(found, "late-frames", early)["verdict"] in ("worse", "inconclusive")
    (late,) = [one for one in found["outcomes"] if one["outcome"] == "late-frames"]
    assert [one["arm"] for one in late["contrasts"]] == [early], "a placebo is judged by the primary outcome alone"

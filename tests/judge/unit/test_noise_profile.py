# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from msgspec.structs import replace

from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey

KEY = ProfileKey(
    machine="desk", suite="quick", tool_versions={"hackbench": "2.5"}, kernel_release="6.12", governor="performance"
)
DAY_MS = 86_400_000
PROFILE = NoiseProfile(key=KEY, made_unix_ms=0, differences={"hackbench.time": (0.01, -0.02)})


def test_a_fresh_profile_of_the_same_things_holds() -> None:
    assert PROFILE.why_stale(KEY, 30 * DAY_MS) == ()


def test_what_changed_makes_it_stale() -> None:
    now = replace(KEY, kernel_release="6.13", governor=None, tool_versions={"hackbench": "2.6"})
    assert PROFILE.why_stale(now, 31 * DAY_MS) == (
        "tool versions changed from hackbench 2.5 to hackbench 2.6",
        "kernel release changed from 6.12 to 6.13",
        "governor changed from performance to unknown",
        "it is 31 days old (limit 30)",
    )
    assert PROFILE.why_stale(replace(KEY, visits="boot"), 0) == ("visits changed from run to boot",)

# SPDX-License-Identifier: Apache-2.0
"""Gates that find nothing to read on a machine are told, before the first run and after the last."""

from ktrial.machine.gates import ABSENT, DEFAULTS, GateLimits, Reading, gates_text, idle_gates, unread_gates

LIMITS = {name: DEFAULTS[name] for name in ("on_ac", "governor", "swap", "steal")}


def test_before_a_run_what_is_absent_or_unknown_is_told_unless_it_is_off_or_of_the_run() -> None:
    now: dict[str, Reading] = {"power_source": ABSENT, "governor": None, "swap_used_bytes": 0.0}
    assert unread_gates(LIMITS, now) == ("on_ac", "governor")
    assert unread_gates({**LIMITS, "on_ac": GateLimits()}, now) == ("governor",)
    assert unread_gates(LIMITS, {**now, "swap_used_bytes": ABSENT}) == ("on_ac", "governor")
    assert unread_gates(LIMITS, {**now, "power_source": "mains", "governor": "performance"}) == ()


def test_after_the_runs_only_what_no_run_had_is_told() -> None:
    absent: dict[str, Reading] = {
        "power_source": ABSENT,
        "governor": ABSENT,
        "swap_used_bytes": 0.0,
        "steal_share": 0.0,
    }
    assert idle_gates(LIMITS, [absent, absent]) == ("on_ac", "governor")
    assert idle_gates(LIMITS, [absent, {**absent, "governor": "powersave"}]) == ("on_ac",)
    assert idle_gates(LIMITS, []) == ()


def test_the_gates_of_a_level_with_their_limits() -> None:
    assert gates_text(LIMITS, "refuse") == "on_ac same"
    assert gates_text(LIMITS, "suspect") == "governor same, swap 16 MiB, steal 2 %"

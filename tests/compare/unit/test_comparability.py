# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.compare.arms import Arm
from ktrial.compare.comparability import KEYS, doubts, failures, findings_of
from ktrial.kit.finding import Finding
from tests.support.arms import a_run, an_arm, measured

VALUES = [1.0, 1.1, 1.2]


def found(control: Arm, *arms: Arm, declared: tuple[str, ...] = ()) -> dict[str, Finding]:
    return {doubt.finding.kind: doubt.finding for doubt in doubts(control, arms, declared)}


def known(**fields: str) -> dict[str, Any]:
    return {"known": {"governor": "performance", **fields}}


def test_arms_that_are_alike_leave_only_what_is_not_known() -> None:
    assert set(found(an_arm("a", VALUES), an_arm("b", VALUES))) == {"not-known"}


@pytest.mark.parametrize("key", KEYS)
def test_every_key_that_differs_is_found_with_its_values(key: str) -> None:
    one = found(an_arm("a", VALUES, **known(**{key: "x1"})), an_arm("b", VALUES, **known(**{key: "x2"})))
    finding = one[f"other-{key}"]
    assert finding.level == KEYS[key].level
    assert finding.values == {"a": "x1", "b": "x2"}
    assert "x1 in a; x2 in b" in finding.sentence
    meant = found(
        an_arm("a", VALUES, **known(**{key: "x1"})), an_arm("b", VALUES, **known(**{key: "x2"})), declared=(key,)
    )
    assert meant[f"other-{key}"].level == "note"
    assert "as declared" in meant[f"other-{key}"].sentence


@pytest.mark.parametrize("key", ["tool", "command", "parameters", "governor", "power", "threads", "runtime", "cpu"])
def test_what_makes_numbers_incomparable_refuses(key: str) -> None:
    assert KEYS[key].level == "refuse"


def test_of_long_texts_the_difference_is_shown() -> None:
    same = [f"name{number} value{number}" for number in range(20)]
    arms = [
        an_arm(name, VALUES, **known(settings=", ".join([*same, *more]), command=f"/usr/bin/tool {'-x ' * 40}{name}"))
        for name, more in (("a", ["thp.enabled always"]), ("b", ["thp.enabled never", "cpu.smt on"]))
    ]
    told = found(*arms)
    assert told["other-settings"].values == {"a": "thp.enabled always", "b": "thp.enabled never, cpu.smt on"}
    assert told["other-command"].values == {"a": "a", "b": "b"}


def test_what_one_arm_does_not_tell_is_not_taken_for_a_difference() -> None:
    one = found(an_arm("a", VALUES, **known(kernel="6.18")), an_arm("b", VALUES))
    assert "other-kernel" not in one
    assert "kernel release" in one["not-known"].sentence


def test_a_missing_state_is_told_of_own_sessions_that_are_no_trial() -> None:
    def told(**fields: Any) -> str:
        (doubt,) = doubts(an_arm("a", VALUES, **fields), [an_arm(name, VALUES, **fields) for name in ("b", "c")])
        assert (doubt.arm, doubt.benchmark, doubt.finding.level) == ("c", None, "note")
        return doubt.finding.sentence

    state = "tunable state of the machine, which result files do not contain"
    assert told(session="s").endswith(f", temperature at the start, {state}")
    assert state not in told()
    assert state not in told(session="s", trial_arm="a")
    kept = [msgspec.structs.replace(an_arm(name, VALUES, session="s"), states=("0" * 64,)) for name in ("a", "b")]
    assert state not in found(*kept)["not-known"].sentence


def test_hashes_of_two_secrets_are_no_difference_of_environments() -> None:
    def apart(key: str, *salts: str) -> bool:
        texts = [f"MODE=x, TOKEN=salted:{salt}:{place:012x}" for place, salt in enumerate(salts)]
        arms = [an_arm(name, VALUES, **known(**{key: text})) for name, text in zip("ab", texts, strict=True)]
        return f"other-{key}" in found(*arms)

    assert apart("environment", "aaaa", "aaaa")
    assert not apart("environment", "aaaa", "bbbb")
    assert apart("parameters", "aaaa", "bbbb"), "where nothing is made unreadable a text is a text"


def test_texts_of_sixty_characters_are_shown_whole() -> None:
    texts = [f"{'word ' * 11}{end}" for end in ("first", "other")]
    arms = [an_arm(name, VALUES, **known(settings=text)) for name, text in zip("ab", texts, strict=True)]
    assert found(*arms)["other-settings"].values == dict(zip("ab", texts, strict=True))
    arms = [an_arm(name, VALUES, other={"disk": text}) for name, text in zip("ab", texts, strict=True)]
    assert found(*arms)["other-attribute"].sentence == f"disk differs: {texts[0]} in a; {texts[1]} in b"


def test_an_arm_that_is_not_of_one_kind_itself() -> None:
    mixed = Arm(
        name="b",
        sources=(),
        runs=(a_run("b/1", measured(1.0), **known(kernel="1")), a_run("b/2", measured(1.0), **known(kernel="2"))),
    )
    finding = found(an_arm("a", VALUES, **known(kernel="1")), mixed)["other-kernel"]
    assert finding.values == {"a": "1", "b": "1 and 2"}


def test_tools_are_compared_within_each_benchmark() -> None:
    both = (
        a_run("a/1", measured(1.0), benchmark="x", known={"tool": "1"}),
        a_run("a/2", measured(1.0), benchmark="y", known={"tool": "2"}),
    )
    arm = Arm(name="a", sources=(), runs=both)
    other = Arm(
        name="b",
        sources=(),
        runs=(
            a_run("b/1", measured(1.0), benchmark="x", known={"tool": "1"}),
            a_run("b/2", measured(1.0), benchmark="y", known={"tool": "3"}),
        ),
    )
    told = [doubt for doubt in doubts(arm, [other]) if doubt.finding.kind == "other-tool"]
    assert [doubt.benchmark for doubt in told] == ["y"]
    assert told[0].concerns("b", "y")
    assert not told[0].concerns("b", "x")


def test_arms_that_are_commands_differ_in_their_command_by_design() -> None:
    arms = [an_arm(name, VALUES, known={"command": name}) for name in ("sleep 1", "sleep 2")]
    assert "other-command" not in found(*arms)


@pytest.mark.parametrize("apart, level", [(4.9, None), (5.5, "suspect"), (8.1, "refuse")])
def test_start_temperatures(apart: float, level: str | None) -> None:
    arms = [
        an_arm("a", VALUES, readings={"temperature_c": 50.0}),
        an_arm("b", VALUES, readings={"temperature_c": 50.0 + apart}),
    ]
    one = found(*arms)
    assert (one["start_temperature"].level if "start_temperature" in one else None) == level


def test_readings_that_nobody_took_are_not_judged_one_by_one() -> None:
    one = found(an_arm("a", VALUES, readings={"temperature_c": 50.0}), an_arm("b", VALUES))
    assert set(one) == {"start_temperature", "not-known"}
    assert one["start_temperature"].level == "note"


def test_the_same_runs_twice_are_no_comparison() -> None:
    arm = an_arm("a", VALUES)
    twin = Arm(name="b", sources=arm.sources, runs=arm.runs)
    assert found(arm, twin)["same-runs"].level == "refuse"
    assert found(arm, twin)["same-runs"].values == {"runs": 3.0}


def test_other_attributes_count_where_they_are_one_thing_in_each_arm() -> None:
    arms = [an_arm("a", VALUES, other={"disk": "sda"}), an_arm("b", VALUES, other={"disk": "sdb"})]
    assert found(*arms)["other-attribute"] == Finding(
        kind="other-attribute",
        level="note",
        sentence="disk differs: sda in a; sdb in b",
        values={"a": "sda", "b": "sdb"},
    )
    assert "other-attribute" not in found(arms[0], an_arm("b", VALUES, other={"disk": "sda", "bus": "nvme"}))
    assert "other-attribute" not in found(an_arm("a", VALUES, other={"disk": "sda", "bus": "nvme"}), arms[0])
    varied = Arm(
        name="b",
        sources=(),
        runs=tuple(a_run(f"b/{disk}", measured(1.0), other={"disk": disk}) for disk in ("sdb", "sdc")),
    )
    assert "other-attribute" not in found(arms[0], varied)
    labels = [an_arm(name, VALUES, other={"march": name}) for name in ("v2", "v3")]
    assert "other-attribute" not in found(*labels)


def test_failures_in_one_arm_only() -> None:
    broken = Arm(name="b", sources=(), runs=(*an_arm("b", VALUES).runs, a_run("b/9", failure="ended with status 1")))
    (doubt,) = failures(an_arm("a", VALUES), broken)
    assert doubt.finding.sentence == "wakeup failed 1 time in b and never in a"
    assert doubt.finding.values == {"a": 0.0, "b": 1.0}
    assert failures(broken, Arm(name="c", sources=(), runs=broken.runs)) == ()


def test_findings_are_told_once_and_the_gravest_first() -> None:
    arms = [an_arm(name, VALUES, **known(kernel=name, cpu=name)) for name in ("a", "b")]
    levels = [one.level for one in findings_of([*doubts(arms[0], arms[1:]), *doubts(arms[0], arms[1:])])]
    assert levels == ["refuse", "suspect", "note"]

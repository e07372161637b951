# SPDX-License-Identifier: Apache-2.0
"""`ktrial ab`: command lines become arms; campaigns count their decisions; the summary says which is faster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from ktrial.bench.command_benchmark import OwnBenchmark
from ktrial.bench.record import Artefact, RunRecord
from ktrial.cli.hosts import Host
from ktrial.cli.shared.trial_start import refuse_in_guests
from ktrial.judge.judge import judge
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.log import OutcomeRule, TrialArm, TrialEnd
from ktrial.judge.planning import largest_cap
from ktrial.judge.sequential import looks
from ktrial.kit.errors import BadInput, Refused
from ktrial.results.exporters.hyperfine import arms_document
from ktrial.results.importers.hyperfine import read_hyperfine
from ktrial.trial.arms.plan_arms import arm_plans, arm_settings, settle_s, with_placebos
from ktrial.trial.outcome.commands_text import commands_of, commands_text, decision_line, summary_lines
from ktrial.trial.outcome.comparison import TrialFacts, comparison_of
from ktrial.trial.outcome.scope import output_findings
from ktrial.trial.protocol.campaign import alpha_of, decision_of, fewest_blocks, first_look, refuse_beyond
from ktrial.trial.protocol.file import ArmFile, CampaignFile, CommandFile, DesignFile, TrialFile, trial_text
from ktrial.trial.protocol.from_commands import CommandLines, arms_of_commands, parameter_lists, words_of
from ktrial.trial.protocol.read import check_trial_file, parse_trial_file
from ktrial.trial.record import StoredTrial
from ktrial.tuning.catalog.loader import load_catalog
from tests.support.machine import FakeMachine
from tests.support.records import run_record
from tests.support.trials import log_of, protocol

WALL = "command.wall"
BETTER = (0.30, 0.31, 0.29, 0.3, 0.32, 0.28, 0.3)


def arms(*lines: str, lists: Sequence[tuple[str, str]] = (), **given: Any) -> dict[str, ArmFile]:
    found = arms_of_commands(CommandLines(lines, **given), parameter_lists(lists))
    return {name: one.arm for name, one in found.items()}


def trial(found: Mapping[str, ArmFile], **fields: Any) -> TrialFile:
    control = next(iter(found))
    file = TrialFile(name="ab", command=found[control].command or (), control=control, arms=found, **fields)
    check_trial_file(file)
    return file


def test_each_command_is_an_arm_named_after_it() -> None:
    found = arms("sort -n data", "sort  'my data'", "/bin/true")
    assert {name: arm.command for name, arm in found.items()} == {
        "sort-n-data": ("sort", "-n", "data"),
        "sort-my-data": ("sort", "my data"),
        "bin-true": ("/bin/true",),
    }
    assert list(arms("make", "make -j2", names=("one",))) == ["one", "make-j2"]


def test_the_same_command_again_is_a_placebo() -> None:
    found = arms("true", "true", "true")
    assert [arm.placebo for arm in found.values()] == [False, True, True]
    assert list(found) == ["true", "true-2", "true-3"]
    assert {arm.command for arm in trial(found).full_arms.values()} == {("true",)}


def test_parameters_are_filled_in_everywhere() -> None:
    lists = [("cc", "gcc,clang"), ("o", "1,a\\,b")]
    found = arms("{cc} -O{o} {x}", lists=lists, prepare=("rm {o}",), setup=("which {cc}",))
    assert [arm.command for arm in found.values()] == [
        ("gcc", "-O1", "{x}"),
        ("gcc", "-Oa,b", "{x}"),
        ("clang", "-O1", "{x}"),
        ("clang", "-Oa,b", "{x}"),
    ]
    last = list(found.values())[-1]
    assert last.prepare == (("rm", "a,b"),)
    assert last.commands == (CommandFile(run=("which", "clang"), undo=("true",)),)


def test_what_runs_around_is_given_once_or_for_each() -> None:
    first, second = arms("a", "b", prepare=("sync",), cleanup=("rm x", "rm y")).values()
    assert first.prepare == second.prepare == (("sync",),)
    assert [arm.commands[0].undo for arm in (first, second)] == [("rm", "x"), ("rm", "y")]
    with pytest.raises(BadInput, match="--prepare is given 2 times for 3 commands"):
        arms("a", "b", "c", prepare=("x", "y"))


def test_a_shell_gets_the_line_as_it_is() -> None:
    found = arms("a | b", "echo $HOME", shell=("/bin/bash", "-e"))  # noqa: S604 (no subprocess)
    assert list(found) == ["a-b", "echo-HOME"]
    assert found["a-b"].command == ("/bin/bash", "-e", "-c", "a | b")


@pytest.mark.parametrize(
    "line",
    ["a | b", "ls *.c", "echo $HOME", 'echo "$HOME"', "a && b", "a > b", "ls ~/x", "A=1 make", "echo `x`", "a;b"],
)
def test_what_needs_a_shell_is_refused_without_one(line: str) -> None:
    with pytest.raises(BadInput, match="needs a shell") as caught:
        words_of(line, "command", ())
    assert "-S sh" in (caught.value.hint or "")


@pytest.mark.parametrize("line", ["grep 'a|b*' x", "echo \\$HOME a~b", 'awk "{ print }" --x=1', "find . -exec ls {} +"])
def test_quoted_characters_of_a_shell_are_words(line: str) -> None:
    assert words_of(line, "command", ())


@pytest.mark.parametrize(
    "lines, more, said",
    [
        (("one",), {}, "expected two commands or more, got 1"),
        ((), {}, "expected two commands or more, got 0"),
        (("one",), {"lists": [("x", "1")]}, "expected two commands or more, got 1"),
        (("a", ""), {}, "the command line is empty"),
        (("a", "b 'c"), {}, "no closing quotation"),
        (("a", "b"), {"names": ("x", "y", "z")}, "-n is given 3 times for 2 commands"),
        (("a", "b"), {"lists": [("x", "1,1")]}, "contains a value twice"),
        (("a", "b"), {"lists": [("x", "1"), ("x", "2")]}, "-L x is given twice"),
    ],
)
def test_bad_command_lines_are_refused(lines: tuple[str, ...], more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        arms(*lines, **more)


def test_the_protocol_is_kept_as_a_file() -> None:
    file = trial(
        arms("a", "b", setup=("x", "y"), prepare=("sync",)),
        warm_ups=3,
        ignore_failure=True,
        campaign=CampaignFile(name="tune", of=32),
        design=DesignFile(alpha=0.05 / 32),
    )
    assert parse_trial_file(trial_text(file).encode(), "f.toml") == file


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"suite": "quick", "command": ()}, "arm a has its own command, but this trial measures a suite"),
        ({"warm_ups": 1001}, "warm_ups: expected 0 to 1000"),
        (
            {"warm_ups": 1, "arms": {"a": ArmFile(), "b": ArmFile(environment={"X": "1"})}},
            "warm_ups and ignore_failure apply to commands of arms",
        ),
        (
            {
                "campaign": CampaignFile(name="t", of=1),
                "arms": {"a": ArmFile(), "b": ArmFile(manual="boot b", expect={"kernel.release": "b"})},
            },
            "its arms cannot be guests, boots or manual arms",
        ),
        ({"arms": {"a": ArmFile(), "b": ArmFile(prepare=((),))}}, "arm b: a command is empty"),
        ({"campaign": CampaignFile(name="t", of=65)}, "expected 1 to 64 decisions, got 65"),
        ({"campaign": CampaignFile(name="t", of=2)}, "alpha = 0.05 is too large for one of 2 decisions"),
        (
            {"campaign": CampaignFile(name="t", of=64), "design": DesignFile(alpha=0.05 / 64, budget="quick")},
            "budget = 9 blocks cannot decide; one of 64 decisions needs at least 12",
        ),
        (
            {
                "campaign": CampaignFile(name="t", of=1),
                "arms": {name: ArmFile(command=(name,)) for name in ("a", "b", "c")},
            },
            "expected two arms",
        ),
    ],
)
def test_bad_protocols_are_refused(fields: dict[str, Any], said: str) -> None:
    usual: dict[str, Any] = {"name": "x", "command": ("a",), "control": "a", "arms": arms("a", "b")}
    with pytest.raises(BadInput, match=said):
        check_trial_file(TrialFile(**{**usual, **fields}))


def test_an_arm_may_differ_in_what_runs_before_it_alone() -> None:
    file = trial({"a": ArmFile(command=("a",)), "b": ArmFile(prepare=(("sync",),))})
    assert {name: (arm.command, arm.prepare) for name, arm in file.full_arms.items()} == {
        "a": (("a",), ()),
        "b": (("a",), (("sync",),)),
    }


def test_arms_differ_in_their_command_and_wait_only_for_changes() -> None:
    catalog = load_catalog()
    same = trial(arms("a", "b", setup=("x",)))
    plans = arm_plans(same, FakeMachine({}), catalog)
    settings = arm_settings(same, plans)
    assert [one.parameters for one in settings.values()] == [{"command": "a"}, {"command": "b"}]
    assert with_placebos(same, settings)[1] == ()
    assert settle_s(same, plans, catalog.knobs) == 0
    assert settle_s(trial(arms("a", "b", setup=("x", "y"))), plans, catalog.knobs) > 0


@pytest.mark.parametrize("of, fewest", [(1, 7), (2, 7), (3, 9), (10, 9), (32, 12), (64, 12)])
def test_the_smallest_number_of_blocks_can_decide(of: int, fewest: int) -> None:
    campaign = CampaignFile(name="t", of=of)
    assert fewest_blocks(campaign) == fewest
    assert alpha_of(campaign) == pytest.approx(0.05 / of)
    assert looks(fewest, of)


@pytest.mark.parametrize(
    "of, most, first", [(1, 20, 7), (32, 12, 12), (32, 20, 12), (64, 20, 16), (64, 25, 16), (9, 10, 9)]
)
def test_it_is_told_when_a_decision_may_fall_first(of: int, most: int, first: int) -> None:
    campaign = CampaignFile(name="t", of=of)
    assert first_look(campaign, most) == first == next(iter(looks(largest_cap(most, of), of)))


def stored(number: int, of: int = 2, name: str = "tune") -> StoredTrial:
    file = trial(arms("old", "new"), campaign=CampaignFile(name=name, of=of), design=DesignFile(alpha=0.05 / of))
    return StoredTrial(
        trial=f"tune-{number}",
        session=f"s{number}",
        protocol_sha256="f" * 64,
        started_unix_ms=number,
        file=file,
        arms=arm_settings(file, arm_plans(file, FakeMachine({}), load_catalog())),
        settle_s=0,
        machine="m",
    )


def test_a_campaign_refuses_more_decisions_than_it_has() -> None:
    campaign = CampaignFile(name="tune", of=2)
    other = stored(9, name="other")
    assert refuse_beyond(campaign, (other,)) == 1
    assert refuse_beyond(campaign, (other, stored(1))) == 2
    with pytest.raises(Refused, match="has made all its 2 decisions"):
        refuse_beyond(campaign, (stored(2), other, stored(1)))
    with pytest.raises(BadInput, match="began with --of 2, not 3"):
        refuse_beyond(CampaignFile(name="tune", of=3), (stored(1),))


def comparison(differences: Sequence[float], margin: float = 0.02, **changes: Any) -> tuple[StoredTrial, Comparison]:
    """A trial of `old` and `new` whose blocks have these differences of log scores."""
    kept = stored(1)
    fixed = protocol(
        ("new",),
        control="old",
        arms=(TrialArm(name="old"), TrialArm(name="new")),
        outcomes={WALL: OutcomeRule(direction="lower", role="primary", margin=margin)},
        **changes,
    )
    log = [*log_of(fixed, {WALL: {"old": [0.0] * len(differences), "new": list(differences)}})]
    judgement = judge(log)
    if judgement.next.action == "stop":
        log.append(TrialEnd(reason=judgement.next.reason))
    facts = TrialFacts(outcomes={WALL: OwnBenchmark(name="command", what="", argv=("a",)).outcomes[0]}, records=())
    return kept, comparison_of(kept, log, judge(log), facts)


@pytest.mark.parametrize(
    "differences, said, decision",
    [
        (BETTER, "`new` ran 1.35 times as fast as `old` (95 % interval 1.32 to 1.38, 7 blocks)", "keep"),
        ([-one for one in BETTER], "`old` ran 1.35 times as fast as `new`", "revert"),
        (
            (0.001, -0.001, 0.002, -0.002, 0.0, 0.001, -0.001),
            "`new` and `old` are equally fast: any difference is below 2 %",
            "revert",
        ),
        (BETTER[:3], "undecided: `new` and `old` (3 blocks); undecided so far", "revert"),
    ],
)
def test_the_summary_says_which_is_faster_or_that_nobody_knows(
    differences: Sequence[float], said: str, decision: str
) -> None:
    kept, found = comparison(differences)
    (line,) = summary_lines(found)
    assert line.startswith(said)
    assert said[:30] in commands_text(found, width=200)
    made = decision_of(kept, found, (kept,))
    assert made is not None
    assert (made.decision, made.number, made.of) == (decision, 1, 2)
    told = decision_line(made, found)
    assert told.startswith(f"{decision}: ")
    assert told.count("\n") == 1


def test_another_judged_outcome_has_its_own_line() -> None:
    _, found = comparison(BETTER)
    (outcome,) = found.outcomes
    other = msgspec.structs.replace(outcome, role="secondary", outcome="user")
    found = msgspec.structs.replace(found, outcomes=(outcome, other))
    told = commands_text(found, width=200)
    assert "\n  user: `new` is better than `old`: 26 % less time" in told, told


def test_times_are_shown_with_their_spread() -> None:
    _, found = comparison(BETTER)
    told = commands_text(found, width=100)
    assert told.startswith("old\n  wall (mean ± sd): 1 s ± 0 s, 7 runs\n  range: 1 s to 1 s, median 1 s\n\nnew\n  wall")


def test_the_export_is_read_like_a_file_of_hyperfine() -> None:
    _, found = comparison(BETTER)
    data = arms_document(found, commands_of(found), {"new": {"cc": "gcc"}})
    one, other = json.loads(data)["results"]
    assert (one["command"], other["command"]) == ("old", "new")
    assert len(other["times"]) == 7
    assert other["parameters"] == {"cc": "gcc"}
    assert "parameters" not in one
    assert {"mean", "stddev", "median", "user", "system", "min", "max", "times"} <= set(one)
    assert [run.group for run in read_hyperfine(data)] == ["old"] * 7 + ["new"] * 7


@pytest.mark.parametrize(
    "old, new, doubted",
    [
        (("a", "a"), ("b", "b"), True),
        (("a", "a"), ("a", "a"), False),
        (("a", "b"), ("c", "d"), False),
        (("", ""), ("b", "c"), True),
    ],
)
def test_commands_that_print_differently_are_doubted(old: Sequence[str], new: Sequence[str], doubted: bool) -> None:
    records: list[RunRecord] = []
    for arm, outputs in (("old", old), ("new", new)):
        for text in outputs:
            raw = {"stdout": Artefact.of(text.encode())} if text else {}
            records.append(run_record(len(records) + 1, arm, 1, {"wall": 1.0}, raw=raw))
    found = output_findings(stored(1), records)
    assert [one.kind for one in found] == (["different-output"] if doubted else [])


@pytest.mark.parametrize("is_exact", [False, True])
def test_a_guest_is_refused_because_it_would_measure_one_command_in_all_arms(is_exact: bool) -> None:
    host = Host("exact:6.1" if is_exact else "guest:6.1")
    host.is_exact = is_exact
    host.guest_tools = None if is_exact else lambda: pytest.fail("nobody asks a guest")
    with pytest.raises(BadInput, match=r"cannot compare commands with --host \w+:6.1"):
        refuse_in_guests(host, trial(arms("a", "b")))
    refuse_in_guests(host, TrialFile(name="x", command=("a",), arms={"control": ArmFile(), "b": ArmFile(boot=("x",))}))
    refuse_in_guests(Host("ssh:web1"), trial(arms("a", "b")))

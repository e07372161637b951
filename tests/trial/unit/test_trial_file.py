# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, Contradiction, KtrialError, UnknownName
from ktrial.trial.protocol.file import ArmFile, DesignFile, SafetyLimits, TrialFile, share, trial_text
from ktrial.trial.protocol.read import check_trial_file, parse_trial_file

TEXT = """
name = "watermarks"
suite = "memory-pressure"
primary = "pressure.late_frames"
secondary = ["pressure.frame_p99_ms"]
guards = { "load.throughput" = "5%" }
detect = "5%"
margin = "2%"

[design]
cap = 20
alpha = 0.05
seed = 7
time = "2h"
settle = "500ms"

[arms.control]

[arms.wsf500]
set = { "vm.watermark_scale_factor" = 500, "vm.swappiness" = "60" }

[arms.case]
profile = "micro-stutter"
environment = { MALLOC_ARENA_MAX = "2" }

[gates]
start_temperature = "8C"

[limits]
temperature = "95C"
memory_pressure = "40%"
"""


def parsed(text: str = TEXT) -> TrialFile:
    return parse_trial_file(text.encode(), "trial.toml")


def test_a_protocol_is_read() -> None:
    trial = parsed()
    assert trial.arms["wsf500"].words == ("vm.watermark_scale_factor=500", "vm.swappiness=60")
    assert trial.arms["case"].words == ("micro-stutter",)
    assert trial.arms["control"].changes_nothing
    assert (trial.detect_share, trial.budget, trial.settle_s, trial.time_s) == (0.05, 20, 0.5, 7200)
    assert trial.safety == SafetyLimits(temperature_c=95, memory_pressure_share=0.4)


def test_profiles_come_before_settings_so_that_settings_win() -> None:
    arm = ArmFile(set={"vm.swappiness": 1, "thp:enabled": True}, profile=("a", "b"))
    assert arm.words == ("a", "b", "vm.swappiness=1", "thp:enabled=true")


def test_any_edit_is_another_trial_and_another_order_of_keys_is_not() -> None:
    seen = {
        parsed(TEXT).sha256,
        parsed(TEXT.replace("seed = 7", "seed = 8")).sha256,
        parsed(TEXT.replace('"95C"', '"96C"')).sha256,
        parsed(TEXT.replace("= 500", "= 501")).sha256,
    }
    assert len(seen) == 4
    moved = TEXT.replace('margin = "2%"\n', "").replace("detect", 'margin = "2%"\ndetect')
    assert parsed(moved).sha256 == parsed(TEXT).sha256


@pytest.mark.parametrize(
    "before, after, kind, said",
    [
        ("seed = 7", "sede = 7", BadInput, "sede"),
        ("detect", "detekt", BadInput, "detekt"),
        ("[arms.control]", "[arms.stock]", UnknownName, "unknown arm: 'control'"),
        ('name = "watermarks"', 'name = "../x"', BadInput, "is not a name for a trial"),
        ("[arms.case]", '[arms."a b"]', BadInput, "'a b' is not a name for an arm"),
        ('suite = "memory-pressure"', "", BadInput, "the trial measures nothing"),
        ('suite = "memory-pressure"', 'suite = "a"\ncommand = ["b"]', BadInput, "both a suite and a command"),
        ('suite = "memory-pressure"', 'suite = "a"\nmetrics = ["b"]', BadInput, "`metrics` read the output"),
        ('suite = "memory-pressure"', 'suite = "a"\nlimit = "1min"', BadInput, "`limit` applies to runs of a command"),
        ('suite = "memory-pressure"', 'suite = "x"\nprepare = [["a"]]', BadInput, "`prepare` is for a command"),
        ('suite = "memory-pressure"', 'suite = "x"\nload_address = "10.0.0.5"', BadInput, "requires load_from"),
        ('suite = "memory-pressure"', 'command = ["a"]\nload_from = "ssh:a"', BadInput, "load_from with a command"),
        ('suite = "memory-pressure"', 'command = ["a"]\nprepare = [[]]', BadInput, "contains an empty command"),
        ('suite = "memory-pressure"', 'command = ["a"]\nlimit = "0s"', BadInput, "limit = 0s leaves no time for a run"),
        ('suite = "memory-pressure"', 'command = ["a"]\nlimit = "soon"', BadInput, "limit"),
        ('detect = "5%"', 'detect = "0%"', BadInput, "expected an effect above zero"),
        ('margin = "2%"', 'margin = "two"', BadInput, "margin: expected a percentage"),
        ("seed = 7", "seed = -1", BadInput, "seed: expected 0 to 2^63 - 1, got -1"),
        ("seed = 7", 'budget = "huge"', UnknownName, "unknown budget: 'huge'"),
        ("cap = 20", "cap = 5", BadInput, "cap = 5: too few blocks for any verdict"),
        ("seed = 7", "budget = 3", BadInput, "budget = 3: too few blocks"),
        ('time = "2h"', 'time = "0s"', BadInput, "leaves no time for a run"),
        ('time = "2h"', 'time = "soon"', BadInput, "time: expected a duration, got 'soon'"),
        ('settle = "500ms"', 'settle = "2h"', BadInput, "longer than an hour"),
        ("seed = 7", "runs_per_visit = 0", BadInput, "runs_per_visit: expected 1 to 100, got 0"),
        ("MALLOC_ARENA_MAX", '"A-B"', BadInput, "is not a variable name"),
        ('profile = "micro-stutter"', "placebo = true", Contradiction, "a placebo cannot change anything"),
        ("start_temperature", "heat", UnknownName, "unknown gate: 'heat'"),
        ("memory_pressure", "pressure", UnknownName, "unknown limit: 'pressure'"),
        ('temperature = "95C"', 'temperature = "hot"', BadInput, "limits: cannot read temperature = 'hot'"),
        ('"40%"', '"140%"', BadInput, "limits: cannot read memory_pressure = '140%'"),
        ("[arms.control]", "[arms.control]\nexpect = { a = 1 }", BadInput, "only a manual arm can have `expect`"),
        ("[gates]", "[gates", BadInput, "TOML: "),
    ],
)
def test_what_cannot_be_meant_is_told_with_the_file(
    before: str, after: str, kind: type[KtrialError], said: str
) -> None:
    text = TEXT.replace(before, after, 1)
    assert text != TEXT
    with pytest.raises(BadInput) as caught:
        parsed(text)
    assert re.match(r"trial\.toml:(\d+:)* ", caught.value.message)
    assert said in caught.value.message
    assert caught.value.hint
    if kind is not BadInput:
        with pytest.raises(kind):
            check_trial_file(msgspec.convert(tomllib.loads(text), TrialFile))


def test_one_arm_is_no_trial_and_two_alike_are_a_placebo() -> None:
    one = 'name = "a"\nsuite = "b"\n[arms.control]\n'
    with pytest.raises(BadInput, match="a trial needs at least two arms"):
        parsed(one)
    with pytest.raises(BadInput, match="arms control and case are the same") as caught:
        parsed(f"{one}[arms.case]\n")
    assert "placebo = true" in (caught.value.hint or "")
    assert parsed(f"{one}[arms.case]\nplacebo = true\n").arms["case"].placebo


def test_bytes_that_are_no_text_are_told() -> None:
    with pytest.raises(BadInput, match=r"trial\.toml:1:1: not UTF-8 text"):
        parse_trial_file(b"\xff\xfe", "trial.toml")


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,12}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
ARMS = st.one_of(
    st.builds(
        ArmFile,
        set=st.dictionaries(st.sampled_from(["vm.swappiness", "queue:scheduler@sda"]), st.integers(0, 9), min_size=1),
        environment=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), TEXTS, max_size=2),
    ),
    st.builds(ArmFile, profile=st.one_of(TEXTS, st.lists(TEXTS, min_size=1, max_size=3).map(tuple))),
    st.just(ArmFile(placebo=True)),
)
FILES = st.builds(
    TrialFile,
    name=NAMES,
    command=st.lists(TEXTS, min_size=1, max_size=4).map(tuple),
    metrics=st.lists(TEXTS, max_size=2).map(tuple),
    guards=st.dictionaries(TEXTS, st.sampled_from(["5%", "0.5%"]), max_size=2),
    detect=st.sampled_from(["5%", 0.03]),
    design=st.builds(
        DesignFile,
        cap=st.none() | st.integers(7, 60),
        seed=st.none() | st.integers(0, 2**63 - 1),
        settle=st.sampled_from([None, "0s", "1.5s"]),
        extend=st.booleans(),
    ),
    arms=st.dictionaries(NAMES, ARMS, min_size=1, max_size=3).map(lambda arms: {"control": ArmFile(), **arms}),
    gates=st.sampled_from([{}, {"swap": "off"}, {"steal": {"suspect": "5%"}}]),
    limits=st.sampled_from([{}, {"temperature": "90C"}]),
)


@settings(max_examples=60)
@given(FILES)
def test_what_is_written_is_read_as_it_was(file: TrialFile) -> None:
    text = trial_text(file)
    assert msgspec.convert(tomllib.loads(text), TrialFile) == msgspec.convert(msgspec.to_builtins(file), TrialFile)
    try:
        check_trial_file(file)
    except BadInput:
        return
    assert parse_trial_file(text.encode(), "trial.toml").sha256 == file.sha256


@settings(max_examples=80)
@given(st.data())
def test_a_damaged_protocol_is_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(TEXT.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        change: Any = data.draw(st.sampled_from(["cut", "flip", "double"]))
        if change == "cut":
            del raw[at : at + data.draw(st.integers(1, 30))]
        elif change == "flip":
            raw[at] = data.draw(st.integers(0, 255))
        else:
            raw[at:at] = raw[at : at + 20]
    try:
        parse_trial_file(bytes(raw), "trial.toml")
    except BadInput as error:
        told = error.message
    else:
        told = "trial.toml: read"
    assert re.match(r"trial\.toml:(\d+:)* ", told)


@pytest.mark.parametrize("value, wanted", [("5%", 0.05), ("0.5%", 0.005), (0.03, 0.03), (0, 0.0)])
def test_shares(value: str | float, wanted: float) -> None:
    assert share(value, "margin") == pytest.approx(wanted)


@pytest.mark.parametrize("value", ["-1%", "5C", "", float("nan"), -0.1])
def test_no_shares(value: str | float) -> None:
    with pytest.raises(BadInput, match="expected a percentage"):
        share(value, "margin")

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.machine.facts import Fact, FactBook
from ktrial.tuning.state.state import FACTS, MachineState, StateValue, fact_values, file_text, parse_state

TEXTS = st.text(max_size=20)
VALUES = st.one_of(
    st.builds(lambda text: StateValue(text=text), TEXTS),
    st.builds(lambda text: StateValue(unreadable=text), TEXTS),
    st.builds(lambda words: StateValue(words=tuple(sorted(words))), st.sets(TEXTS, max_size=4)),
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_a_state_comes_back_from_its_document_whatever_the_order(
    files: dict[str, StateValue], knobs: dict[str, str]
) -> None:
    state = MachineState(facts={}, knobs=knobs, files=files)
    turned = MachineState(facts={}, knobs=dict(reversed(knobs.items())), files=dict(reversed(files.items())))
    assert parse_state(state.canonical(), "x") == state
    assert (turned.canonical(), turned.sha256) == (state.canonical(), state.sha256)


def test_the_digest_is_of_the_document() -> None:
    state = MachineState(facts={}, knobs={}, files={})
    assert (
        state.canonical() == b'{"facts":{},"files":{},"hidden":{},"knobs":{},"left_out":{},"schema":"ktrial.state/1"}'
    )
    # printf '%s' '{…}' | sha256sum
    assert state.sha256 == "9884184912150585edb37fcb141033ae10708df0c0a9ff82e052cdec80f7ddaf"


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes) -> None:
    with pytest.raises(BadInput):
        parse_state(data, "x")


@pytest.mark.parametrize(
    "files",
    ['{"/a": {}}', '{"/a": {"text": "1", "absent": "no"}}', '{"/a": {"text": 1}}', "[]"],
)
def test_a_value_is_one_of_four(files: str) -> None:
    text = f'{{"schema": "ktrial.state/1", "facts": {{}}, "knobs": {{}}, "files": {files}}}'
    with pytest.raises(BadInput, match="x: "):
        parse_state(text.encode(), "x")


def test_another_schema_is_refused() -> None:
    with pytest.raises(BadInput, match="not a saved state"):
        parse_state(b'{"schema": "ktrial.state/2", "facts": {}, "knobs": {}, "files": {}}', "x")


def test_facts_become_texts_and_sets_and_what_is_missing_says_why() -> None:
    facts = FactBook(
        {
            "kernel.release": Fact(value="6.18"),
            "kernel.tick_rate": Fact(value=250),
            "kernel.modules": Fact(value=["zram", "ext4"]),
            "cpu.mitigations": Fact(value={"meltdown": "Not affected"}),
            "kernel.lockdown": Fact(unknown="no securityfs"),
            "kernel.sched_ext_state": Fact(absent="no such file"),
        }
    )
    values = fact_values(facts)
    assert values["kernel.release"] == StateValue(text="6.18")
    assert values["kernel.tick_rate"] == StateValue(text="250")
    assert values["kernel.modules"] == StateValue(words=("ext4", "zram"))
    assert values["cpu.mitigations.meltdown"] == StateValue(text="Not affected")
    assert values["kernel.lockdown"] == StateValue(unreadable="no securityfs")
    assert values["kernel.sched_ext_state"] == StateValue(absent="no such file")
    assert values["services.active"] == StateValue(unreadable="was not asked for")
    assert len(values) == len(FACTS)


def test_bytes_of_a_file() -> None:
    assert file_text(b"10\n") == "10"
    assert file_text(b"\xff\t\n") == "\\xff"
    assert file_text(b"  a b \n") == "  a b"

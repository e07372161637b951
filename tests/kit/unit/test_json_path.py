# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.json_path import is_path, parse_path, select
from ktrial.kit.json_strict import NotStrictJson, decode

DOCUMENT = {
    "jobs": [{"name": "a", "read": {"iops": 12.5, "x y": 7}}, {"name": "b", "read": {"iops": 3, "it's": [1, [2, 4]]}}],
    "99.0": {"": 1, "a-b_C9": -2, "ok": True, "none": None},
}


@pytest.mark.parametrize(
    "path, value",
    [
        ("$.jobs[0].read.iops", 12.5),
        ("$.jobs[-1].read.iops", 3),
        ("$.jobs[0].read['x y']", 7),
        ('$["jobs"][0]["read"]["x y"]', 7),
        (r"$.jobs[1].read['it\'s'][1][-1]", 4),
        ('$.jobs[1].read["it\'s"][0]', 1),
        ("$['99.0'].a-b_C9", -2),
    ],
)
def test_a_path_names_one_number(path: str, value: float) -> None:
    assert is_path(path)
    assert select(DOCUMENT, path) == value


@pytest.mark.parametrize(
    "path, why",
    [
        ("$.jobs[2].name", r"\$\['jobs'\] has 2 elements, so \[2\] does not exist"),
        ("$.jobs[-3].name", r"has 2 elements, so \[-3\] does not exist"),
        ("$.jobs.name", r"\$\['jobs'\] is a list, not an object"),
        ("$.jobs[0][0]", r"\$\['jobs'\]\[0\] is an object, not a list"),
        ("$.jobs[0].write.iops", "has no 'write'; it has name, read"),
        ("$.jobs[0].name", "is the text 'a', not a number"),
        ("$.jobs[0].read", "is an object, not a number"),
        ("$.jobs", "is a list, not a number"),
        ("$['99.0'].ok", "is true, not a number"),
        ("$['99.0'].none", "is null, not a number"),
        ("$['99.0'].none.x", "is null, not an object"),
        ("$['99.0'].ok[0]", "is true, not a list"),
        ("$.jobs[0].read.iops.x", "is 12.5, not an object"),
    ],
)
def test_a_path_that_leads_to_no_number_says_how_far_it_led(path: str, why: str) -> None:
    with pytest.raises(BadRun, match=why) as caught:
        select(DOCUMENT, path)
    assert (caught.value.hint == "end the path at this number") == ("12.5" in why)


def test_only_some_keys_of_a_large_object_are_listed() -> None:
    with pytest.raises(BadRun, match=r"it has 0, 1, 2, 3, 4, 5, 6, 7, …$"):
        select({str(key): key for key in range(1000)}, "$.x")
    with pytest.raises(BadRun, match="is an empty object") as caught:
        select({}, "$.x")
    assert caught.value.hint == "use a path that leads to a number in the document"
    with pytest.raises(BadRun, match="has 0 elements") as caught:
        select({"x": []}, "$.x[0]")
    assert caught.value.hint == "use a path that leads to a number in the document"


@pytest.mark.parametrize(
    "text",
    [
        "$",
        "$.",
        "$..a",
        "$.*",
        "$[*]",
        "$[0:2]",
        "$[?(@.a)]",
        "$[01]",
        "$[- 1]",
        "$['']",
        "$['a]",
        "$.a b",
        "$.9",
        "a.b",
        "$[99999999999]",
        "$['a'",
        "$.a[",
        "$.a['b'].",
        "",
        r"$['\x']",
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_path(text)
    assert caught.value.hint


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="$.[]'\"\\abc09-_*?: é\n", max_size=30))
def test_any_text_is_a_path_or_bad_input(text: str) -> None:
    try:
        assert parse_path(text)
    except BadInput:
        return
    assert is_path(text)


KEYS = st.text(min_size=1, max_size=6)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
DOCUMENTS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))


def places(value: Any, path: str) -> list[tuple[str, Any]]:
    """Every place below a value, by its path in brackets."""
    found = [(path, value)]
    if isinstance(value, dict):
        for key, item in value.items():
            quoted = key.replace("\\", "\\\\").replace("'", "\\'")
            found += places(item, f"{path}['{quoted}']")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, f"{path}[{index}]")
    return found


@settings(max_examples=200, deadline=None)
@given(document=DOCUMENTS)
def test_every_place_of_a_document_is_reached(document: Any) -> None:
    read = decode(json.dumps(document))
    assert read == document
    for path, value in places(document, "$")[1:]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            with pytest.raises(BadRun, match="not a number"):
                select(read, path)
        else:
            assert select(read, path) == value


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "complete JSON"),
        ("{", "complete JSON"),
        ('{"a": 1} {"a": 2}', "complete JSON"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' is not the only key of this name"),
        ('{"a": NaN}', "'NaN' is not a finite number"),
        ("[-Infinity]", "'-Infinity' is not a finite number"),
        ("[1e999]", "'1e999' is not a finite number"),
        ("[" * 100_000, "readable JSON: it is nested too deeply"),
        ("1" * 10_000, "readable JSON: exceeds the limit"),
    ],
)
def test_json_that_is_not_strict_is_refused(text: str, why: str) -> None:
    with pytest.raises(NotStrictJson, match=why):
        decode(text)


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet='{}[]",:0123456789.eE+-naiftrulsNIy \n\\', max_size=60))
def test_any_text_is_strict_json_or_refused(text: str) -> None:
    try:
        decode(text)
    except NotStrictJson as error:
        assert error.wanted

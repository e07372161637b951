# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.suite_files import load_suites
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.toml_files import BUILT_IN
from ktrial.studies.goals import load_goals
from ktrial.tuning.catalog.cache import compiled_catalog
from ktrial.tuning.catalog.loader import load_catalog, with_profile_file
from ktrial.tuning.catalog.model import catalog_files

BENCHMARKS = all_benchmarks()
KNOB = """[[knob]]
id = "vm.own_knob"
kind = "sysctl"
value = { type = "int", min = 0 }
takes_effect = "now"
risk = "safe"
what = "An own knob."
price = "None."
"""


def own(folder: Path, *, knob: str = "", profile: str = "") -> Path:
    for kind, text in (("knobs", knob), ("profiles", profile)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        if text:
            (folder / kind / "own.toml").write_text(text)
    return folder


def test_the_built_in_catalog_loads_and_is_large() -> None:
    catalog = load_catalog()
    assert len(catalog.knobs) >= 150
    assert {"ktweak", "micro-stutter", "arashi", "stock", "distro", "quiet", "margine-bench"} <= set(catalog.profiles)


def test_own_knobs_and_profiles(tmp_path: Path) -> None:
    folder = own(
        tmp_path, knob=KNOB, profile='name = "mine"\nsummary = "s"\n[[setting]]\nknob = "vm.own_knob"\nvalue = 3\n'
    )
    catalog = load_catalog([folder])
    assert catalog.knobs["vm.own_knob"].what == "An own knob."
    assert catalog.profiles["mine"].setting[0].value == 3


@pytest.mark.parametrize(
    "knob, line, words",
    [
        (KNOB.replace('risk = "safe"', 'risk = "sure"'), 6, "invalid enum value 'sure'"),
        (KNOB.replace("min = 0", "mni = 0"), 4, "unknown field `mni`"),
        (KNOB + "riks = 1\n", 9, "unknown field `riks`"),
        (KNOB.replace('what = "An own knob."\n', ""), 1, "missing required field `what`"),
        (KNOB + KNOB.replace("own_knob", "b").replace('"An own knob."', "7"), 15, "expected `str`, got `int`"),
        (KNOB.replace('"vm.own_knob"', '"vm.own_knob'), 2, "TOML"),
        (KNOB.replace("own_knob", "swappiness"), None, "already exists"),
        (KNOB + 'couples = ["vm.nothing"]\n', None, "vm.nothing"),
        (KNOB + "default = -4\n", None, "out of range"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, knob: str, line: int | None, words: str) -> None:
    with pytest.raises(KtrialError) as caught:
        load_catalog([own(tmp_path, knob=knob)])
    assert words in caught.value.message
    if line is not None:
        assert f"own.toml:{line}:" in caught.value.message
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    "profile, words",
    [
        ('name = "p"\nsummary = "s"\n[[setting]]\nknob = "vm.page_cluster"\nvalue = 0\n', "vm.page_cluster"),
        ('name = "p"\nsummary = "s"\n[[setting]]\nknob = "vm.swappiness"\nvalue = 900\n', "out of range"),
        ('name = "p"\nsummary = "s"\nextends = ["p"]\n', "circle"),
        ('name = "p"\nsummary = "s"\n[[setting]]\nknob = "vm.swappiness"\nvalue = 1\nwhen = "moon == 1"\n', "moon"),
        ('name = "p"\nsummary = "s"\n[[setting]]\nknob = "vm.swappiness"\nvalue = {compute = "x"}\n', "computed value"),
        ('name = "ktweak"\nsummary = "s"\n', "already exists"),
    ],
)
def test_profiles_that_cannot_be_right(tmp_path: Path, profile: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        load_catalog([own(tmp_path, profile=profile)])


@pytest.mark.parametrize(
    "place, why",
    [
        ("/etc/passwd", "outside the folders of knobs"),
        ("/proc/1/mem", "outside the folders of knobs"),
        ("/sys/power/state", "outside the folders of knobs"),
        ("/sys/block/../../etc/passwd", "`..`"),
        ("relative/x", "outside the folders of knobs"),
        ("/sys//block/x", "empty parts"),
        ("/sys/block/{nope}/x", "unknown placeholder"),
        ("/sys/block/{block", "unbalanced braces"),
        ("/sys/block/*/x", "patterns"),
        ("/proc/sys/a\\u0000b", "control characters"),
    ],
)
@pytest.mark.parametrize("key", ["places", "effective", "offers", "requires_choice"])
def test_places_that_no_knob_has_are_refused_with_file_and_line(tmp_path: Path, place: str, why: str, key: str) -> None:
    text = KNOB + (f'places = ["{place}"]\n' if key == "places" else f'{key} = "{place}"\n')
    with pytest.raises(BadInput) as caught:
        load_catalog([own(tmp_path, knob=text)])
    assert f"{tmp_path}/knobs/own.toml:1:1: vm.own_knob: invalid place" in caught.value.message
    assert why in caught.value.message


@pytest.mark.parametrize(
    "change, why",
    [
        (("vm.own_knob", "a=b"), "not a knob's name"),
        (("vm.own_knob", "../etc"), "not a knob's name"),
        (("min = 0", "min = 5, max = 1"), "min 5 is larger than max 1"),
        (('"sysctl"', '"sysfs"'), "needs `places`"),
        (('"sysctl"', '"boot"\nplaces = ["/sys/block/x"]'), "`places` is not allowed for a boot knob"),
    ],
)
def test_knobs_that_cannot_be_right(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        load_catalog([own(tmp_path, knob=KNOB.replace(*change))])


PROFILE = 'name = "p"\nsummary = "s"\n\n[[setting]]\nknob = "vm.swappiness"\nvalue = 10\n'


@pytest.mark.parametrize(
    "change, line, why",
    [
        (('"p"', '"a=b"'), 1, "invalid profile name"),
        (('"p"', '""'), 1, "invalid profile name"),
        (("= 10", "= 900"), 4, "out of range"),
        (("= 10", "= { percent = 1 }"), 4, "a table as a value needs the key `compute`"),
        (("= 10", '= { compute = "share" }'), 4, "needs 'percent'"),
        (("= 10", '= { compute = "share", percent = "x" }'), 4, "expected a number"),
        (("= 10", '= { compute = "share", percent = 1, of = "moon" }'), 4, "unknown fact: 'moon'"),
        (("= 10", '= { compute = "closest", to = "blah" }'), 4, "is not a number"),
        (("= 10", '= { compute = "first-offered", of = [] }'), 4, "needs `of`, a list"),
        (("= 10", '= { compute = "max", off = 1 }'), 4, "unknown key of `max`"),
        (('"s"', '"s"\nsource = "nope"'), 1, "unknown source: 'nope'"),
    ],
)
def test_profile_errors_name_file_and_line(tmp_path: Path, change: tuple[str, str], line: int, why: str) -> None:
    with pytest.raises(BadInput, match=re.escape(why)) as caught:
        load_catalog([own(tmp_path, profile=PROFILE.replace(*change))])
    assert f"own.toml:{line}:" in caught.value.message


def test_a_profile_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PROFILE.replace("summary", 'extends = ["ktweak"]\nsummary'))
    before = load_catalog()
    catalog, name = with_profile_file(before, path)
    assert name == "p"
    assert catalog.profiles["p"].setting[0].value == 10
    assert "p" not in before.profiles
    path.write_text(PROFILE.replace("= 10", "= 900"))
    with pytest.raises(BadInput, match=r"mine\.toml:4:1"):
        with_profile_file(before, path)


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    folder = own(tmp_path / "own")
    (folder / "profiles" / "z.toml").symlink_to("/nonexistent")
    with pytest.raises(BadInput, match=r"z\.toml: no such file"):
        compiled_catalog(tmp_path / "cache", [folder])


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (own(tmp_path) / "knobs" / "own.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        load_catalog([tmp_path])


def test_the_compiled_catalog_equals_the_files_and_is_renewed(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache" / "catalog", own(tmp_path / "own", knob=KNOB)
    assert compiled_catalog(cache, [folder]) == load_catalog([folder])
    assert compiled_catalog(cache, [folder]) == load_catalog([folder])
    (folder / "knobs" / "own.toml").write_text(KNOB.replace("An own knob", "Another"))
    assert compiled_catalog(cache, [folder]).knobs["vm.own_knob"].what == "Another."
    cache.write_bytes(b"garbage")
    assert compiled_catalog(cache, [folder]).knobs["vm.own_knob"].what == "Another."


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert compiled_catalog(blocked / "catalog").knobs


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_files_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([file for file in catalog_files([]) if file.parent != BUILT_IN]))
    text = path.read_text(encoding="utf-8")[:3000]
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 20))
    mutated = text[:at] + data.draw(st.text(max_size=6)) + text[at + cut :]
    folder = own(tmp_path)
    (folder / path.parent.name / "own.toml").write_text(mutated, encoding="utf-8", errors="replace", newline="")
    try:
        load_catalog([folder])
    except KtrialError as error:
        assert error.exit_status == 2
        assert error.message


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("kind", ["knobs", "profiles", "goals"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str, make: Callable[[Path], None]) -> None:
    (tmp_path / kind).mkdir()
    make(tmp_path / kind / "other.toml")
    with pytest.raises(BadInput, match=rf"{kind}/other.toml: not a regular file") as told:
        load_goals([tmp_path], load_catalog([tmp_path]), [*BENCHMARKS, *load_suites([], BENCHMARKS)])
    assert told.value.hint == "move this file out of the folder"


def test_a_profile_may_come_through_a_pipe_that_was_named(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b'name = "piped"\nsummary = "s"\n[[setting]]\nknob = "vm.swappiness"\nvalue = 3\n')
    os.close(writer)
    assert with_profile_file(load_catalog(), Path(f"/dev/fd/{reader}"))[1] == "piped"
    os.close(reader)


def test_a_list_of_settings_is_not_a_profile_but_can_become_one(tmp_path: Path) -> None:
    pasted = tmp_path / "list.txt"
    pasted.write_text("vm.swappiness = 10\n")
    with pytest.raises(BadInput, match="unknown field") as caught:
        with_profile_file(load_catalog(), pasted)
    assert f"`ktrial profile import {pasted} -o mine.toml`" in str(caught.value.hint)


def test_a_profile_that_is_no_toml_file_keeps_its_place_in_the_error(tmp_path: Path) -> None:
    named = tmp_path / "mine.profile"
    named.write_text('name = "a b"\nsummary = "s"\n[[setting]]\nknob = "vm.swappiness"\nvalue = 3\n')
    with pytest.raises(BadInput, match="invalid profile name") as caught:
        with_profile_file(load_catalog(), named)
    assert (caught.value.file, caught.value.line) == (str(named), 1)
    assert caught.value.hint == "use letters, digits and . _ - with a letter or digit first"
    named.write_text('name = "a"\nsummry = "s"\n')
    with pytest.raises(BadInput, match="unknown field") as caught:
        with_profile_file(load_catalog(), named)
    assert (caught.value.file, caught.value.line) == (str(named), 2)
    assert str(named) in caught.value.message
    assert caught.value.message.count(str(named)) == 1

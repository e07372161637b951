# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kernels.config.fragments import load_fragments
from ktrial.kernels.request import (
    Fragment,
    Wish,
    check_choices,
    parse_set,
    same_value,
    united,
    wishes_of,
    with_extended,
)
from ktrial.kernels.source import parse_patch
from ktrial.kit.errors import BadInput, Contradiction, UnknownName

NAMED = {"arashi-t1", "arashi-t2a", "arashi-t3a", "arashi-t3b", "btf", "guest", "lto-thin", "hz-1000", "preempt-full"}


def test_the_fragments_that_there_are() -> None:
    known = load_fragments()
    assert set(known) >= NAMED
    for name, fragment in known.items():
        assert fragment.name == name
        assert fragment.what.endswith(".")
        united(wish for one in with_extended([name], known) for wish in wishes_of(one, "x86_64"))
        assert set(fragment.patches) <= set(fragment.symbols)
    assert (known["arashi-t2a"].build.compiler, known["arashi-t2a"].build.optimise) == ("clang", "3")
    united(wish for one in with_extended(["arashi-t1", "arashi-t3a"], known) for wish in wishes_of(one, "arm64"))


def test_fragments_bring_those_that_they_extend_first() -> None:
    known = load_fragments()
    assert [one.name for one in with_extended(["arashi-t1", "btf"], known)] == ["btf", "arashi-t1"]
    with pytest.raises(UnknownName, match="unknown fragment: 'guset'") as caught:
        with_extended(["guset"], known)
    assert caught.value.hint == "did you mean guest?"
    circle = {
        name: Fragment(what="x", symbols={}, name=name, extends=(other,)) for name, other in (("a", "b"), ("b", "a"))
    }
    with pytest.raises(BadInput, match="extends itself: a -> b -> a"):
        with_extended(["a"], circle)


def test_symbols_by_architecture() -> None:
    guest = load_fragments()["guest"]
    assert Wish("64BIT", "y", "guest") in wishes_of(guest, "x86_64")
    assert not {"64BIT", "KVM_GUEST"} & {wish.symbol for wish in wishes_of(guest, "arm64")}


def test_wishes_that_contradict() -> None:
    one, other = Wish("NUMA", "y", "guest"), Wish("NUMA", "n", "mine.config:3")
    assert united([one, Wish("NUMA", "y", "btf")])["NUMA"].by == "btf"
    with pytest.raises(Contradiction, match=r"guest wants NUMA=y, but mine\.config:3 wants NUMA=n"):
        united([one, other])
    assert united([one, Wish("NUMA", "n", "--set")])["NUMA"].value == "n"
    assert united([one, other, Wish("NUMA", "m", "--set")])["NUMA"] == Wish("NUMA", "m", "--set")
    with pytest.raises(Contradiction, match="--set NUMA=y contradicts --set NUMA=n"):
        united([Wish("NUMA", "y", "--set"), Wish("NUMA", "n", "--set")])
    choices = {"HZ_100": ("HZ_100", "HZ_250"), "HZ_250": ("HZ_100", "HZ_250")}
    with pytest.raises(Contradiction, match=r"HZ_100 \(hz-100\) and HZ_250 \(hz-250\) exclude each other"):
        check_choices(united([Wish("HZ_100", "y", "hz-100"), Wish("HZ_250", "y", "hz-250")]), choices)
    check_choices(united([Wish("HZ_100", "y", "hz-100"), Wish("HZ_250", "n", "mine:1")]), choices)


@pytest.mark.parametrize("one, other, same", [
    ("y", "y", True), ("8", "0x8", True), ('"a"', "a", True), ("y", "m", False), ("8", "9", False), ("a", "1", False),
])  # fmt: skip
def test_values_that_are_the_same(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) is same


@pytest.mark.parametrize("word, wish", [
    ("HZ_1000=y", Wish("HZ_1000", "y", "--set")),
    ("CONFIG_LOCALVERSION=-a=b", Wish("LOCALVERSION", "-a=b", "--set")),
])  # fmt: skip
def test_a_symbol_by_hand(word: str, wish: Wish) -> None:
    assert parse_set(word) == wish


@pytest.mark.parametrize("word", ["HZ", "=y", "A-B=y", "A=", "A=x\ny"])
def test_what_is_no_symbol_by_hand(word: str) -> None:
    with pytest.raises(BadInput, match="expected SYMBOL=VALUE"):
        parse_set(word)


def test_patches_as_people_name_them() -> None:
    digest = "a" * 64
    assert parse_patch("x/bore.patch").sha256 is None
    found = parse_patch(f"https://example.org/bore.patch#sha256={digest}")
    assert (found.place, found.sha256, found.remote) == ("https://example.org/bore.patch", digest, True)
    for word, said in (
        ("https://example.org/bore.patch", "a download needs a SHA-256"),
        (f"http://example.org/x#sha256={digest}", "expected an https URL"),
        ("x#sha256=abc", "64 lower-case hexadecimal digits"),
        ("", "expected a file or an https URL"),
    ):
        with pytest.raises(BadInput, match=said):
            parse_patch(word)


@pytest.mark.parametrize("symbols", [{"CONFIG_A": "y"}, {"a b": "y"}, {"A": ""}, {"A": "y\nB=y"}])
def test_what_is_no_fragment(symbols: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        Fragment(what="x", symbols=symbols).check()

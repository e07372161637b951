# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from ktrial.kernels.config.make_config import ConfigRequest, check_held, configure
from ktrial.kernels.config.text import config_json, config_text, fragment_text, fragments_text
from ktrial.kernels.request import Fragment, Wish, wishes_of
from ktrial.kit.errors import Contradiction, Refused, UnknownName

LAZY = Fragment(what="Lazy.", name="lazy", symbols={"LAZY": "y", "GONE": "n"})
BORE = Fragment(what="BORE.", name="bore", symbols={"BORE": "y"}, patches={"BORE": "BORE, from its author"})


class Tree:
    """A tree in which LAZY brings RCU along and STUBBORN stays off."""

    types: Mapping[str, str] = {"LAZY": "bool", "NAME": "string"}
    names = ("LAZY", "RCU", "STUBBORN", "NAME", "HZ_100", "HZ_250")

    def choice(self, name: str) -> tuple[str, ...]:
        return ("HZ_100", "HZ_250") if name.startswith("HZ_") else ()

    def why(self, name: str, wanted: str, values: Mapping[str, str]) -> str:
        return f"{name} is stubborn"


class Work:
    def __init__(self) -> None:
        self.fragment = ""

    def base(self, word: str, version: str) -> tuple[str, Mapping[str, str]]:
        return f"/boot/{word}-{version}", {"HZ_250": "y"}

    def merged(self, fragment: str) -> Mapping[str, str]:
        self.fragment = fragment
        lines = [line.removeprefix("CONFIG_").partition("=") for line in fragment.splitlines() if "=" in line]
        held = {name: value for name, _, value in lines if name not in ("STUBBORN", "BORE")}
        more = {"RCU": "y"} if held.get("LAZY") == "y" else {}
        return {**({} if "HZ_100" in held else {"HZ_250": "y"}), **held, **more}

    @property
    def text(self) -> bytes:
        return self.fragment.encode()


def wanted(*fragments: Fragment, more: tuple[Wish, ...] = ()) -> ConfigRequest:
    wishes = [wish for one in fragments for wish in wishes_of(one, "x86_64")]
    return ConfigRequest(
        base="config",
        version="6.12.1",
        architecture="x86_64",
        compiler="gcc",
        fragments=fragments,
        wishes=[*wishes, *more],
    )


def test_every_symbol_is_read_back_and_what_came_along_is_told() -> None:
    work = Work()
    found = configure(wanted(LAZY, more=(Wish("NAME", "-x", "--set"),)), Tree(), work)
    check_held(found)
    assert work.fragment == 'CONFIG_LAZY=y\nCONFIG_NAME="-x"\n'
    assert [one.symbol for one in found.wishes] == ["LAZY", "NAME"]
    assert {one.symbol: one.symbol in found.asked for one in found.differences} == {
        "LAZY": True,
        "NAME": True,
        "RCU": False,
    }
    text = config_text(found, "build", width=80)
    assert "2 of 2 requested symbols are set as requested" in text
    assert "2 requested, 1 as a consequence" in text
    assert max(map(len, text.splitlines())) <= 80
    assert config_json(found, "build")["base"] == "/boot/config-6.12.1"


def test_what_did_not_hold_is_refused_with_its_reason() -> None:
    found = configure(wanted(more=(Wish("STUBBORN", "y", "--set"),)), Tree(), Work())
    with pytest.raises(Refused) as caught:
        check_held(found)
    assert caught.value.message == "Kconfig rejected 1 of 1 symbols:\n  STUBBORN=y (--set): STUBBORN is stubborn"
    assert "Not accepted:" in config_text(found, "build", width=80)


def test_a_symbol_of_a_patch_says_which() -> None:
    (unheld,) = configure(wanted(BORE), Tree(), Work()).unheld
    assert (unheld.got, unheld.why) == (None, "a patch adds it: BORE, from its author")


def test_a_symbol_that_nobody_has_is_a_mistake() -> None:
    with pytest.raises(UnknownName, match=r"unknown symbol of Linux 6\.12\.1 .*: 'LAZZY'") as caught:
        configure(wanted(more=(Wish("LAZZY", "y", "mine.config:3"),)), Tree(), Work())
    assert caught.value.hint == "did you mean LAZY?"


def test_choices() -> None:
    hundred = Fragment(what="100.", name="hz-100", symbols={"HZ_100": "y"})
    other = Fragment(what="250.", name="hz-250", symbols={"HZ_250": "y"})
    with pytest.raises(Contradiction, match="exclude each other"):
        configure(wanted(hundred, other), Tree(), Work())
    found = configure(wanted(other, more=(Wish("HZ_100", "y", "--set"),)), Tree(), Work())
    assert (found.symbols.get("HZ_100"), found.symbols.get("HZ_250"), found.unheld) == ("y", None, ())


def test_fragments_are_shown() -> None:
    assert fragment_text(LAZY) == "# lazy: Lazy.\nCONFIG_LAZY=y\n# CONFIG_GONE is not set\n"
    assert "lazy      2        Lazy." in fragments_text({"lazy": LAZY}, width=80)

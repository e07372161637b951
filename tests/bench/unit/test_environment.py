# SPDX-License-Identifier: Apache-2.0
"""What of the shell's environment reaches a command, and what of it is recorded."""

from __future__ import annotations

import re
from pathlib import Path

from ktrial.bench import environment

SALT, OTHER = b"1" * 32, b"2" * 32


def test_all_is_passed_but_what_is_pinned() -> None:
    shell = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "MODE": "fast", "LC_ALL": "de_DE", "TZ": "CET"}
    found = environment.passed_variables({**shell, "LANG": "de", "LC_TIME": "de", "TMPDIR": "/mine"}, SALT)
    assert found.environment == {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "MODE": "fast"}


def test_a_value_that_is_not_known_as_harmless_is_told_by_a_hash_of_this_installation() -> None:
    shell = {"API_TOKEN": "hunter2", "MALLOC_ARENA_MAX": "1"}
    found = environment.passed_variables(shell, SALT)
    recorded = environment.as_recorded({**found.environment, "LC_ALL": "C"}, found.told)
    assert recorded["MALLOC_ARENA_MAX"] == "1"
    assert recorded["LC_ALL"] == "C"
    assert re.fullmatch(r"salted:[0-9a-f]{4}:[0-9a-f]{12}", recorded["API_TOKEN"])
    assert environment.passed_variables(shell, SALT).told == found.told
    assert environment.passed_variables(shell, OTHER).told["API_TOKEN"] != found.told["API_TOKEN"]
    assert environment.passed_variables({"API_TOKEN": "hunter3"}, SALT).told["API_TOKEN"] != found.told["API_TOKEN"]
    assert environment.passed_variables({"OTHER_NAME": "hunter2"}, SALT).told["OTHER_NAME"] != found.told["API_TOKEN"]


def test_what_is_no_text_is_left_out_and_named() -> None:
    found = environment.passed_variables({"BAD": "\udcff", "GOOD": "ä"}, SALT)
    assert (found.environment, found.unreadable) == ({"GOOD": "ä"}, ("BAD",))


def test_what_each_terminal_has_of_its_own_makes_no_difference() -> None:
    assert environment.that_counts({"SHLVL": "2", "TERM": "xterm", "SSH_CONNECTION": "a", "MODE": "fast"}) == {
        "MODE": "fast"
    }


def test_hashes_are_compared_only_where_they_were_made_with_one_secret() -> None:
    def side(salt: bytes, value: str) -> tuple[str]:
        return (f"MODE=fast, TOKEN={environment.passed_variables({'TOKEN': value}, salt).told['TOKEN']}",)

    one = environment.of_one_salt({"a": side(SALT, "1"), "b": side(SALT, "2")})
    assert one["a"] != one["b"]
    assert environment.of_one_salt({"a": side(SALT, "1"), "b": side(OTHER, "1")}) == {
        "a": ("MODE=fast",),
        "b": ("MODE=fast",),
    }


def test_the_documentation_names_every_variable_whose_value_is_recorded() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "bench.md").read_text()
    assert {name for name in environment.SHOWN_VARIABLES if f"`{name}`" not in text} == set()

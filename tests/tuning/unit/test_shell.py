# SPDX-License-Identifier: Apache-2.0
"""Scripts are read, never run: what each construct comes to."""

from __future__ import annotations

import pytest

from ktrial.tuning.origin.formats import shell


def values(text: str) -> list[tuple[str, str | None]]:
    return [(item.name, item.value) for item in shell.parse(text, "s").assignments]


@pytest.mark.parametrize(
    "line, value",
    [
        ("echo 10 > /proc/sys/vm/x", "10"),
        ("echo -n 10 >/proc/sys/vm/x", "10"),
        ("echo 'a b' > /proc/sys/vm/x", "a b"),
        ('echo "a  b" > /proc/sys/vm/x', "a  b"),
        ("echo 10 > /proc/sys/vm/x 2>/dev/null || true", "10"),
        ("echo 1 1> /proc/sys/vm/x", "1"),
        ("> /proc/sys/vm/x echo 3", "3"),
        ("printf 10 > /proc/sys/vm/x", "10"),
        ("printf '%s\\n' 10 > /proc/sys/vm/x", "10"),
        ("echo 10 | sudo tee -a /proc/sys/vm/x >/dev/null", "10"),
        ("V=7; echo $V > /proc/sys/vm/x", "7"),
        ("V=7\necho ${V} > /proc/sys/vm/x", "7"),
        ("echo ${V:-8} > /proc/sys/vm/x", "8"),
        ("V=6; echo $((V * 1024 - (4 + 2))) > /proc/sys/vm/x", "6138"),
        ("echo $((-7 / 2)) > /proc/sys/vm/x", "-3"),
        ("D=/proc/sys; echo 1 > $D/vm/x", "1"),
        ("set_it() { echo $1 > /proc/sys/vm/x; }; set_it 9", "9"),
        ("function set_it {\n echo $1 > /proc/sys/vm/x\n}\nset_it 9", "9"),
        ("sudo sh -c 'echo 1 > /proc/sys/vm/x'", "1"),
        ("echo 1 \\\n  > /proc/sys/vm/x", "1"),
    ],
)
def test_one_write(line: str, value: str) -> None:
    assert values(line) == [("/proc/sys/vm/x", value)]


@pytest.mark.parametrize(
    "line",
    [
        "echo 1 2> /proc/sys/vm/x",
        "echo 1 > /dev/null",
        "echo 'echo 1 > /proc/sys/vm/x'",
        "# echo 1 > /proc/sys/vm/x",
        "sysctl vm.swappiness",
        "cat <<'END'\necho 1 > /proc/sys/vm/x\nEND",
    ],
)
def test_no_write(line: str) -> None:
    reading = shell.parse(line, "s")
    assert (reading.assignments, reading.unread) == ((), ())


@pytest.mark.parametrize(
    "line, reason",
    [
        ("echo $V > /proc/sys/vm/x", "$V is unknown"),
        ("echo $(nproc) > /proc/sys/vm/x", "the output of a command"),
        ("echo 1 > $F", "the target is unknown"),
        ("cat values > /proc/sys/vm/x", "writes unknown content"),
        ("sysctl --system", "loads other files"),
        (". ./other", "ktrial cannot see"),
        ("frobnicate 1", "frobnicate is not understood"),
        ("if [ a ]; then V=1; else V=2; fi; echo $V > /proc/sys/vm/x", "set under a condition"),
        ("echo $((1 / 0)) > /proc/sys/vm/x", "cannot compute"),
        ("sysctl -w vm.x=", "no value"),
    ],
)
def test_what_cannot_be_known_is_named(line: str, reason: str) -> None:
    reading = shell.parse("echo 1 > /proc/sys/vm/y\n" + line, "s")
    assert [item.name for item in reading.assignments] == ["/proc/sys/vm/y"]
    assert [item.line_number for item in reading.unread] == [2]
    assert reason in reading.unread[0].reason


def test_loops_are_unrolled_in_order_and_their_words_kept_together() -> None:
    text = "for d in a b; do echo $d > /sys/$d/x; done"
    assert values(text) == [("/sys/a/x", "a"), ("/sys/b/x", "b")]


def test_a_condition_holds_for_its_branch_only() -> None:
    text = "if [ -d /a ]; then echo 1 > /sys/x; else echo 2 > /sys/x; fi\necho 3 > /sys/x\n"
    found = shell.parse(text, "s").assignments
    assert [item.conditions for item in found] == [("[ -d /a ]",), ("unless [ -d /a ]",), ()]


def test_a_function_call_stands_at_its_own_line() -> None:
    found = shell.parse("f() {\n  echo $2 > $1\n}\n\nf /sys/x 5\n", "s").assignments
    assert [(item.line_number, item.text, item.value) for item in found] == [(5, "f /sys/x 5", "5")]

# SPDX-License-Identifier: Apache-2.0
"""Which faults are planted in Python, under which names, and that each is in the code that is loaded."""

from __future__ import annotations

import ast

import pytest

from mutation.mutant import Mutant
from mutation.operators import mutants, planted

FILE = "src/ktrial/x.py"


def faults(body: str) -> dict[str, str]:
    """What is planted in a function of this body, and the body with it."""
    source = f"def f(a, b, c=None):\n    {body}\n"
    found = {}
    for mutant in mutants(FILE, source):
        assert mutant[:2] == (FILE, "f")
        function = planted(FILE, source, mutant).body[0]
        assert isinstance(function, ast.FunctionDef)
        found[mutant.what] = "\n".join(map(ast.unparse, function.body))
    return found


@pytest.mark.parametrize(
    "body, what, after",
    [
        ("b = a < c <= 2", "`a < c <= 2`: < becomes <=", "b = a <= c <= 2"),
        ("b = a < c <= 2", "`a < c <= 2`: <= becomes <", "b = a < c < 2"),
        ("b = a is None", "`a is None`: is becomes is not", "b = a is not None"),
        ("b = a not in c", "`a not in c`: not in becomes in", "b = a in c"),
        ("b = a == 'lower'", "`'lower'`: becomes lowerx", "b = a == 'lowerx'"),
        ("b = a and c", "`a and c`: and becomes or", "b = a or c"),
        ("b = not a", "`not a`: without not", "b = a"),
        ("b = -a", "`-a`: without minus", "b = a"),
        ("b = a - c", "`a - c`: - becomes +", "b = a + c"),
        ("b = a / c", "`a / c`: / becomes *", "b = a * c"),
        ("b = 0.5", "`0.5`: becomes 1.5", "b = 1.5"),
        ("b = True", "`True`: becomes False", "b = False"),
        ("b = 1 if a(b) else 2", "`a(b)`: turned round", "b = 1 if not a(b) else 2"),
        ("b = [x for x in c if x]", "`x`: turned round", "b = [x for x in c if not x]"),
        ("return a", "`return a`: returns None", "return None"),
        ("a.sort()", "`a.sort()`: deleted", "pass"),
        ("a += 1", "`a += 1`: deleted", "pass"),
        ("raise a", "`raise a`: deleted", "pass"),
        ("return", "`return`: deleted", "pass"),
    ],
)
def test_a_fault_is_planted_and_named(body: str, what: str, after: str) -> None:
    assert faults(body)[what] == after


@pytest.mark.parametrize(
    "body", ["'''What it does.'''", "b = 'what a person reads'", "b = f'{a < c} of them'", "b: int | None", "b = a"]
)
def test_texts_and_types_are_left_alone(body: str) -> None:
    assert faults(body) == {}


def test_the_same_fault_twice_has_two_names() -> None:
    found = faults("b = a < c or (b, a < c)")
    assert found["`a < c`: < becomes <="] == "b = a <= c or (b, a < c)"
    assert found["`a < c`: < becomes <= (2)"] == "b = a < c or (b, a <= c)"


def test_methods_defaults_and_inner_functions_count_and_the_rest_of_the_module_does_not() -> None:
    source = """LIMIT = 3
class C:
    WORD = 4
    @decorated(5)
    def f(self, a=6) -> Literal[7]:
        def g():
            return 8
        return g
"""
    found = [(one.function, one.what) for one in mutants(FILE, source)]
    assert found == [
        ("C.f", "`6`: becomes 7"),
        ("C.f", "`return 8`: returns None"),
        ("C.f", "`8`: becomes 9"),
        ("C.f", "`return g`: returns None"),
    ]


def test_names_hold_when_other_functions_change() -> None:
    source = "def f(a):\n    return a + 1\n"
    assert mutants(FILE, source) == mutants(FILE, f"def e():\n    return 1\n\n\n{source}")[2:]


def test_what_stands_behind_a_minus_keeps_its_own_name() -> None:
    assert list(faults("b = -1")) == ["`-1`: without minus", "`1`: becomes 2"]


def test_a_long_piece_of_code_is_shortened() -> None:
    name = mutants(FILE, f"def f():\n    g({'1, ' * 100})\n")[0]
    assert name == Mutant(FILE, "f", "`g(" + ("1, " * 100)[:87] + "…`: deleted")

# SPDX-License-Identifier: Apache-2.0
"""The space of a search: what can vary, between which values, under which conditions and constraints."""

from __future__ import annotations

import math
import operator
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ktrial.kit.errors import BadInput, Contradiction, UnknownName
from ktrial.kit.toml import parse_bytes
from ktrial.studies.search.dimension_file import (
    BOOTED,
    KINDS,
    DimensionFile,
    booted_default,
    booted_value,
    booted_values,
    check_booted,
)

if TYPE_CHECKING:
    from numpy.random import Generator

Scalar = bool | int | float | str
Point = Mapping[str, Scalar]

#: A space with more points counts as endless.
MOST_COUNTED = 100_000
_HINT = "for example  low = 1  and  high = 100, or  values = [1, 10]; docs/search.md describes the file"
#: Random points among which at least one must satisfy all constraints.
_TRIES = 4000
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RULE = re.compile(r"(\S+)\s*(<=|>=|==|!=|<|>)\s*(\S.*)")
_PLACEHOLDER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class SpaceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A space as a person writes it. `files` maps placeholders to templates of configuration files."""

    name: str
    dimension: tuple[DimensionFile, ...]
    constraints: tuple[str, ...] = ()
    files: Mapping[str, str] = {}


class SpaceRule(NamedTuple):
    """A comparison of a dimension with another one, or with a value."""

    left: str
    sign: str
    right: Scalar
    #: Whether `right` names a dimension.
    is_name: bool

    @property
    def names(self) -> set[str]:
        """The dimensions that the rule is about."""
        return {self.left, str(self.right)} if self.is_name else {self.left}

    @property
    def text(self) -> str:
        return f"{self.left} {self.sign} {plain(self.right)}"

    def holds(self, point: Point) -> bool:
        left, right = point[self.left], point[str(self.right)] if self.is_name else self.right
        if _is_number(left) and _is_number(right):
            return _COMPARE[self.sign](float(left), float(right))
        return _COMPARE[self.sign](plain(left), plain(right))


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension on this machine. `default` is the control's value, which may lie outside of `values` or the range."""

    name: str
    kind: str
    default: Scalar
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    log: bool = False
    values: tuple[Scalar, ...] = ()
    when: tuple[SpaceRule, ...] = ()

    @property
    def is_range(self) -> bool:
        return self.low is not None

    @property
    def is_whole(self) -> bool:
        """Whether the range has whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int) and isinstance(self.step or 1, int)

    @property
    def count(self) -> int | None:
        """The number of values; None for a range of real numbers."""
        if not self.is_range:
            return len(self.values)
        assert self.low is not None, "a range has both ends"
        assert self.high is not None, "a range has both ends"
        if self.step is None and not self.is_whole:
            return None
        return int((self.high - self.low) / (self.step or 1) + 1e-9) + 1

    def takes(self, value: Scalar) -> bool:
        """Return whether the dimension can have this value; its default is always possible."""
        if value == self.default and type(value) is type(self.default):
            return True
        if not self.is_range:
            return any(one == value and isinstance(one, bool) == isinstance(value, bool) for one in self.values)
        assert self.low is not None, "a range has both ends"
        assert self.high is not None, "a range has both ends"
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        if self.is_whole and not isinstance(value, int):
            return False
        steps = (value - self.low) / (self.step or 1)
        return self.step is None or abs(steps - round(steps)) < 1e-9

    def place(self, value: Scalar) -> float:
        """Return where a value lies: from 0 to 1 in a range, or its number in a list.

        A default outside of the range or list lies beyond the end. A value that the kernel chose instead of a listed
        one also lies there, apart from all other values.
        """
        if not self.is_range:
            number = next((at for at, one in enumerate(self.values) if one == value), len(self.values))
            is_other = number == len(self.values) and value != self.default
            return number + 1 + zlib.crc32(plain(value).encode()) / 2**32 if is_other else float(number)
        assert self.low is not None, "a range has both ends"
        assert self.high is not None, "a range has both ends"
        if not isinstance(value, int | float):
            return 0.0
        low, high, at = float(self.low), float(self.high), float(value)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(at, low / 10))
        return min(max((at - low) / (high - low), -0.2), 1.2)

    def draw(self, rng: Generator) -> Scalar:
        if not self.is_range:
            return self.values[int(rng.integers(len(self.values)))]
        assert self.low is not None, "a range has both ends"
        assert self.high is not None, "a range has both ends"
        low, high = float(self.low), float(self.high)
        found = math.exp(rng.uniform(math.log(low), math.log(high))) if self.log else rng.uniform(low, high)
        if self.step is not None or self.is_whole:
            step = self.step or 1
            found = low + round((found - low) / step) * step
        found = min(max(found, low), high)
        return round(found) if self.is_whole else float(found)


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a search may try on this machine. `left_out` gives the reason for each omitted dimension."""

    name: str
    dimensions: tuple[Dimension, ...]
    constraints: tuple[SpaceRule, ...] = ()
    left_out: Mapping[str, str] = {}

    @property
    def control(self) -> dict[str, Scalar]:
        return {one.name: one.default for one in self.dimensions}

    @property
    def size(self) -> int | None:
        """The number of points if there were no conditions and constraints; None if there are too many to count."""
        total = 1
        for one in self.dimensions:
            if one.count is None:
                return None
            total *= one.count
            if total > MOST_COUNTED:
                return None
        return total

    def of(self, name: str) -> Dimension:
        return next(one for one in self.dimensions if one.name == name)

    def settled(self, point: Point) -> dict[str, Scalar]:
        """Return the point with the default of each dimension whose condition does not hold."""
        found = {**self.control, **point}
        for _ in self.dimensions:
            off = [
                one.name
                for one in self.dimensions
                if found[one.name] != one.default and not all(rule.holds(found) for rule in one.when)
            ]
            if not off:
                break
            found.update({name: self.of(name).default for name in off})
        return found

    def problem(self, point: Point) -> str | None:
        """Return why a point cannot be tried; None if it can."""
        for name, value in point.items():
            if name not in self.control:
                return f"{name} is not a dimension"
            if not self.of(name).takes(value):
                return f"{name} = {plain(value)} is not among its values"
        settled = self.settled(point)
        broken = next((rule for rule in self.constraints if not rule.holds(settled)), None)
        if broken is not None:
            return f"{broken.text} does not hold"
        return "it is the control" if settled == self.control else None

    def draw(self, rng: Generator) -> dict[str, Scalar] | None:
        """Return a random point that can be tried; None if none was found."""
        for _ in range(_TRIES):
            point = self.settled({one.name: one.draw(rng) for one in self.dimensions})
            if self.problem(point) is None:
                return point
        return None

    def changes(self, point: Point) -> dict[str, Scalar]:
        """Return the values of a point that differ from the control's."""
        return {name: value for name, value in self.settled(point).items() if value != self.control[name]}


def key_of(point: Point) -> tuple[tuple[str, str], ...]:
    """Return a key that is the same for equal points."""
    return tuple(sorted((name, plain(value)) for name, value in point.items()))


def plain(value: Scalar) -> str:
    """Return a value as the kernel or a command reads it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{Decimal(f'{value:.6g}'):f}" if isinstance(value, float) else str(value)


def parse_space(data: bytes, file: str) -> SpaceFile:
    """Return the content of a space file. Raise BadInput, with the name `file`, if the content is invalid."""
    found = parse_bytes(data, file, SpaceFile, "docs/search.md describes the file")
    try:
        check_space_file(found)
    except BadInput as error:
        raise BadInput(error.message, file=file, hint=error.hint) from None
    return found


def check_space_file(space: SpaceFile) -> None:
    """Raise BadInput if the space is invalid on every machine."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", space.name):
        raise BadInput(
            f"{space.name!r} is not a name for a space",
            hint="use at most 31 letters, digits and . _ -, beginning with a letter or digit",
        )
    if not space.dimension:
        raise BadInput("the space has no [[dimension]]", hint="add a [[dimension]], as in docs/search.md")
    names = [one.name for one in space.dimension]
    for number, one in enumerate(space.dimension, 1):
        if len(one.kinds) != 1:
            raise BadInput(
                f"[[dimension]] {number} needs exactly one of {', '.join(KINDS)}; "
                f"got {' and '.join(one.kinds) or 'none'}",
                hint='for example  knob = "vm.swappiness"',
            )
        if names.count(one.name) > 1:
            raise Contradiction(f"two dimensions are named {one.name}", hint="merge the two into one [[dimension]]")
        if one.kernel is None:
            _check_values(one)
    check_booted(space.dimension)
    for name in space.files:
        if name in names or not _PLACEHOLDER.fullmatch(name):
            raise BadInput(
                f"files: {name!r} is not a name for a template",
                hint="use letters, digits, _ and -, beginning with a letter, and not the name of a dimension",
            )
    for text in (*space.constraints, *(text for one in space.dimension for text in _conditions(one))):
        parse_rule(text, names)


def _check_values(one: DimensionFile) -> None:
    if one.placeholder is not None and not _PLACEHOLDER.fullmatch(one.placeholder):
        raise BadInput(
            f"placeholder: expected a name of letters, digits, _ and -, got {one.placeholder!r}",
            hint='for example  placeholder = "workers"  for {workers}',
        )
    if one.knob is None and one.default is None and one.kinds[0] not in BOOTED:
        raise BadInput(f"{one.name} has no default", hint="add  default = …  with the value that you use now")
    has_range = one.low is not None or one.high is not None
    if has_range == bool(one.values):
        raise BadInput(f"{one.name}: expected either low and high, or values", hint=_HINT)
    if one.values:
        texts = [plain(value) for value in one.values]
        if (twice := next((text for text in texts if texts.count(text) > 1), None)) is not None:
            raise Contradiction(f"{one.name} has {twice} twice in `values`", hint="leave out one of the two values")
        if given := " and ".join(["log"] * one.log + ["step"] * (one.step is not None)):
            raise Contradiction(f"{one.name}: {given} cannot be combined with `values`", hint=f"remove {given}")
        return
    if one.low is None or one.high is None or not one.low < one.high:
        low, high = ("nothing" if end is None else plain(end) for end in (one.low, one.high))
        raise BadInput(
            f"{one.name}: expected low below high, got low = {low} and high = {high}",
            hint="for example  low = 1  and  high = 100",
        )
    if one.log and one.low <= 0:
        raise BadInput(f"{one.name}: a logarithmic scale needs low above 0, got {one.low}", hint="for example  low = 1")
    if one.step is not None and not 0 < one.step <= one.high - one.low:
        raise BadInput(
            f"{one.name}: step = {plain(one.step)} does not fit between low and high",
            hint=f"use a step above 0 and at most {plain(one.high - one.low)}",
        )


def _conditions(one: DimensionFile) -> tuple[str, ...]:
    return (one.when,) if isinstance(one.when, str) else one.when


def parse_rule(text: str, names: Sequence[str]) -> SpaceRule:
    """Parse a condition or constraint such as `vm.dirty_background_ratio < vm.dirty_ratio`.

    `names` are the dimensions. Raise BadInput if the text is invalid or begins with another name.
    """
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"cannot read the rule {text!r}", hint='for example "vm.dirty_ratio > 5"')
    left, sign, right = match[1], match[2], match[3].strip("'\"")
    if left not in names:
        raise UnknownName("dimension", left, names, hint=f"begin the rule {text!r} with one of: {', '.join(names)}")
    if right in names:
        return SpaceRule(left, sign, right, is_name=True)
    if re.fullmatch(_NUMBER, right):
        number = float(right)
        return SpaceRule(left, sign, int(number) if number.is_integer() else number, is_name=False)
    if sign not in {"==", "!="}:
        raise BadInput(
            f"the rule {text!r} compares with {right!r}, which is not a number",
            hint="use == or !=, or compare with a number or a dimension",
        )
    return SpaceRule(left, sign, booted_value(left, {"true": True, "false": False}.get(right, right)), is_name=False)


def resolve_space(file: SpaceFile, defaults: Mapping[str, Scalar], left_out: Mapping[str, str]) -> Space:
    """Return the space with the control's values. Raise BadInput if fewer than two points remain.

    `defaults` has the control's values that the file does not name. `left_out` says why other dimensions cannot vary
    here.
    """
    names = [one.name for one in file.dimension if one.name not in left_out]
    dimensions = []
    for one in file.dimension:
        if one.name not in names:
            continue
        kind = one.kinds[0]
        default = one.default if kind not in BOOTED else booted_default(one)
        default = defaults[one.name] if default is None else default
        when = tuple(rule for rule in _rules(_conditions(one), names, file) if rule is not None)
        dimensions.append(
            Dimension(
                name=one.name,
                kind=kind,
                default=default,
                low=one.low,
                high=one.high,
                step=one.step,
                log=one.log,
                values=one.values if kind not in BOOTED else booted_values(one, default),
                when=when,
            )
        )
    rules = tuple(rule for rule in _rules(file.constraints, names, file) if rule is not None)
    return checked_space(Space(name=file.name, dimensions=tuple(dimensions), constraints=rules, left_out=left_out))


def _rules(texts: Iterable[str], names: Sequence[str], file: SpaceFile) -> Iterable[SpaceRule | None]:
    """Yield the rules; None for one about a dimension that is left out."""
    every = [one.name for one in file.dimension]
    for text in texts:
        rule = parse_rule(text, every)
        yield rule if rule.names <= set(names) else None


def checked_space(space: Space) -> Space:
    """Return the space. Raise BadInput if it has no point besides the control, or if its values give only one point."""
    from numpy.random import default_rng

    reasons = "; ".join(f"{name}: {why}" for name, why in space.left_out.items())
    if not space.dimensions:
        raise BadInput(
            f"cannot search {space.name}: none of its dimensions can vary on this machine"
            f"{f' ({reasons})' if reasons else ''}",
            hint="add a dimension that this machine has, with values that it accepts",
        )
    if all(one.count == 1 and one.values[0] == one.default for one in space.dimensions if not one.is_range) and not any(
        one.is_range for one in space.dimensions
    ):
        raise BadInput(
            f"cannot search {space.name}: it has only one point, the machine as it is", hint="add values, or a range"
        )
    if space.draw(default_rng(0)) is None:
        kind = "constraint" if space.constraints else "condition"
        rules = space.constraints or [rule for one in space.dimensions for rule in one.when]
        raise Contradiction(
            f"no point of {space.name} satisfies its {kind}s: {'; '.join(rule.text for rule in rules)}",
            hint=f"relax a {kind}, or allow more values",
        )
    if space.size == 1:
        raise BadInput(
            f"cannot search {space.name}: it has only one point",
            hint="add values, or a range; `ktrial try` measures a single setting",
        )
    return space


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def placeholders_in(text: str) -> tuple[str, ...]:
    """Return the names in braces, such as `workers` in `--workers {workers}`."""
    return tuple(dict.fromkeys(re.findall(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}", text)))


def fill(text: str, values: Mapping[str, Scalar]) -> str:
    """Return the text with the values of the placeholders; other braces stay."""

    def fill_word(found: re.Match[str]) -> str:
        return plain(values[found[1]]) if found[1] in values else found[0]

    return re.sub(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}", fill_word, text)

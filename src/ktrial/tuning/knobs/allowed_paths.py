# SPDX-License-Identifier: Apache-2.0
"""The paths of knobs as the agent has them: patterns, without values and meanings."""

from __future__ import annotations

from collections.abc import Iterable

from ktrial.tuning.knobs.knob import Knob, path_pattern

_HEAD = """\
# Made by docs/generate.py from the catalog's knobs. `write`: knobs; `read`: what is read beside them.
"""


def allowed_paths(knobs: Iterable[Knob]) -> str:
    """One line for each pattern: a word, a space, the pattern. A zram device is a step of its own, and only read."""
    written: set[str] = set()
    read: set[str] = set()
    for knob in knobs:
        (read if knob.kind == "zram" else written).update(map(path_pattern, knob.files))
        read.update(path_pattern(place) for place in (knob.effective, knob.offers) if place is not None)
    lines = [f"write {pattern}" for pattern in sorted(written)] + [
        f"read {pattern}" for pattern in sorted(read - written)
    ]
    return _HEAD + "".join(f"{line}\n" for line in lines)

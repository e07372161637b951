# SPDX-License-Identifier: Apache-2.0
"""The file patterns of knobs in the form that the agent reads."""

from __future__ import annotations

from collections.abc import Iterable

from ktrial.tuning.knobs.knob import Knob, path_pattern

_HEAD = """\
# Made by docs/generate.py from the catalog's knobs. `write`: knobs; `read`: what is read beside them.
"""


def allowed_paths(knobs: Iterable[Knob]) -> str:
    """Return one line per pattern: `write` or `read`, and the pattern. zram devices are only read, not written."""
    written: set[str] = set()
    read: set[str] = set()
    for knob in knobs:
        (read if knob.kind == "zram" else written).update(map(path_pattern, knob.files))
        read.update(path_pattern(place) for place in (knob.effective, knob.offers) if place is not None)
    lines = [f"write {pattern}" for pattern in sorted(written)] + [
        f"read {pattern}" for pattern in sorted(read - written)
    ]
    return _HEAD + "".join(f"{line}\n" for line in lines)

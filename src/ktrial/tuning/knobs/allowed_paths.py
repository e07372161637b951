# SPDX-License-Identifier: Apache-2.0
"""The file patterns of knobs, and their kernel arguments, in the form that the agent reads."""

from __future__ import annotations

from collections.abc import Iterable

from ktrial.tuning.knobs.knob import Knob, path_pattern

_HEAD = """\
# Made by docs/generate.py from the catalog's knobs. `write`: knobs; `read`: what is read beside them.
# `boot`: kernel arguments.
"""


def allowed_paths(knobs: Iterable[Knob]) -> str:
    """Return the agent's allow-list: `write PATTERN` or `read PATTERN` for files, `boot NAME` for kernel arguments.

    The agent may read, but not write, the files of zram devices.
    """
    written: set[str] = set()
    read: set[str] = set()
    words: set[str] = set()
    for knob in knobs:
        if knob.kind == "boot":
            words.add(knob.short_name)
        (read if knob.kind == "zram" else written).update(map(path_pattern, knob.files))
        beside = (knob.effective, knob.offers, knob.requires_choice)
        read.update(path_pattern(place) for place in beside if place is not None)
    lines = [f"write {pattern}" for pattern in sorted(written)] + [
        f"read {pattern}" for pattern in sorted(read - written)
    ]
    lines += [f"boot {word}" for word in sorted(words)]
    return _HEAD + "".join(f"{line}\n" for line in lines)

# SPDX-License-Identifier: Apache-2.0
"""Writes another value to every knob that a kernel's list shows, in a guest, and reads it back by the knob's rule."""

from __future__ import annotations

from dataclasses import dataclass

from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.value import active_text, offered, same_value
from tests.guests.system.kernels import PROLOGUE, Kernel, boot, output
from tests.guests.system.places import is_instance, knobs, places, recorded

SCRIPT = (
    PROLOGUE
    + """
while IFS='|' read number path new back; do
    message=$( { echo "$new" > "$path"; } 2>&1 )
    echo "$number|"$(cat "$path" 2>/dev/null)"|$message"
    { echo "$back" > "$path"; } 2>/dev/null
done <<'EOF'
@WRITES@
EOF
echo @END@
poweroff -f
"""
)


@dataclass(frozen=True)
class Write:
    """One write to try: another value than the current one, and the text that puts that back."""

    knob: Knob
    path: str
    new: str
    back: str


@dataclass(frozen=True)
class Result:
    """What became of a write: the file's text afterwards and what the shell said."""

    write: Write
    shown: str
    message: str

    @property
    def in_force(self) -> bool:
        """Whether the kernel took the value, under the knob's own rule."""
        now = active_text(self.write.knob, self.shown)
        rounded = self.write.knob.rule == "clamped" and now.isdigit()
        return not self.message and (rounded or same_value(self.write.knob, now, self.write.new))


def another(knob: Knob, shown: str) -> str | None:
    """A valid value that differs from the one in force; None where the list does not tell one."""
    now, spec = active_text(knob, shown), knob.value
    if spec.type == "feature" and now:
        return now.removeprefix("NO_") if now.startswith("NO_") else f"NO_{now}"
    if spec.type == "bool" and now:
        return "0" if now.lower() in {"1", "y", "true"} else "1"
    if spec.type == "choice":
        return next((word for word in offered(shown) if word != now), None)
    if spec.type == "mask":
        return "1"
    if spec.type == "int" and now[:1].isdigit():
        number = int(now, 0)
        lowest, highest = spec.min or 0, number + 1 if spec.max is None else spec.max
        near = (number - 1, number + 1, lowest, number * 2)
        return next((str(other) for other in near if other != number and lowest <= other <= highest), None)
    return None


def writes(name: str) -> list[Write]:
    """The writes that the recorded list `name` allows. zram is left out: it is set up in one step of its own."""
    catalog, found = load_catalog().knobs, recorded(name)
    tried: list[Write] = []
    for table in knobs():
        knob = catalog[table["id"]]
        paths = [path for place in places(table) for path in found if is_instance(path, place)]
        if knob.kind == "zram" or knob.takes_effect != "now" or not paths:
            continue
        new = another(knob, found[paths[0]])
        if new is not None:
            tried.append(Write(knob, paths[0], new, active_text(knob, found[paths[0]])))
    return tried


def carry_out(kernel: Kernel, tried: list[Write]) -> list[Result]:
    """Boots the kernel once and carries out all writes, each put back before the next."""
    lines = [f"{number}|{write.path}|{write.new}|{write.back}" for number, write in enumerate(tried)]
    results = []
    for line in output(boot(kernel, SCRIPT.replace("@WRITES@", "\n".join(lines)))):
        number, _, rest = line.partition("|")
        shown, _, message = rest.partition("|")
        if number.isdigit():
            results.append(Result(tried[int(number)], shown, message))
    return results

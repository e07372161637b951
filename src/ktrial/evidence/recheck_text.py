# SPDX-License-Identifier: Apache-2.0
"""What a recheck found, as text."""

from __future__ import annotations

from collections import Counter

from ktrial.evidence.differences import Rechecked
from ktrial.kit.tables import labelled, paragraph

#: More differences are in the JSON alone; of each kind as many are shown.
_MOST_OF_A_KIND = 12


def rechecked_text(found: Rechecked, *, width: int) -> str:
    """What was read, each difference, and the answer last."""
    lines = [labelled("file", found.file, width=width)]
    lines.append(labelled("runs", f"{found.runs}, {found.runs - len(found.unread)} read again", width=width))
    if found.question_sha256 is not None:
        lines.append(labelled("question", f"SHA-256 {found.question_sha256}", width=width))
        lines.append(labelled("outcomes", f"{found.outcomes} computed again", width=width))
    reasons = Counter(one.reason for one in found.unread)
    lines += [labelled("not read", f"{count} runs: {reason}", width=width) for reason, count in reasons.items()]
    lines += [labelled("note", note, width=width) for note in found.notes]
    shown: Counter[str] = Counter()
    for one in found.differences:
        shown[one.kind] += 1
        if shown[one.kind] <= _MOST_OF_A_KIND:
            lines += ["", paragraph(f"{one.where}", width=width), paragraph(one.told, width=width, indent="  ")]
    for kind, count in shown.items():
        if count > _MOST_OF_A_KIND:
            lines += ["", f"{count - _MOST_OF_A_KIND} more of the kind {kind}; --json has all"]
    count = len(found.differences)
    answer = "all equal" if not count else f"{count} difference{'s'[: count != 1]}"
    return "\n".join([*lines, "", answer]) + "\n"

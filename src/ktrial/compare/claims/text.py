# SPDX-License-Identifier: Apache-2.0
"""Checked claims as text: each with its status, the recomputed figure and the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ktrial.judge.model.claim import ClaimResult
from ktrial.kit.tables import clean, labelled, paragraph


def claims_text(results: Sequence[ClaimResult], source: str, *, width: int) -> str:
    parts = [paragraph(f"Claims of {clean(source)}", width=width)] if source else []
    parts += [
        "\n".join(
            (
                paragraph(one.claim, width=width),
                labelled("  status", one.status, width=width),
                labelled("  figure", one.recomputed, width=width),
                labelled("  why", one.why, width=width),
            )
        )
        for one in results
    ]
    counts = Counter(one.status for one in results)
    parts.append(", ".join(f"{count} {status}" for status, count in counts.items()))
    return "\n\n".join(parts) + "\n"

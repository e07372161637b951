# SPDX-License-Identifier: Apache-2.0
"""Tables of the page."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.kit.html_tags import Markup, Part, tag
from ktrial.reports.charts.drawing import Cast, Chart


def table(
    caption: Part,
    headers: Sequence[str],
    rows: Sequence[Sequence[Part]],
    *,
    numeric: Sequence[int] = (),
    long: Sequence[int] = (),
    stack: bool = False,
    classes: Sequence[str] = (),
) -> Markup:
    """Return a sortable table. `numeric` columns are right-aligned, `long` columns hold sentences.

    With `stack`, each row becomes a block on narrow screens. `classes` holds a class for each row.
    """
    kinds = ["n" if at in numeric else "t" if at in long else None for at in range(len(headers))]
    head = tag("tr", [tag("th", name, scope="col", class_=kind) for name, kind in zip(headers, kinds, strict=True)])
    lines = []
    for place, row in enumerate(rows):
        cells = [tag("th", row[0], scope="row")] if kinds[0] is None else [tag("td", row[0], class_=kinds[0])]
        for cell, kind, name in zip(row[1:], kinds[1:], headers[1:], strict=True):
            cells.append(tag("td", cell, class_=kind, data_h=name if stack else None))
        lines.append(tag("tr", cells, class_=classes[place] if classes else None))
    whole = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", head),
        tag("tbody", lines),
        class_="sort stack" if stack else "sort",
    )
    shown = caption if isinstance(caption, str) else headers[0]
    return tag("div", whole, class_="scroll", tabindex=0, role="group", aria_label=f"table: {shown}")


def twin(chart: Chart, cast: Cast) -> Markup:
    classes = []
    if chart.arm_column is not None:
        numbers = [
            cast.number(row[chart.arm_column]) if row[chart.arm_column] in cast.arms else 0 for row in chart.table.rows
        ]
        classes = [f"r{number}" for number in numbers]
    return table(chart.title, chart.table.headers, chart.table.rows, numeric=chart.table.numeric, classes=classes)

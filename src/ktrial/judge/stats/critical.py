# SPDX-License-Identifier: Apache-2.0
"""Critical indices of the group-sequential signed-rank procedure.

`CRITICAL[cap]` has a row for each of `ROWS`, and each row an index for each look up to that cap. The interval at a look
goes from the index-th smallest to the index-th largest Walsh average, from 0; None if nothing can be decided yet.
The rows spend `0.042 / row * (blocks / cap) ** 0.7` of the error and are nested: a smaller error never decides more.
They come from a simulation of the joint distribution of signed-rank sums under no difference; tests recompute them.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Every cap is also a look: a trial looks at all caps up to its own.
LOOKS = (7, 9, 12, 16, 20, 25, 30, 40, 50, 60)
#: The error of a row is 0.05/row. A number without its own row uses the next stricter one.
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20)
#: The error of the table row for one comparison; together with the fast path it is 0.05.
SPENT_BY_TABLE = 0.042

_NO = None
CRITICAL: Mapping[int, tuple[tuple[int | None, ...], ...]] = {
    7: ((1,), (0,), (_NO,), (_NO,), (_NO,), (_NO,), (_NO,), (_NO,), (_NO,), (_NO,), (_NO,), (_NO,)),
    9: (
        (1, 3),
        (0, 1),
        (_NO, 1),
        (_NO, 1),
        (_NO, 1),
        (_NO, 0),
        (_NO, 0),
        (_NO, 0),
        (_NO, 0),
        (_NO, 0),
        (_NO, _NO),
        (_NO, _NO),
    ),
    12: (
        (0, 3, 10),
        (_NO, 2, 8),
        (_NO, 1, 6),
        (_NO, 1, 5),
        (_NO, 0, 5),
        (_NO, 0, 4),
        (_NO, 0, 3),
        (_NO, 0, 2),
        (_NO, _NO, 2),
        (_NO, _NO, 2),
        (_NO, _NO, 2),
        (_NO, _NO, 2),
    ),
    16: (
        (0, 2, 9, 23),
        (_NO, 2, 7, 18),
        (_NO, 1, 5, 16),
        (_NO, 0, 5, 15),
        (_NO, 0, 4, 14),
        (_NO, 0, 3, 12),
        (_NO, 0, 2, 11),
        (_NO, _NO, 2, 11),
        (_NO, _NO, 2, 11),
        (_NO, _NO, 2, 11),
        (_NO, _NO, 2, 11),
        (_NO, _NO, 2, 8),
    ),
    20: (
        (0, 2, 8, 21, 40),
        (_NO, 2, 5, 17, 34),
        (_NO, 1, 4, 14, 31),
        (_NO, 0, 4, 14, 29),
        (_NO, 0, 3, 12, 28),
        (_NO, 0, 2, 11, 26),
        (_NO, _NO, 2, 11, 26),
        (_NO, _NO, 2, 11, 26),
        (_NO, _NO, 2, 11, 26),
        (_NO, _NO, 2, 11, 26),
        (_NO, _NO, 2, 9, 22),
        (_NO, _NO, 1, 9, 19),
    ),
    25: (
        (0, 1, 7, 20, 38, 72),
        (_NO, 1, 6, 16, 33, 63),
        (_NO, 0, 5, 15, 30, 58),
        (_NO, 0, 3, 13, 28, 56),
        (_NO, 0, 2, 11, 26, 53),
        (_NO, _NO, 2, 11, 26, 53),
        (_NO, _NO, 2, 11, 26, 53),
        (_NO, _NO, 2, 11, 26, 52),
        (_NO, _NO, 2, 11, 25, 49),
        (_NO, _NO, 2, 11, 24, 47),
        (_NO, _NO, 2, 8, 20, 42),
        (_NO, _NO, 1, 8, 17, 40),
    ),
    30: (
        (_NO, 2, 8, 20, 39, 71, 113),
        (_NO, 1, 5, 15, 32, 61, 101),
        (_NO, 0, 4, 14, 29, 58, 94),
        (_NO, 0, 2, 12, 27, 54, 90),
        (_NO, _NO, 2, 12, 27, 54, 90),
        (_NO, _NO, 2, 12, 27, 54, 87),
        (_NO, _NO, 2, 12, 26, 50, 84),
        (_NO, _NO, 2, 12, 24, 48, 81),
        (_NO, _NO, 2, 11, 23, 47, 80),
        (_NO, _NO, 2, 10, 23, 46, 78),
        (_NO, _NO, 1, 9, 19, 42, 73),
        (_NO, _NO, 1, 6, 17, 40, 70),
    ),
    40: (
        (_NO, 2, 7, 19, 36, 68, 109, 229),
        (_NO, 0, 5, 16, 31, 60, 98, 211),
        (_NO, 0, 3, 13, 27, 55, 92, 201),
        (_NO, _NO, 3, 13, 27, 55, 91, 196),
        (_NO, _NO, 3, 13, 25, 50, 86, 189),
        (_NO, _NO, 3, 11, 24, 49, 82, 185),
        (_NO, _NO, 3, 9, 23, 47, 80, 182),
        (_NO, _NO, 2, 9, 23, 47, 80, 182),
        (_NO, _NO, 2, 9, 22, 46, 78, 177),
        (_NO, _NO, 2, 9, 20, 44, 77, 174),
        (_NO, _NO, 1, 7, 18, 40, 71, 167),
        (_NO, _NO, 0, 7, 18, 38, 68, 162),
    ),
    50: (
        (_NO, 2, 6, 17, 35, 66, 106, 225, 384),
        (_NO, 0, 5, 14, 29, 58, 96, 207, 358),
        (_NO, 0, 2, 12, 26, 54, 90, 197, 343),
        (_NO, _NO, 2, 12, 26, 54, 90, 196, 336),
        (_NO, _NO, 2, 12, 26, 51, 84, 187, 327),
        (_NO, _NO, 2, 12, 23, 47, 81, 182, 322),
        (_NO, _NO, 2, 11, 21, 46, 79, 179, 316),
        (_NO, _NO, 2, 10, 20, 44, 78, 176, 313),
        (_NO, _NO, 2, 8, 20, 44, 76, 174, 310),
        (_NO, _NO, 2, 7, 20, 42, 74, 172, 306),
        (_NO, _NO, 1, 5, 17, 39, 69, 164, 294),
        (_NO, _NO, 0, 5, 17, 38, 68, 159, 287),
    ),
    60: (
        (_NO, 1, 6, 17, 34, 65, 105, 222, 378, 579),
        (_NO, 0, 4, 13, 29, 56, 94, 204, 353, 542),
        (_NO, _NO, 4, 13, 27, 53, 88, 195, 340, 525),
        (_NO, _NO, 4, 10, 24, 49, 84, 188, 330, 512),
        (_NO, _NO, 3, 10, 23, 47, 81, 183, 323, 502),
        (_NO, _NO, 2, 10, 23, 47, 80, 180, 318, 495),
        (_NO, _NO, 2, 10, 20, 44, 77, 177, 313, 489),
        (_NO, _NO, 2, 9, 19, 43, 75, 174, 308, 484),
        (_NO, _NO, 2, 8, 18, 41, 74, 171, 306, 480),
        (_NO, _NO, 1, 8, 18, 41, 74, 171, 304, 476),
        (_NO, _NO, 0, 7, 18, 38, 68, 162, 291, 461),
        (_NO, _NO, 0, 6, 14, 36, 64, 157, 283, 449),
    ),
}


def indices(cap: int, row: int) -> tuple[int | None, ...]:
    """Return an index for each look, at an error of 0.05/row or the next smaller one; empty beyond the last row."""
    place = next((place for place, one in enumerate(ROWS) if one >= row), None)
    return () if place is None or row < 1 else CRITICAL[cap][place]

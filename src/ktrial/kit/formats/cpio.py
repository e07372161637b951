# SPDX-License-Identifier: Apache-2.0
"""Reader of cpio archives in the "newc" format, from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktrial.kit.errors import BadInput

_MAGICS = (b"070701", b"070702")
_HEADER_BYTES = 110
_MODE, _SIZE, _NAME_SIZE = (slice(begin, begin + 8) for begin in (14, 54, 94))
_KIND, _REGULAR = 0o170000, 0o100000
_LAST = "TRAILER!!!"
_PIECE_BYTES = 1 << 20
_LONGEST_NAME = 1 << 16
_AGAIN = "copy or download the file again"


def files(
    read: Callable[[int], bytes], wanted: Callable[[str], bool], limit_bytes: int, source: str
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the regular files that `wanted` accepts.

    Raise BadInput for another kind of archive, a damaged archive, or an accepted file of more than `limit_bytes`.
    """
    at = 0
    while True:
        header = _exactly(read, _HEADER_BYTES, at, source)
        if header[:6] not in _MAGICS:
            raise BadInput(f"no cpio header (newc) at byte {at} of the unpacked archive", file=source, hint=_AGAIN)
        try:
            mode, size, length = (int(header[field], 16) for field in (_MODE, _SIZE, _NAME_SIZE))
        except ValueError:
            raise BadInput(
                f"the cpio header at byte {at} of the unpacked archive is damaged", file=source, hint=_AGAIN
            ) from None
        if not 0 < length <= _LONGEST_NAME:
            raise BadInput(
                f"the cpio entry at byte {at} of the unpacked archive has no name, or one that is too long",
                file=source,
                hint=_AGAIN,
            )
        rest = length + -(_HEADER_BYTES + length) % 4
        name = _exactly(read, rest, at, source)[: length - 1].decode("utf-8", "surrogateescape")
        if name == _LAST:
            return
        whole = size + -size % 4
        if mode & _KIND == _REGULAR and wanted(name):
            if size > limit_bytes:
                raise BadInput(
                    f"the file {name} in the archive is larger than {limit_bytes >> 20} MiB",
                    file=source,
                    hint="check that this is the right archive",
                )
            yield name, _exactly(read, whole, at, source)[:size]
        else:
            for begin in range(0, whole, _PIECE_BYTES):
                _exactly(read, min(_PIECE_BYTES, whole - begin), at, source)
        at += _HEADER_BYTES + rest + whole


def _exactly(read: Callable[[int], bytes], count: int, at: int, source: str) -> bytes:
    parts = []
    left = count
    while left:
        piece = read(left)
        if not piece:
            raise BadInput(
                f"the cpio entry at byte {at} of the unpacked archive is incomplete",
                file=source,
                hint=_AGAIN,
            )
        parts.append(piece)
        left -= len(piece)
    return b"".join(parts)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.guests import initramfs


def entries(archive: bytes) -> dict[str, tuple[int, bytes, tuple[int, int]]]:
    """Name -> mode, content, device of every entry; its number and links are checked on the way."""
    found: dict[str, tuple[int, bytes, tuple[int, int]]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * index : at + 14 + 8 * index], 16) for index in range(13)]
        mode, size, names = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + names - 1].decode()
        begin = at + (110 + names + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        assert name not in found
        found[name] = (mode, archive[begin : begin + size], (fields[9], fields[10]))
        at = begin + (size + 3) // 4 * 4


def test_what_is_in_a_guest() -> None:
    files = {
        "/bin/tool": b"tool",
        "/lib/x86_64-linux-gnu/libc.so.6": b"libc",
        "/opt/own/tool": b"own",
        "/ktrial/runs/3/": b"",
    }
    archive = initramfs.build(b"agent", b"{}", files, {"/usr/bin/[": "/bin/tool"})
    found = entries(archive)
    assert found["init"] == (0o100755, b"agent", (0, 0))
    assert found["ktrial/job.json"] == (0o100600, b"{}", (0, 0))
    assert found["usr/bin/tool"][1] == b"tool"
    assert found["usr/lib/x86_64-linux-gnu/libc.so.6"][1] == b"libc"
    assert found["opt/own/tool"][1] == b"own"
    assert found["ktrial/runs/3"] == (0o040777, b"", (0, 0))
    assert found["usr/bin/["] == (0o120777, b"/bin/tool", (0, 0))
    assert found["lib64"] == (0o120777, b"usr/lib64", (0, 0))
    assert found["dev/console"] == (0o020600, b"", (5, 1))
    assert found["dev/null"] == (0o020600, b"", (1, 3))
    names = list(found)
    for name in names:
        parent = name.rpartition("/")[0]
        assert not parent or names.index(parent) < names.index(name), name


def test_the_same_content_is_the_same_archive() -> None:
    one = initramfs.build(b"agent", b"{}", {"/a": b"1", "/b": b"2"})
    assert one == initramfs.build(b"agent", b"{}", {"/b": b"2", "/a": b"1"})
    assert one != initramfs.build(b"agent", b"{}", {"/a": b"1", "/b": b"3"})

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kernels.build.patch_files import families
from ktrial.kernels.build.patches import PatchMember, read_series
from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.formats.unified_diff import read_patch, strip_name

MAIL = b"""From 123 Mon Sep 17 00:00:00 2001
Subject: [PATCH] two files
---
 a | 2 +-
diff --git a/kernel/a.c b/kernel/a.c
index 1..2 100644
--- a/kernel/a.c
+++ b/kernel/a.c
@@ -1,3 +1,4 @@ int x;
 one
-two
+2
+2.5
 three
@@ -9 +10 @@
-nine
\\ No newline at end of file
+9
diff --git a/new b/new
new file mode 100644
--- /dev/null
+++ b/new
@@ -0,0 +1,2 @@
+first
+
diff --git a/old/x b/new/x
similarity index 100%
rename from old/x
rename to new/x
--
2.39.2
"""
PLAIN = b"--- linux/Makefile.orig\t2024-01-01\n+++ linux/Makefile\t2024-01-02\n@@ -1 +1 @@\n-a\n+b\n"


def test_files_and_hunks_of_a_mail() -> None:
    first, new, moved = read_patch(MAIL)
    assert first.names == ("a/kernel/a.c", "b/kernel/a.c")
    assert [(hunk.line, hunk.begin, len(hunk.lines)) for hunk in first.hunks] == [(9, 1, 5), (15, 9, 2)]
    assert first.added == "2\n2.5\n9\n"
    assert (new.names, new.added, new.link) == (("a/new", "b/new"), "first\n\n", False)
    assert (moved.mentioned, moved.hunks) == (("old/x", "new/x"), ())


def test_a_plain_diff() -> None:
    (only,) = read_patch(PLAIN)
    assert only.names == ("linux/Makefile.orig", "linux/Makefile")
    assert strip_name(only.names[1], 1) == "Makefile"


def test_two_files_of_a_plain_diff() -> None:
    assert [one.names[1] for one in read_patch(PLAIN + PLAIN.replace(b"Makefile", b"Kbuild"))] == [
        "linux/Makefile",
        "linux/Kbuild",
    ]


@pytest.mark.parametrize(
    "data, said",
    [
        (b"nothing\n", "it has no --- and +++"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "no --- and +++ lines precede it"),
        (b"--- a\n+++ b\n@@ -1,3 +1 @@\n-a\n", "the patch ends within the hunk"),
        (b"--- a\n+++ b\n@@ -1,2 +1 @@\n-a\n?b\n", "a line of a hunk"),
        (b"--- a\n+++ b\n@@ -1 +1,2 @@\n a\n b\n", "the hunk's header counts fewer"),
        (b"diff --git a/x b/x\nGIT binary patch\n", "changes a binary file"),
        (b"", "it is empty"),
    ],
)
def test_what_is_no_patch(data: bytes, said: str) -> None:
    with pytest.raises(UnreadableOutput) as caught:
        read_patch(data)
    assert said in caught.value.message


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_patch_is_read_or_refused(seed: int) -> None:
    random, broken = Random(seed), bytearray(MAIL)
    for _ in range(random.randint(1, 5)):
        at = random.randrange(len(broken))
        broken[at : at + random.randint(0, 9)] = random.randbytes(random.randint(0, 3))
    with contextlib.suppress(UnreadableOutput):
        assert all(one.names for one in read_patch(bytes(broken)))


def test_a_series() -> None:
    data = b"# order\nsched/bore.patch -p1 # why\n\n  bbr3.patch -p0\nlast#1.patch -pab\n"
    assert read_series(data) == (
        PatchMember("sched/bore.patch", 1),
        PatchMember("bbr3.patch", 0),
        PatchMember("last#1.patch", 1),
    )


@pytest.mark.parametrize(
    "data, said",
    [
        (b"../x.patch\n", "a path below the folder of the series"),
        (b"/etc/x.patch\n", "a path below the folder of the series"),
        (b"x.patch -R\n", "is not an option of a series"),
        (b"# nothing\n", "it names no patch"),
        (b"'x.patch\n", "the name of a patch"),
    ],
)
def test_what_is_no_series(data: bytes, said: str) -> None:
    with pytest.raises(UnreadableOutput) as caught:
        read_series(data)
    assert said in caught.value.message


@settings(max_examples=30)
@given(st.binary(max_size=80) | st.text(alphabet="ab./-p01# \n'", max_size=80).map(str.encode))
def test_any_series_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(UnreadableOutput):
        assert read_series(data)


@pytest.mark.parametrize(
    "path, text, said",
    [
        ("include/linux/sched/bore.h", '#define SCHED_BORE_VERSION  "6.8.0"\n', "BORE 6.8.0"),
        ("kernel/sched/bore.c", '#define SCHED_BORE_VERSION "5.9.6"\n', "BORE 5.9.6"),
        ("init/Kconfig", "config SCHED_BORE\n\tbool\n", "BORE"),
        ("net/ipv4/tcp_bbr.c", "#define BBR_VERSION\t\t3\n", "BBRv3"),
        ("net/ipv4/tcp_bbr.c", "#define BBR_SCALE 8\n", ""),
        ("init/Kconfig", "config CACHY\n\tbool\n", "CachyOS"),
        ("init/Kconfig", "config ZEN_INTERACTIVE\n", "Zen"),
        ("localversion-zen", "-zen2\n", "Zen zen2"),
        ("localversion-rt", "-rt12\n", "PREEMPT_RT rt12"),
        ("init/Kconfig", "config CACHYX\n", ""),
    ],
)
def test_families_by_what_they_put_into_files(path: str, text: str, said: str) -> None:
    assert ", ".join(map(str, families({path: text}))) == said

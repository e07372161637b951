# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.tuning.state.lock_holder import LockedFile, Process, holders, told_process

# As Linux 6.18 shows it; the last two wait for the first.
LOCKS = """\
1: FLOCK  ADVISORY  WRITE 21982 00:04:4026531834 0 EOF
1: -> FLOCK  ADVISORY  WRITE 21990 00:04:4026531834 0 EOF
1: -> FLOCK  ADVISORY  WRITE 21991 00:04:4026531834 0 EOF
2: POSIX  ADVISORY  WRITE 20670 fe:00:11214987 0 EOF
5: FLOCK  ADVISORY  WRITE 16803 fe:00:13034502 0 EOF
6: FLOCK  ADVISORY  READ 16804 fe:00:13034502 0 EOF
9: OFDLCK ADVISORY  READ -1 00:06:16 0 EOF
"""
KTRIAL = ("/w/.venv/bin/python", "-I", "-S", "/w/src/ktrial/__main__.py")


@pytest.mark.parametrize(
    "file, found",
    [
        (LockedFile(0, 4, 4026531834), (21982,)),
        (LockedFile(0xFE, 0, 13034502), (16803, 16804)),
        (LockedFile(0xFE, 0, 11214987), ()),
        (LockedFile(0xFE, 1, 13034502), ()),
    ],
)
def test_who_holds_a_lock_is_what_the_kernel_says(file: LockedFile, found: tuple[int, ...]) -> None:
    assert holders(LOCKS, file) == found


def test_a_shared_lock_is_told_from_one_that_excludes() -> None:
    file = LockedFile(0xFE, 0, 13034502)
    assert holders(LOCKS, file, "WRITE") == (16803,)
    assert holders(LOCKS, file, "READ") == (16804,)


@given(st.text(alphabet="0123456789abcdef: FLOCKWRITEDVSY->\n", max_size=200) | st.text(max_size=100))
def test_lines_of_any_kind_are_passed_over(text: str) -> None:
    assert holders(f"{text}\n{LOCKS}", LockedFile(0, 4, 4026531834))[-1] == 21982


@pytest.mark.parametrize(
    "words, environment, told",
    [
        ((), None, "process 7"),
        (("sleep", "10"), {"HOME": "/home/a"}, "process 7, `sleep 10`"),
        ((*KTRIAL, "demo"), None, "process 7, `ktrial demo`"),
        (
            (*KTRIAL, "demo"),
            {"HOME": "/home/a"},
            "process 7, `ktrial demo`, into /home/a/.local/state/ktrial/results.db",
        ),
        (
            (*KTRIAL, "demo"),
            {"HOME": "/home/a", "XDG_STATE_HOME": "/s"},
            "process 7, `ktrial demo`, into /s/ktrial/results.db",
        ),
        ((*KTRIAL, "demo"), {"KTRIAL_STORE": "/k.db", "HOME": "/home/a"}, "process 7, `ktrial demo`, into /k.db"),
        ((*KTRIAL, "--store", "/b.db", "demo"), None, "process 7, `ktrial --store /b.db demo`, into /b.db"),
        ((*KTRIAL, "demo", "--store=/b.db"), None, "process 7, `ktrial demo --store=/b.db`, into /b.db"),
        (("python3", "-I", "-m", "ktrial", "demo"), None, "process 7, `ktrial demo`"),
        (("/usr/bin/python3", "/usr/local/bin/ktrial", "demo", "--store"), None, "process 7, `ktrial demo --store`"),
    ],
)
def test_a_holder_is_told_with_its_command_and_store(
    words: tuple[str, ...], environment: dict[str, str] | None, told: str
) -> None:
    assert told_process(Process(pid=7, words=words, environment=environment)) == told


def test_user_and_start_are_told() -> None:
    found = told_process(Process(pid=7, user="alice", started="2026-11-22 14:52:03", words=("a",)))
    assert found == "process 7 of alice, since 2026-11-22 14:52:03, `a`"


@pytest.mark.parametrize(
    "store", ["postgresql://u:s3cret@host/db", "postgresql://host/db?password=s3cret&a=b", "host=h PASSWORD=s3cret"]
)
def test_a_password_is_not_told(store: str) -> None:
    told = told_process(Process(pid=7, words=(*KTRIAL, "demo"), environment={"KTRIAL_STORE": store}))
    given_ = told_process(Process(pid=7, words=(*KTRIAL, "--store", store)))
    assert "s3cret" not in told + given_
    assert "host" in told


def test_words_of_others_move_no_cursor_and_fill_no_screen() -> None:
    told = told_process(Process(pid=7, words=("\x1b[2Jx\n", "y" * 5000)))
    assert "\x1b" not in told
    assert "\n" not in told
    assert len(told) < 200


@given(
    st.lists(st.text(max_size=20), max_size=6), st.dictionaries(st.text(max_size=8), st.text(max_size=8)) | st.none()
)
def test_any_process_can_be_told(words: list[str], environment: dict[str, str] | None) -> None:
    assert told_process(Process(pid=7, words=tuple(words), environment=environment)).startswith("process 7")

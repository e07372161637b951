# SPDX-License-Identifier: Apache-2.0
"""The table of trial boots in `docs/boots.md` is that of the record; `KTRIAL_RECORD=1` rewrites it."""

from __future__ import annotations

import datetime
import tomllib
from typing import Any

import msgspec
import pytest

from tests.support.boot_attempts import read_attempts
from tests.support.boot_counts import (
    BEGIN,
    COUNTS,
    END,
    BootCount,
    bound_text,
    count_text,
    is_recording,
    read_counts,
    table,
    with_table,
)
from tests.support.debian_guest import CHECKOUT

PAGE = CHECKOUT / "docs" / "boots.md"


def count(**more: object) -> BootCount:
    one = BootCount(
        date=datetime.date(2026, 1, 2),
        commit="0123456789",
        firmware="grub-bios",
        loader="grub 2.06-13",
        kernel="6.1.0-13-amd64",
        userland="script",
        fault="panic",
        attempts=20,
        back=20,
        seconds=(31, 30),
    )
    return msgspec.structs.replace(one, **more)


def test_the_page_has_the_table_of_the_record() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert (page.count(BEGIN), page.count(END)) == (1, 1)
    made = with_table(page, read_counts(COUNTS.read_text(encoding="utf-8")))
    if is_recording():
        PAGE.write_text(made, encoding="utf-8")
    else:
        assert page == made, "KTRIAL_RECORD=1 with this test rewrites the table"


def events(*whats: str) -> list[dict[str, Any]]:
    why = {"why": ["the boot ended before it was found healthy"]}
    return [
        {"event": what, "entry": "ktrial-trial", "at": 10 * number, **(why if what == "failed" else {})}
        for number, what in enumerate(whats)
    ]


def test_only_an_attempt_that_was_started_and_ended_counts() -> None:
    whole = ("armed", "started", "failed")
    assert read_attempts(events(*whole, *whole), [])[:3] == (2, 2, (20, 20))
    assert read_attempts(events(*whole, *whole), ["registers"])[:3] == (2, 1, (20, 20))
    for other in (("armed", "failed"), ("armed", "fell-back"), ("armed", "started", "healthy"), ("armed",)):
        found = read_attempts(events(*whole, *other), [])
        assert (found.begun, found.back, len(found.trouble)) == (2, 1, 1)
    loader_passed_over = [{**one, "why": ["the boot loader did not start the entry"]} for one in events(*whole)]
    assert read_attempts(loader_passed_over, []).back == 0


def test_runs_are_summed_and_no_loader_hides_behind_another() -> None:
    shown = table([count(), count(back=19), count(fault="hang"), count(firmware="grub-efi", attempts=1, back=1)])
    assert "| grub-bios | panic | script | 40 | 39 |\n" in shown
    assert "| grub-bios | hang | script | 20 | 20 |\n" in shown
    assert "| grub-bios (grub 2.06-13) | 60 | 59 | 8 % |\n" in shown
    assert "| grub-efi (grub 2.06-13) | 1 | 1 | 100 % |\n" in shown


@pytest.mark.parametrize(
    "attempts, back, bound", [(60, 60, "5 %"), (3, 3, "100 %"), (2, 2, "100 %"), (20, 19, "22 %"), (5, 0, "100 %")]
)
def test_the_bound_of_failures(attempts: int, back: int, bound: str) -> None:
    assert bound_text(attempts, back) == bound


def test_what_is_added_can_be_read() -> None:
    one = count(loader='grub "2"\\')
    assert tomllib.loads(count_text(one))["back"] == 20
    assert read_counts(f"[[run]]\n{count_text(one)}") == [one]


@pytest.mark.parametrize("text", ["back = 21", "attempts = 0\nback = 0"])
def test_a_count_that_cannot_be_is_refused(text: str) -> None:
    lines = [line for line in count_text(count()).splitlines() if line.split(" = ")[0] not in text]
    with pytest.raises(msgspec.ValidationError):
        read_counts("[[run]]\n" + "\n".join([*lines, text]))

# SPDX-License-Identifier: Apache-2.0
"""The colours of arms and verdicts: they stand out from the page, also for people with colour deficiencies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from ktrial.reports.charts.drawing import MARKS, PAPER
from ktrial.reports.page.style import STYLE

#: Machado, Oliveira and Fernandes 2009, severity 1.0; applied to linear RGB.
SIGHTS = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
#: Distances in CIE L*a*b* (CIE 1976). 2.3 is just noticeable; marks are small, so arms must be 12 apart.
ARMS_APART = 12.0
#: `better` and `worse` mean opposite things.
VERDICTS_APART = 25.0
CONTRAST = 4.5


def colours(scheme: str, pattern: str) -> list[str]:
    part = {"light": 0, "dark": 1, "print": 2}[scheme]
    block = STYLE.split(":root {")[part + 1].split("}")[0]
    return re.findall(rf"--{pattern}: (#[0-9a-f]{{6}})", block)


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, sight: str) -> np.ndarray:
    seen = np.clip(np.array(SIGHTS[sight]) @ linear(colour), 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(to_xyz) @ seen / np.array([0.95047, 1.0, 1.08883])
    root = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def nearest(palette: Sequence[str], sight: str) -> float:
    seen = [lab(colour, sight) for colour in palette]
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))


def contrast(colour: str, paper: str) -> float:
    light, dark = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ linear(one)) for one in (colour, paper))[::-1]
    return (light + 0.05) / (dark + 0.05)


def test_the_distance_and_the_simulation_are_those_of_the_books() -> None:
    assert nearest(["#000000", "#ffffff"], "normal") == pytest.approx(100, abs=0.01)
    assert lab("#ff0000", "normal") == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    assert nearest(["#e41a1c", "#4daf4a"], "deuteranopia") < nearest(["#e41a1c", "#4daf4a"], "normal") / 2, "red, green"
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_arms_and_verdicts_differ_for_everybody(scheme: str, sight: str) -> None:
    arms = colours(scheme, r"arm-\d")
    assert len(arms) == 8
    assert nearest(arms, sight) >= ARMS_APART
    assert nearest(colours(scheme, "(?:better|worse)"), sight) >= VERDICTS_APART


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_every_colour_of_text_stands_out_from_the_page(scheme: str) -> None:
    (paper,) = colours(scheme, "paper")
    for colour in colours(scheme, r"(?:ink|muted|link|better|worse|equal|open|doubt|arm-\d)"):
        assert contrast(colour, paper) >= CONTRAST, colour


def test_pictures_have_the_colours_of_the_light_page() -> None:
    assert list(PAPER.arms) == colours("light", r"arm-\d") == colours("print", r"arm-\d")


def test_no_two_verdicts_have_one_mark() -> None:
    assert len(set(MARKS.values())) == len(MARKS)

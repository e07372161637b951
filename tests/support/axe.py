# SPDX-License-Identifier: Apache-2.0
"""Runs axe-core in the tests' browser. ktrial does not ship it: npm fetches it for the tests (licence: MPL-2.0)."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.chromium import Chromium

_PACKAGE = "axe-core@4.12.1"
_SHA512 = "s7iGf5GaVMxEG0ENN9x+xTr7GFZCb1ZP/1uATUpCEK2X78nDB3RwbtFCo9pGAf9ru+VwoQ464DkaLEeRM08wJA=="
#: Rules of WCAG 2.2 at levels A and AA, with the rules of earlier versions.
WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
#: These rules and axe-core's own recommendations.
RECOMMENDED = (*WCAG, "best-practice")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm, which fetches axe-core, is not installed")


def fetch_axe(folder: Path) -> str:
    """Return the script of axe-core, checked against its hash; npm keeps the package in its cache."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", "--prefer-offline", _PACKAGE],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert packed.returncode == 0, packed.stderr
    archive = folder / packed.stdout.split()[-1]
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == _SHA512
    with tarfile.open(archive) as opened:
        member = opened.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def violations(browser: Chromium, axe: str, tags: tuple[str, ...]) -> list[str]:
    """Return what axe-core finds in the open page: a line for each element, with the rule."""
    browser.value(f"{axe}; typeof axe.run")
    found = browser.value(
        f"axe.run(document, {{ runOnly: {list(tags)}, resultTypes: ['violations'] }})"
        ".then(found => found.violations.flatMap(rule => rule.nodes.map(node => "
        "`${rule.id}: ${node.target.join(' ')}: ${node.failureSummary.replace(/\\s+/g, ' ')}`)))"
    )
    assert isinstance(found, list)
    return found

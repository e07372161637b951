# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ktrial.kernels.build.signing import signing_variables

SIGNED = {
    "MODULE_SIG": "y",
    "MODULE_SIG_KEY": '"certs/signing_key.pem"',
    "MODULE_SIG_KEY_TYPE_ECDSA": "y",
}


def test_a_key_is_drawn_once_and_nobody_else_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "signing"
    told = signing_variables(SIGNED, folder)
    path = Path(told["CONFIG_MODULE_SIG_KEY"])
    assert (path.name, path.stat().st_mode & 0o777) == ("modules-ecdsa.pem", 0o600)
    assert folder.stat().st_mode & 0o777 == 0o700
    first = path.read_bytes()
    assert signing_variables(SIGNED, folder) == told
    assert path.read_bytes() == first
    assert list(folder.iterdir()) == [path]
    shown = subprocess.run(
        ["openssl", "x509", "-in", path, "-noout", "-subject", "-ext", "keyUsage"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Kernels built by ktrial" in shown
    assert "Digital Signature" in shown
    assert subprocess.run(["openssl", "pkey", "-in", path, "-noout"], check=False).returncode == 0


@pytest.mark.parametrize("key", ['""', '"/home/me/own.pem"', '"pkcs11:token=mine"', ""])
def test_a_key_of_ones_own_or_none_is_left_alone(key: str, tmp_path: Path) -> None:
    assert signing_variables({**SIGNED, "MODULE_SIG_KEY": key}, tmp_path / "signing") == {}
    assert not (tmp_path / "signing").exists()


def test_a_place_that_make_would_take_for_two_words_is_not_told(tmp_path: Path) -> None:
    assert signing_variables(SIGNED, tmp_path / "a b") == {}

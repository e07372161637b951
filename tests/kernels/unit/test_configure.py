# SPDX-License-Identifier: Apache-2.0
"""Where the base of a configuration is found. That Kconfig takes it is seen with real trees."""

from __future__ import annotations

import lzma
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktrial.kernels.build.make import Make
from ktrial.kernels.config.configure import Configuring
from ktrial.kernels.images.images import Images
from ktrial.kit.errors import BadInput, KtrialError
from tests.support.kernels import CONFIG, image, package


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configuring:
    def run(self: Make, *words: str, stdin: bytes | None = None, **more: str) -> bytes:
        return b""

    monkeypatch.setattr(Make, "run", run)
    return Configuring(tmp_path, {}, Images(tmp_path), tmp_path, tmp_path)


def base(work: Configuring, word: str, version: str = "6.12.117") -> tuple[str, Mapping[str, str]]:
    with work:
        return work.base(word, version)


def test_the_distributions_own_of_the_nearest_version(work: Configuring, tmp_path: Path) -> None:
    with pytest.raises(KtrialError, match="no distribution configuration in"):
        base(work, "distro")
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/config-6.1.0-9-amd64").write_text("CONFIG_OLD=y\n")
    assert base(work, "distro")[1] == {"OLD": "y"}
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    packed = tmp_path / f"usr/src/linux-config-6.12/config.{machine}_none_{machine}.xz"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(lzma.compress(b"CONFIG_NEW=y\n# CONFIG_X is not set\n"))
    assert base(work, "distro") == (str(packed), {"NEW": "y"})
    assert base(work, "distro", "6.1.50")[1] == {"OLD": "y"}


def test_a_file_an_image_and_a_package(work: Configuring, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(CONFIG)
    (tmp_path / "bzImage").write_bytes(image(config=CONFIG))
    (tmp_path / "kernel.deb").write_bytes(
        package({"boot/config-6.12.7-test": CONFIG, "boot/vmlinuz-6.12.7-test": image()})
    )
    for name in ("mine", "bzImage", "kernel.deb"):
        assert {"HZ": "250", "ZRAM": "m"}.items() <= base(work, str(tmp_path / name))[1].items()
    (tmp_path / "bare").write_bytes(image())
    with pytest.raises(KtrialError, match=r"cannot find the configuration of .*bare in the image"):
        base(work, str(tmp_path / "bare"))
    for text, said in ((b"HZ=250\n", "is not a line `CONFIG_NAME=VALUE`"), (b"\n", "it is empty")):
        (tmp_path / "mine").write_bytes(text)
        with pytest.raises(BadInput, match=said):
            base(work, str(tmp_path / "mine"))
    with pytest.raises(BadInput, match="no such configuration"):
        base(work, "olddefconfig")

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import gzip
from pathlib import Path

import pytest

from ktrial.kernels.images.images import Images, read_kernel
from ktrial.kernels.images.packages import unreadable_package
from ktrial.kit.errors import BadInput, UnknownName
from tests.support import kernels

IMAGE = kernels.image()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two kernels: one in /boot, one beside its modules."""
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6.12.7-test").write_bytes(IMAGE)
    (tmp_path / "boot/config-6.12.7-test").write_bytes(kernels.CONFIG)
    (tmp_path / "usr/lib/modules/6.1.0").mkdir(parents=True)
    (tmp_path / "usr/lib/modules/6.1.0/vmlinuz").write_bytes(IMAGE)
    return tmp_path


def test_installed_kernels_by_version(root: Path) -> None:
    images = Images(root, release="6.12.7-test")
    assert list(images.installed()) == ["6.12.7-test", "6.1.0"]
    found = images.find("running")
    assert found.image == IMAGE
    assert found.config == kernels.CONFIG
    assert images.find("6.1.0").config is None
    with pytest.raises(UnknownName) as caught:
        images.find("6.12.8-test")
    assert caught.value.nearest[0] == "6.12.7-test"
    with pytest.raises(BadInput, match=r"cannot find the image of the running kernel \(6\.9\.0\)"):
        Images(root, release="6.9.0").find("running")


def test_kernels_by_path(root: Path) -> None:
    images = Images(root / "nothing")
    assert images.find(str(root / "boot/vmlinuz-6.12.7-test")).config == kernels.CONFIG
    with pytest.raises(BadInput, match="this folder holds 2 kernels"):
        images.find(str(root))
    with pytest.raises(BadInput, match="no kernel in this folder"):
        images.find(str(root / "boot"))
    with pytest.raises(BadInput, match="no such file"):
        images.find("./missing")


def test_a_built_tree(tmp_path: Path) -> None:
    (tmp_path / "arch/x86/boot").mkdir(parents=True)
    (tmp_path / "arch/x86/boot/bzImage").write_bytes(IMAGE)
    (tmp_path / ".config").write_bytes(kernels.CONFIG)
    found = read_kernel(Images(tmp_path / "nothing"), str(tmp_path))
    assert (found.identity.hz, found.identity.config_from) == (250, str(tmp_path / ".config"))


def test_a_package_of_debian(tmp_path: Path) -> None:
    package = tmp_path / "linux-image.deb"
    package.write_bytes(
        kernels.package(
            {
                "boot/vmlinuz-6.12.7-test": IMAGE,
                "boot/config-6.12.7-test": kernels.CONFIG,
                "lib/modules/6.12.7-test/kernel/x.ko": b"module",
            }
        )
    )
    found = read_kernel(Images(), str(package))
    assert found.place == f"{package}:boot/vmlinuz-6.12.7-test"
    assert found.identity.hz == 250


@pytest.mark.parametrize(
    "content, why",
    [
        (kernels.package({"usr/share/doc/x": b"text"}), "no boot/vmlinuz-"),
        (kernels.package({"boot/vmlinuz-1": IMAGE})[:-200], "cannot read its files"),
        (b"!<arch>\nshort", "no ar member header"),
    ],
    ids=["without", "cut off", "damaged"],
)
def test_packages_that_hold_no_kernel(tmp_path: Path, content: bytes, why: str) -> None:
    package = tmp_path / "x.deb"
    package.write_bytes(content)
    with pytest.raises(BadInput, match=why):
        Images().find(str(package))


def test_an_error_of_the_disk_is_no_damage_of_the_package() -> None:
    failed = unreadable_package(OSError(errno.EIO, "Input/output error"), "x.deb")
    assert failed.message == "x.deb: cannot read its files: Input/output error"
    assert failed.hint == "check the disk and the permissions of the file"
    damaged = unreadable_package(OSError("its parts are out of order"), "x.deb")
    assert damaged.hint == "download the package again"


FILES = {
    "lib/modules/6.12.7-test/kernel/x.ko": b"module",
    "lib/modules/6.12.7-test/vmlinuz": IMAGE,
    "lib/modules/6.12.7-test/config": kernels.CONFIG,
}


@pytest.mark.parametrize("packing", ["gzip", "xz", "zstd", "bzip2"])
def test_an_rpm_package(packing: str, tmp_path: Path) -> None:
    package = tmp_path / "kernel-core.rpm"
    package.write_bytes(kernels.rpm(FILES, packing))
    found = read_kernel(Images(), str(package))
    assert found.place == f"{package}:lib/modules/6.12.7-test/vmlinuz"
    assert found.identity.hz == 250


@pytest.mark.parametrize("packing", ["zst", "xz", "gz", None])
def test_a_package_of_pacman(packing: str | None, tmp_path: Path) -> None:
    package = tmp_path / f"linux-6.12.7-1-x86_64.pkg.tar{'' if packing is None else '.' + packing}"
    files = {".PKGINFO": b"pkgname = linux\n", **{f"usr/{name}": content for name, content in FILES.items()}}
    package.write_bytes(kernels.packed_tar(files, packing))
    found = read_kernel(Images(), str(package))
    assert found.place == f"{package}:usr/lib/modules/6.12.7-test/vmlinuz"
    assert found.identity.hz == 250


@pytest.mark.parametrize(
    "name, content, why",
    [
        ("x.rpm", kernels.rpm({"usr/share/doc/x": b"text"}, "gzip"), "or lib/modules"),
        ("x.rpm", kernels.rpm(FILES, "gzip")[:-200], "cannot read its files|ends within"),
        ("x.rpm", kernels.rpm(FILES, "xz")[:-200], "cannot read its files|ends within"),
        ("x.rpm", kernels.rpm(FILES, "zstd")[:-200], "cannot read its files|ends within"),
        ("x.rpm", kernels.rpm(FILES, "gzip")[:100], "no RPM header at byte"),
        ("x.rpm", kernels.rpm(FILES, "gzip")[:160], "the RPM header at byte .* is incomplete"),
        ("x.rpm", kernels.rpm(FILES, "gzip", says="lzop"), "cannot unpack 'lzop'"),
        ("x.rpm", kernels.rpm(FILES, "gzip", form="drpm"), "expected a cpio archive, got 'drpm'"),
        (
            "x.rpm",
            kernels.rpm(FILES, "gzip", archive=b"no cpio" * 40),
            "no cpio header",
        ),
        ("x.rpm", kernels.rpm(FILES, "xz", says="zstd"), "cannot read its files"),
        ("x.pkg.tar.zst", kernels.packed_tar({"usr/x": b"text"}, "zst"), "or lib/modules"),
        ("x.pkg.tar.zst", kernels.packed_tar(FILES, "zst")[:-100], "cannot read its files"),
        ("x.pkg.tar", b"no archive" * 100, "cannot read its files"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_packages_of_others_that_hold_no_kernel(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    package = tmp_path / name
    package.write_bytes(content)
    with pytest.raises(BadInput, match=why):
        Images().find(str(package))


@pytest.mark.parametrize("name", ["Image", "vmlinuz.efi"])
def test_a_tree_built_for_arm64(name: str, tmp_path: Path) -> None:
    (tmp_path / "arch/arm64/boot").mkdir(parents=True)
    (tmp_path / "arch/arm64/boot" / name).write_bytes(
        kernels.flat() if name == "Image" else kernels.zboot(gzip.compress(kernels.flat()))
    )
    (tmp_path / ".config").write_bytes(kernels.CONFIG)
    found = read_kernel(Images(tmp_path / "nothing"), str(tmp_path))
    assert (found.identity.architecture, found.identity.config_from) == ("aarch64", str(tmp_path / ".config"))

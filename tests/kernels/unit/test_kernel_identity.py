# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from ktrial.kernels.identity import KernelFound
from ktrial.kernels.images.read_identity import identify
from ktrial.kernels.images.text import diff_json, diff_text, inspect_json, inspect_text, list_json, list_text
from tests.support import kernels


def found(name: str, **more: bytes) -> KernelFound:
    config = more.pop("beside", kernels.CONFIG)
    identity, symbols = identify(kernels.image(**more), name, config or None, "config")
    return KernelFound(name=name, place=name, identity=identity, symbols=symbols)


ONE = found("/boot/vmlinuz-1")
OTHER = found(
    "two", words=b"min_granularity_ns", beside=kernels.CONFIG.replace(b"HZ=250", b"HZ=1000") + b"CONFIG_NEW=y\n"
)


def test_a_kernel_in_80_columns() -> None:
    text = inspect_text(ONE, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "HZ             250\n" in text
    assert "scheduler      EEVDF\n" in text
    assert text.endswith("configuration  config, 4 symbols on\n")
    told = inspect_text(found("x", beside=b""), width=80)
    assert "HZ             unknown\n" in told
    assert "HZ, LTO and optimisation are unknown" in told


def test_what_two_kernels_differ_in() -> None:
    text = diff_text(ONE, OTHER, None, width=80)
    assert "scheduler  EEVDF      CFS" in text
    assert "2 symbols differ:" in text
    assert "NEW     -          y" in text
    told = diff_json(ONE, OTHER, {"vm.x": ("1", None)})
    assert told["identity"]["hz"] == {"before": 250, "after": 1000}
    assert [one.symbol for one in told["symbols"]] == ["HZ", "NEW"]
    assert told["sysctls"] == {"vm.x": {"before": "1", "after": None}}


def test_default_sysctls_that_differ() -> None:
    text = diff_text(ONE, OTHER, {"vm.x": ("1", None)}, width=80)
    assert "1 default sysctls differ:\n" in text
    assert "vm.x    1          -" in text
    assert "0 default sysctls differ.\n" in diff_text(ONE, ONE, {}, width=80)


def test_the_same_kernel_and_one_without_configuration() -> None:
    assert "The identities of the kernels are equal" in diff_text(ONE, ONE, None, width=80)
    assert "Their configurations are equal.\n" in diff_text(ONE, ONE, None, width=80)
    bare = found("bare", beside=b"")
    assert "Cannot compare the configurations: ktrial found none for bare" in diff_text(ONE, bare, None, width=80)
    assert diff_json(ONE, bare, None)["symbols"] is None


def test_json_is_versioned_and_complete() -> None:
    told = msgspec.json.decode(msgspec.json.encode(inspect_json(ONE, with_config=True)))
    assert (told["schema"], told["symbols"], told["config"]["HZ"]) == ("ktrial.kernel/1", 7, "250")
    assert "config" not in inspect_json(ONE, with_config=False)


def test_the_kernels_installed_here() -> None:
    kernels_here = {"6.1": "/boot/vmlinuz-6.1", "6.12": "/boot/vmlinuz-6.12"}
    assert "6.12     runs  /boot/vmlinuz-6.12" in list_text(kernels_here, "6.12", width=80)
    assert list_text({}, "6.13", width=80) == "The running kernel 6.13 has no image installed here.\n"
    assert [one["runs"] for one in list_json(kernels_here, "6.12")["kernels"]] == [False, True]

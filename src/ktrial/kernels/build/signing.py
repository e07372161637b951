# SPDX-License-Identifier: Apache-2.0
"""The key that signs the modules of kernels built here. It is generated once, so that builds stay reproducible.

A kernel's own build would generate a key in each folder, and put its certificate into the kernel.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ktrial.kernels.build.make import run

_SYMBOL, _DRAWN = "MODULE_SIG_KEY", "certs/signing_key.pem"
_ECDSA = "MODULE_SIG_KEY_TYPE_ECDSA"
_VARIABLE = "CONFIG_MODULE_SIG_KEY"
_REQUEST = """[req]
prompt = no
string_mask = utf8only
distinguished_name = name
x509_extensions = use
[name]
CN = Kernels built by ktrial
[use]
basicConstraints = critical,CA:FALSE
keyUsage = digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
_TYPES = {"rsa": ("rsa:4096",), "ecdsa": ("ec", "-pkeyopt", "ec_paramgen_curve:secp384r1")}


def signing_variables(symbols: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return make's variables that select a key in the private `folder`. Generate the key if it is missing.

    Return no variables if the build needs no key, the user chose a key, or the path of `folder` contains blanks.
    The configuration stays unchanged.
    """
    if symbols.get(_SYMBOL, "").strip('"') != _DRAWN or len(str(folder).split()) != 1:
        return {}
    kind = "ecdsa" if symbols.get(_ECDSA) == "y" else "rsa"
    path = folder / f"modules-{kind}.pem"
    if not path.is_file():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _draw(path, _TYPES[kind])
    return {_VARIABLE: str(path)}


def _draw(path: Path, kind: tuple[str, ...]) -> None:
    """Generate a key. If several builds do this at once, all use the key that is finished first."""
    with TemporaryDirectory(prefix="key-", dir=path.parent) as work:
        request, made = Path(work) / "request", Path(work) / "key.pem"
        request.write_text(_REQUEST, encoding="ascii")
        made.touch(mode=0o600)
        argv = ["openssl", "req", "-new", "-x509", "-nodes", "-utf8", "-sha256", "-days", "36500", "-batch"]
        argv += ["-config", str(request), "-newkey", *kind, "-outform", "PEM", "-out", str(made), "-keyout", str(made)]
        run(argv, {**os.environ, "LC_ALL": "C"}, None, "generating a module signing key with openssl")
        with contextlib.suppress(FileExistsError):
            os.link(made, path)

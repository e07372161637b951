# SPDX-License-Identifier: Apache-2.0
"""Reads the built-in fragments of kernel configurations: `kernels/fragments/NAME.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from ktrial.catalog.loader import Place, read_toml
from ktrial.catalog.model import BUILT_IN
from ktrial.domain.errors import BadInput
from ktrial.domain.kernel_request import Fragment


@cache
def load_fragments() -> Mapping[str, Fragment]:
    """All fragments by name."""
    found: dict[str, Fragment] = {}
    for path in sorted((BUILT_IN / "kernels" / "fragments").glob("*.toml")):
        fragment = msgspec.structs.replace(read_toml(path, Fragment), name=path.stem)
        try:
            fragment.check()
        except BadInput as error:
            raise Place(path, "$").mended(error) from None
        found[path.stem] = fragment
    return found

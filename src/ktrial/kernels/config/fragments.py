# SPDX-License-Identifier: Apache-2.0
"""Loads the built-in configuration fragments, `kernels/fragments/NAME.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from ktrial.kernels.request import Fragment
from ktrial.kit.errors import BadInput
from ktrial.kit.toml_files import BUILT_IN, Place, read_toml


@cache
def load_fragments() -> Mapping[str, Fragment]:
    found: dict[str, Fragment] = {}
    for path in sorted((BUILT_IN / "kernels" / "fragments").glob("*.toml")):
        fragment = msgspec.structs.replace(read_toml(path, Fragment), name=path.stem)
        try:
            fragment.check()
        except BadInput as error:
            raise Place(path, "$").mended(error) from None
        found[path.stem] = fragment
    return found

# SPDX-License-Identifier: Apache-2.0
"""JSON for people is written in one place, and all text goes through one stream."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ktrial"
ENCODERS = {"encode", "encode_lines", "encode_into", "Encoder", "dumps", "dump", "JSONEncoder", "format"}
#: Modules outside of cli and reports that write text for people.
WORDS = sorted({*SOURCE.rglob("*text.py")})
#: JSON that is not output: a request to an agent in a guest, and text inside a chart's own language.
OTHERWISE = {
    ("cli/shared/bisect.py", "dumps"),
    ("reports/charts/differences.py", "dumps"),
    ("reports/charts/response.py", "dumps"),
}


def _encoders(path: Path) -> list[tuple[str, ast.Call, ast.AST]]:
    """Return the calls that encode JSON, each with the node around it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ENCODERS:
            holder = ast.unparse(node.func.value)
            if holder in {"json", "msgspec.json", "strict_json"}:
                found.append((node.func.attr, node, above[node]))
    return found


def _is_key(call: ast.Call, outer: ast.AST) -> bool:
    """Return whether the call makes a key or a hash, in an order that does not change."""
    hashed = isinstance(outer, ast.Call) and ast.unparse(outer.func).startswith("hashlib.")
    return hashed or any(word.arg == "order" for word in call.keywords)


def test_who_writes_for_people_encodes_no_json() -> None:
    kept = set()
    for path in [*(SOURCE / "cli").rglob("*.py"), *(SOURCE / "reports").rglob("*.py"), *WORDS]:
        name = str(path.relative_to(SOURCE))
        for word, call, outer in _encoders(path):
            if (name, word) in OTHERWISE:
                kept.add((name, word))
                continue
            assert _is_key(call, outer), f"{name}:{call.lineno} encodes JSON: kit.plain_json does that"
        assert "from json import" not in path.read_text(encoding="utf-8"), name
        assert "from msgspec.json import" not in path.read_text(encoding="utf-8"), name
    assert kept == OTHERWISE


def test_only_drawings_go_past_the_plain_stream() -> None:
    """`bare` is the unfiltered stream; `__stdout__` would be one too."""
    users = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b__std(?:out|err)__\b", text), path
        if re.search(r"streams import .*\bbare\b|streams?\.bare\b", text):
            users.add(str(path.relative_to(SOURCE)))
    assert users == {"kit/streams.py"}

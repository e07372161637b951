# SPDX-License-Identifier: Apache-2.0
"""A copy of a profile holds all of it, and says what it was copied from."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktrial.kit.errors import BadInput
from ktrial.kit.toml_files import parse_toml
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.profile import Profile, Requirement, flatten
from ktrial.tuning.knobs.profile_copy import copy_profile, digest, origin_text
from ktrial.tuning.knobs.profile_toml import profile_toml
from tests.support.knobs import profile

CATALOG = load_catalog()


@pytest.mark.parametrize("name", sorted(one.name for one in CATALOG.profiles.values() if one.generated is None))
def test_a_copy_of_any_profile_reads_back_and_sets_the_same(name: str) -> None:
    copy = copy_profile(name, "mine", CATALOG.profiles, "1.2.3")
    assert parse_toml(profile_toml(copy), "mine.toml", Profile) == copy
    assert copy.extends == ()
    latest = {(one.knob, str(one.when)): one for one in flatten(name, CATALOG.profiles)}
    copied = {(one.knob, str(one.when)): one for one in flatten("mine", {**CATALOG.profiles, "mine": copy})}
    assert copied == latest


@pytest.mark.parametrize("one", CATALOG.profiles.values(), ids=lambda one: one.name)
def test_any_profile_is_written_as_it_was_read(one: Profile) -> None:
    assert parse_toml(profile_toml(one), "mine.toml", Profile) == one


def test_the_settings_notes_and_requirements_of_extended_profiles_are_in_the_copy() -> None:
    base = replace(
        profile("base", ("a.x", 1), ("a.y", 1)),
        notes=("of the base",),
        require=(Requirement({"all": ["memory.total >= 1"]}, "why"),),
    )
    child = replace(profile("child", ("a.x", 2), extends=("base",)), notes=("own",))
    copy = copy_profile("child", "mine", {"base": base, "child": child}, "1.2.3")
    assert [(one.knob, one.value) for one in copy.setting] == [("a.y", 1), ("a.x", 2)]
    assert (copy.notes, copy.require) == (("own", "of the base"), base.require)


def test_a_copy_says_when_its_original_has_changed() -> None:
    base, child = profile("base", ("a.x", 1)), profile("child", ("a.y", 2), extends=("base",))
    before = {"base": base, "child": child}
    copy = copy_profile("child", "mine", before, "1.2.3")
    assert origin_text(copy, before) == "copy of child (ktrial 1.2.3)"
    after = {"base": profile("base", ("a.x", 3)), "child": child}
    assert origin_text(copy, after) == "copy of child (ktrial 1.2.3), which has changed since"
    assert digest("child", before) != digest("child", after)
    assert origin_text(copy, {}) == "copy of child (ktrial 1.2.3), which the catalog no longer has"
    assert origin_text(child, before) is None


@pytest.mark.parametrize("name", ["stock", "distro"])
def test_a_computed_profile_cannot_be_copied(name: str) -> None:
    with pytest.raises(BadInput, match="computed on each machine"):
        copy_profile(name, "mine", CATALOG.profiles, "1.2.3")

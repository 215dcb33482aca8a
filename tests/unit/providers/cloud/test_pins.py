"""What a rented machine installs is pinned by hash, and is what the requirement lists ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from providers.cloud.images import table
from providers.cloud.trainer_wheel import PINNED, pinned, requirements
from scripts.pins import Environment, Pin, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

SOFTWARE = sorted(table().software)
_ENTRY = re.compile(r"[a-z0-9.-]+==[^ ;]+( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")
UNSEEN = "none of the requirement lists was changed without `make pins`"


def entries(name: str) -> Iterator[str]:
    """Each package of a pinned list in one line."""
    text = re.sub(r" \\\n +", " ", pinned(name))
    return (line for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize("name", SOFTWARE)
def test_each_package_has_a_version_and_hashes(name: str) -> None:
    found = list(entries(name))
    assert len(found) > 20
    assert all(_ENTRY.fullmatch(entry) for entry in found), found
    assert "://" not in pinned(name), "where it comes from is how pip is set up, not what the list says"


@pytest.mark.parametrize("name", SOFTWARE)
def test_the_pins_are_those_of_the_requirement_lists(name: str) -> None:
    have: dict[str, set[str]] = {}
    for entry in entries(name):
        package, _, version = re.split(" ", entry)[0].partition("==")
        have.setdefault(canonicalize_name(package), set()).add(version)
    lists = requirements(table().software[name].requirements)
    wanted = [Requirement(line) for line in lists.splitlines() if line and not line.startswith("#")]
    for requirement in wanted:
        assert have.get(canonicalize_name(requirement.name)) == {str(requirement.specifier)[2:]}, UNSEEN


def test_no_list_is_left_of_a_software_that_is_gone() -> None:
    assert sorted(path.stem for path in PINNED.iterdir()) == SOFTWARE


def test_an_entry_names_the_machines_that_it_is_for() -> None:
    intel, arm = Environment("3.12", "x86_64"), Environment("3.12", "aarch64")
    old = Environment("3.11", "x86_64")
    pins = {
        ("a", "1"): Pin({intel, arm, old}, {"1" * 64}),
        ("b", "1"): Pin({arm}, {"2" * 64}),
        ("c", "1"): Pin({old}, {"3" * 64}),
        ("d", "1"): Pin({arm, old}, {"4" * 64}),
    }
    text = as_text(table().software["jax-cpu"], pins, {intel, arm, old})
    wanted = [
        "a==1 \\",
        'b==1 ; platform_machine == "aarch64" \\',
        'c==1 ; python_version == "3.11" \\',
        'd==1 ; (platform_machine == "x86_64" and python_version == "3.11") or '
        '(platform_machine == "aarch64" and python_version == "3.12") \\',
    ]
    assert [line for line in text.splitlines() if "==1" in line] == wanted

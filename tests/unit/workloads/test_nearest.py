"""Suggestions for a misspelt name."""

from __future__ import annotations

import pytest

from workloads.nearest import nearest_names

PRESETS = ("vgg11", "vgg13", "vgg16", "vgg19", "mnist-cnn")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("vgg61", ["vgg16"]),
        ("vgg91", ["vgg19"]),
        ("mnistcnn", ["mnist-cnn"]),
        ("resnet", []),
    ],
)
def test_the_same_characters_in_another_order_come_first(value: str, names: list[str]) -> None:
    assert nearest_names(value, PRESETS) == names


def test_of_several_names_the_nearest_are_told() -> None:
    assert nearest_names("vgg1", PRESETS, 2) == nearest_names("vgg1", PRESETS, 4)[:2]
    assert len(nearest_names("vgg1", PRESETS, 4)) == 4

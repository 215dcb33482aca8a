"""Suggestions for a misspelt name."""

from __future__ import annotations

import pytest

from trainplan.workloads.nearest import nearest_names, same_name

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


@pytest.mark.parametrize(
    ("value", "names", "meant"),
    [
        ("google", ("aws", "gcp", "azure", "local"), "gcp"),
        ("Amazon", ("aws", "gcp", "azure", "local"), "aws"),
        ("AZURE", ("aws", "gcp", "azure", "local"), "azure"),
        ("tf", ("tensorflow", "jax", "torch"), "tensorflow"),
        ("mixed_bfloat16", ("fp32", "tf32", "amp_fp16", "amp_bf16"), "amp_bf16"),
        ("VGG 61", PRESETS, "vgg16"),
    ],
)
def test_capitals_and_the_words_of_others_are_understood(value: str, names: tuple[str, ...], meant: str) -> None:
    assert nearest_names(value, names) == [meant]


def test_a_name_without_capitals_and_dashes_is_the_same_unless_two_are() -> None:
    assert same_name("Mnist CNN", PRESETS) == "mnist-cnn"
    assert same_name("us-east1", ("us-east-1", "useast-1", "eastus")) is None


def test_of_several_names_the_nearest_are_told() -> None:
    assert nearest_names("vgg1", PRESETS, 2) == nearest_names("vgg1", PRESETS, 4)[:2]
    assert len(nearest_names("vgg1", PRESETS, 4)) == 4


def test_a_name_that_differs_in_a_number_alone_is_nearer_than_one_without_it() -> None:
    assert nearest_names("us-east-9", ["us-east", "us-east-2", "us-west-2"]) == ["us-east-2"]

"""The name that somebody means who types another one: in capitals, by another tool's word for it, or misspelt."""

from __future__ import annotations

from collections.abc import Iterable

_OTHER_WORDS = {
    **dict.fromkeys(("amazon", "amazonwebservices", "ec2"), "aws"),
    **dict.fromkeys(("google", "googlecloud", "gcloud", "gce"), "gcp"),
    **dict.fromkeys(("microsoft", "microsoftazure", "az"), "azure"),
    **dict.fromkeys(("laptop", "thismachine", "thiscomputer", "localhost"), "local"),
    **dict.fromkeys(("simulated", "simulation", "simulator"), "sim"),
    **dict.fromkeys(("tf", "keras"), "tensorflow"),
    "pytorch": "torch",
    **dict.fromkeys(("fp16", "float16", "half", "mixedfloat16", "amp"), "amp_fp16"),
    **dict.fromkeys(("bf16", "bfloat16", "mixedbfloat16"), "amp_bf16"),
    **dict.fromkeys(("float32", "single", "full"), "fp32"),
    "tensorfloat32": "tf32",
    **dict.fromkeys(("lr", "learnrate"), "learning_rate"),
    **dict.fromkeys(("wd", "decay", "l2"), "weight_decay"),
    **dict.fromkeys(("batch", "bs", "batchsize"), "global_batch_size"),
    **dict.fromkeys(("numepochs", "nepochs"), "epochs"),
    **dict.fromkeys(("numclasses", "nclasses"), "classes"),
    **dict.fromkeys(("imgsize", "inputsize", "resolution", "imagesize"), "image_size"),
    **dict.fromkeys(("architecture", "arch", "network", "net"), "preset"),
    **dict.fromkeys(("mobilenet", "mobilenetv3"), "mobilenet_v3_large"),
    "inception": "inception_v3",
    **dict.fromkeys(("squeezenet", "squeezenet11"), "squeezenet1_1"),
    **dict.fromkeys(("convnext", "convnextt"), "convnext_tiny"),
    **dict.fromkeys(("resnet", "resnet50v1"), "resnet50"),
    "densenet": "densenet121",
    "efficientnet": "efficientnet_b0",
    "lenet5": "lenet",
    **dict.fromkeys(("dataset", "datasets"), "data"),
    **dict.fromkeys(("folder", "dir", "directory", "datadir"), "path"),
    **dict.fromkeys(("scheduler", "lrschedule"), "schedule"),
    **dict.fromkeys(("budget", "maxcost"), "budget_usd"),
    "ondemand": "on_demand",
    "preemptible": "spot",
}
"""What other tools and people call our names, by `plain` spelling."""


def plain(name: str) -> str:
    """A name without capitals, blanks, dashes and underscores: what is left of `CIFAR-10` and `cifar10` is the same."""
    return "".join(letter for letter in name.casefold() if letter not in "-_ ")


def same_name(value: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `value` but for capitals, blanks, dashes and underscores; None: none, or several."""
    alike = [name for name in names if plain(name) == plain(value)]
    return alike[0] if len(alike) == 1 else None


def other_word(name: str) -> str:
    """What another tool or a person calls so is called here; "" where nothing is known to be."""
    return _OTHER_WORDS.get(plain(name), "")


def nearest_names(value: str, names: Iterable[str], most: int = 1) -> list[str]:
    """At most `most` of `names`, the nearest first; none where nothing is similar.

    What another tool calls a name is that name. A name with the same characters in another order comes first: `vgg61`
    is meant for vgg16, and no nearer to it than to vgg19 for difflib. Then come those that differ in a number alone:
    `us-east-9` is meant for us-east-1 or us-east-2, not for us-east.
    """
    import difflib  # costs 5 ms, and only a mistake needs it

    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain(name), name)
    key = plain(value)
    other = other_word(value)
    if other in by_plain.values():
        return [other]
    if key in by_plain:
        return [by_plain[key]]
    near = difflib.get_close_matches(key, list(by_plain), n=max(most, 5), cutoff=0.5)
    near.sort(key=lambda name: (sorted(name) != sorted(key), _numberless(name) != _numberless(key)))
    return [by_plain[name] for name in near[:most]]


def _numberless(name: str) -> str:
    """The name with 0 in the place of every digit."""
    return "".join("0" if letter.isdigit() else letter for letter in name)

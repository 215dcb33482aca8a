"""What a file or folder is for by the words of its name: training, validation or testing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Use(StrEnum):
    """Of a validation and a test set the validation set is the hold-out: it comes first here."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


_USES = {
    **dict.fromkeys(("train", "training"), Use.TRAIN),
    **dict.fromkeys(
        ("validation", "validate", "valid", "val", "dev", "eval", "evaluation", "holdout", "heldout"), Use.VALIDATION
    ),
    **dict.fromkeys(("test", "testing"), Use.TEST),
}
# What stands beside such a word in the name of a set, and tells nothing of a class.
_PLAIN = frozenset(
    {
        *("set", "sets", "data", "dataset", "datasets", "split", "splits", "part", "parts", "folder", "folders", "dir"),
        *("image", "images", "img", "imgs", "picture", "pictures", "pic", "pics", "photo", "photos", "file", "files"),
        *("sample", "samples", "example", "examples", "record", "records", "shard", "shards", "x", "y", "v"),
        *("full", "final", "all", "new", "clean", "orig", "original", "raw", "resized", "small", "large"),
    }
)
_COMPOUNDS = tuple(sorted(_USES, key=len, reverse=True))


@dataclass(frozen=True, slots=True)
class NamedUse:
    """`words` are those of the name that say a use, by the use.

    `is_plain`: no other word says more than that it is data. `is_exact`: there is no other word and no number.
    """

    words: dict[Use, str]
    is_plain: bool
    is_exact: bool

    @property
    def use(self) -> Use | None:
        """The one use that it says; None where it says none or several."""
        return next(iter(self.words)) if len(self.words) == 1 else None


def named_use(name: str) -> NamedUse:
    """Read the words of a name: `train_images`, `seg_test`, `ValidationSet`, `trainset`, `val2017`, `hold-out`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    joined = re.sub(r"h(o|e)ld[\s_-]?out", r"h\1ldout", spaced, flags=re.IGNORECASE).lower()
    words: dict[Use, str] = {}
    others = 0
    for word in re.findall(r"[^\W\d_]+", joined):
        use_word = _word_of_use(word)
        if use_word is not None:
            words.setdefault(_USES[use_word], use_word)
        elif word not in _PLAIN:
            others += 1
    is_exact = joined.strip() in _USES
    return NamedUse(words, is_plain=not others, is_exact=is_exact)


def _word_of_use(word: str) -> str | None:
    """`train` of train and trainset, `test` of imgtest; None of a word that merely begins or ends so."""
    if word in _USES:
        return word
    for use_word in _COMPOUNDS:
        if (word.startswith(use_word) and word[len(use_word) :] in _PLAIN) or (
            word.endswith(use_word) and word[: -len(use_word)] in _PLAIN
        ):
            return use_word
    return None

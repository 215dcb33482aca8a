"""What the words of a name say of a folder's or a file's use."""

from __future__ import annotations

from tests.rows import each_row
from trainplan.workloads.data_folder.uses import Use, named_use


@each_row(
    ("name", "use"),
    [
        ("train_images", Use.TRAIN),
        ("seg_train", Use.TRAIN),
        ("Training Set", Use.TRAIN),
        ("TrainImages", Use.TRAIN),
        ("trainset", Use.TRAIN),
        ("imgs-train-2", Use.TRAIN),
        ("xtrain", Use.TRAIN),
        ("validation2017", Use.VALIDATION),
        ("val_images", Use.VALIDATION),
        ("valid.v2", Use.VALIDATION),
        ("hold-out", Use.VALIDATION),
        ("HeldOut", Use.VALIDATION),
        ("test_set", Use.TEST),
        ("testdata", Use.TEST),
        ("toys/1.0.0/toys-test.tfrecord-00000-of-00001", Use.TEST),
        ("interval", None),
        ("constrained", None),
        ("testarossa", None),
        ("devil", None),
        ("train_val", None),
    ],
)
def test_words_say_a_use(name: str, use: Use | None) -> None:
    assert named_use(name).use is use


def test_a_name_may_say_two_uses() -> None:
    assert set(named_use("train_test_split").words) == {Use.TRAIN, Use.TEST}


def test_plain_names_say_no_more_than_that_it_is_data() -> None:
    assert [named_use(name).is_plain for name in ("train", "train_images", "val2017", "bullet_train")] == [
        *(True, True, True, False)
    ]
    assert [named_use(name).is_exact for name in ("train", "Train", "val2017", "train_images")] == [
        *(True, True, False, False)
    ]

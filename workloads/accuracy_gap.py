"""How far the accuracy on test images is from that on the training images, and what the difference points at."""

from __future__ import annotations

GAP = 0.25
"""Of the shares of 1: a difference that a person is told of."""
_LITTLE = 0.05


def accuracy_notes(
    accuracy: float, most_frequent: float | None, training: float | None, training_tested: float | None
) -> tuple[str, ...]:
    """Sentences on an accuracy on test images that is not what it seems, or not what it could be; all are shares of 1.

    `most_frequent`: the share of the commonest class. `training`: on the training images, while the network trained.
    `training_tested`: the same after training, as test images are tested; None where the two hardly differ.
    """
    notes = []
    if most_frequent is not None and accuracy <= most_frequent:
        learned = training is not None and training > most_frequent + _LITTLE
        end = "" if learned else ": nothing was learned"
        notes.append(f"no better than always guessing the commonest class ({most_frequent:.2%}){end}")
    if training is None:
        return tuple(notes)
    if training - accuracy > GAP:
        notes.append(_worse_than_training(training, training_tested))
    elif accuracy - training > GAP:
        notes.append(
            f"only {training:.2%} on the training images: augmentation or dropout made them much harder, or test "
            "images are copies of training images (plan data check finds those)"
        )
    return tuple(notes)


def _worse_than_training(training: float, training_tested: float | None) -> str:
    if training_tested is not None and training - training_tested > GAP:
        return (
            f"{training:.2%} on the training images while training, and {training_tested:.2%} on the same images "
            "afterwards: the network computes differently once trained (averages of batch norm, or layers of your own)"
        )
    return (
        f"{training:.2%} on the training images: the network fits these and not others (over-fitting). More images, "
        "augment, weights of another training or a smaller network help"
    )

"""A small convolutional net with Keras, on images made up here: ten patterns under noise.

Three lines are there for plan: they say how fast it trains, write checkpoints, and go on from the newest one.
"""

# /// script
# [tool.trainplan]
# checkpoints = true
# constraints = {deadline = "30m"}
# ///
import argparse

import keras
import numpy as np
import trainplan_run  # line 1

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--images", type=int, default=512)
options = parser.parse_args()

numbers = np.random.default_rng(7)
patterns = numbers.uniform(size=(10, 16, 16, 3))
labels = numbers.integers(0, 10, options.images)
images = (patterns[labels] + numbers.normal(scale=0.5, size=(options.images, 16, 16, 3))).astype("float32")

keras.utils.set_random_seed(7)
model = keras.Sequential(
    [
        keras.layers.Input((16, 16, 3)),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(), loss, metrics=["accuracy"])
model.fit(
    images,
    labels,
    batch_size=32,
    epochs=options.epochs,
    shuffle=False,
    verbose=0,
    initial_epoch=trainplan_run.keras_resume(model),  # line 2
    callbacks=[trainplan_run.keras_callback(images=32)],  # line 3
)
model.save("model.keras")

"""What several devices of TensorFlow need to train as one: common batch norm, masks of their own, batches in parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.workers import over_processes

if TYPE_CHECKING:
    from trainplan.workloads.trainer.counts import Confusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Several devices of `processes` under a strategy of `tensorflow`; each trains its share of a batch in `parts`."""

    tensorflow: Any
    parts: int = 1
    processes: int = 1

    def model(self, keras: Any) -> Any:
        """The class of the model that is trained."""
        base = model_class(keras, self)
        return base if self.processes == 1 else over_processes(base, keras, self.tensorflow, self.processes)

    def dropout(self, keras: Any) -> Any:
        """The class of dropout layers."""
        return independent_dropout(keras, self)

    def batch_norm(self, keras: Any) -> Any:
        """What makes batch norm layers, which see the images of all devices."""
        return partial(keras.layers.BatchNormalization, synchronized=True)

    def whole(self, counts: Confusion) -> Confusion:
        """What all devices have counted: TensorFlow sums it where it is read."""
        return counts


def independent_dropout(keras: Any, replicas: Replicas) -> Any:
    """A class of Keras layers: dropout whose masks differ from device to device.

    Keras 3 draws with a state that all devices share and would give all of them one mask. Its state counts on as
    Keras' own does, so that a checkpoint of several devices serves one device too.
    """
    if not hasattr(keras, "ops"):
        return keras.layers.Dropout
    return _independent_dropout(keras, replicas.tensorflow)


@cache
def _independent_dropout(keras: Any, tf: Any) -> Any:
    class IndependentDropout(keras.layers.Dropout):  # type: ignore[misc]
        def call(self, inputs: Any, training: bool = False) -> Any:
            if not training or self.rate == 0:
                return inputs
            context = tf.distribute.get_replica_context()
            device = 0 if context is None else context.replica_id_in_sync_group
            state = tf.cast(self.seed_generator.next(), tf.int32)
            # Folded by a hash, as JAX does it: nearby seeds give unrelated masks.
            seed = tf.random.experimental.stateless_fold_in(state, device)
            return tf.nn.experimental.stateless_dropout(inputs, rate=self.rate, seed=seed)

    return IndependentDropout


def model_class(keras: Any, replicas: Replicas) -> Any:
    """Keras' own model class, or one that trains each batch in parts, one after another, for one step of the optimizer.

    The latter is for several devices of TensorFlow: Keras' own gradient accumulation decides at each part whether it is
    the last, and what gathers gradients from several devices must not hang on a decision. Raises BadInputError where
    Keras is too old.
    """
    if replicas.parts == 1:
        return keras.Model
    if not hasattr(keras, "ops"):
        raise BadInputError(
            f"accumulate: {replicas.parts} needs Keras 3 (TensorFlow 2.16 or newer), which is not installed where the "
            "trainer runs; leave it out and write a smaller global_batch_size"
        )
    return _in_parts(keras, replicas.tensorflow, replicas.parts)


@cache
def _in_parts(keras: Any, tf: Any, parts: int) -> Any:
    class InParts(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            weights = self.trainable_weights
            mean = [tf.zeros(weight.shape, weight.dtype) for weight in weights]
            results = {}
            for number in range(parts):
                # The next part waits for the one before, so that one part's activations are there at a time.
                with tf.control_dependencies(mean):
                    part = tf.nest.map_structure(lambda values: tf.identity(_part(values, number, parts)), data)  # noqa: B023
                    results, gradients = self._gradients(part, weights)
                mean = [total + gradient / parts for total, gradient in zip(mean, gradients, strict=True)]
            self.optimizer.apply_gradients(zip(mean, weights, strict=True))
            return results

        def _gradients(self, data: Any, weights: Any) -> Any:
            """What Keras' own step does, but for the step of the optimizer."""
            images, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
            with tf.GradientTape() as tape:
                predicted = self(images, training=True)
                loss = self._compute_loss(
                    x=images, y=labels, y_pred=predicted, sample_weight=sample_weight, training=True
                )
                scaled = self.optimizer.scale_loss(loss)
            # Keras has divided by the number of devices, whose gradients are summed; what is shown is a mean.
            devices = tf.cast(tf.distribute.get_strategy().num_replicas_in_sync, loss.dtype)
            self._loss_tracker.update_state(loss * devices, sample_weight=tf.shape(predicted)[0])
            results = self.compute_metrics(images, labels, predicted, sample_weight=sample_weight)
            return results, tape.gradient(scaled, weights)

    return InParts


def _part(values: Any, number: int, parts: int) -> Any:
    size = values.shape[0] // parts
    return values[number * size : (number + 1) * size]

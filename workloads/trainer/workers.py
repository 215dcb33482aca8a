"""Several processes of TensorFlow as one: a strategy over all of them, and the loop that trains over it.

Keras' own `fit` and `evaluate` fail over several machines (keras-team/keras#20585): they reduce values that lie on
other machines. Here each process hands its own part of a batch to the strategy, so that nothing is sharded once more;
the steps are Keras' `train_step` and `test_step`, and their figures are means over all devices.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from trainplan.workloads.trainer.devices import DeviceKind, Devices, cpu_name
from trainplan.workloads.trainer.errors import TrainerError
from trainplan.workloads.trainer.joining import JOIN_SECONDS, take_signals_back

if TYPE_CHECKING:
    from trainplan.workloads.trainer.process_group import ProcessGroup

    pass


def over_workers(tf: Any, group: ProcessGroup) -> Devices:
    """All GPUs of every process, or the CPU of each. Waits for the other processes; call before any other operation.

    Raises TrainerError where they do not come.
    """
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    cluster = tf.train.ClusterSpec({"worker": exchanged_addresses(group, JOIN_SECONDS)})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=group.rank)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    take_signals_back()
    name = cpu_name()
    if gpus:
        name = str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU"))
    return Devices(
        kind=DeviceKind.GPU if gpus else DeviceKind.CPU,
        name=name,
        count=int(strategy.num_replicas_in_sync),
        strategy_name=f"MultiWorkerMirroredStrategy over {group.processes} processes",
        strategy=strategy,
    )


def over_tensorflow(tf: Any, strategy: Any) -> Callable[[tuple[int, int]], tuple[int, int]]:
    """What gives rank 0's numbers to every process of `strategy`: all others add nothing."""

    def send(numbers: tuple[int, int]) -> tuple[int, int]:
        def own(context: Any) -> Any:
            return tf.constant((0, 0) if context.replica_id_in_sync_group else numbers, tf.int64)

        values = strategy.experimental_distribute_values_from_function(own)
        first, second = strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None).numpy()
        return int(first), int(second)

    return send


@cache
def over_processes(base: Any, keras: Any, tf: Any, processes: int) -> Any:
    """`base`, a class of Keras models, with a `fit` and an `evaluate` for a strategy of several processes. They take
    what the trainer gives them: batches of this process's part, and a list of callbacks."""

    class OverProcesses(base):  # type: ignore[misc]
        def make_train_function(self, force: bool = False) -> None:
            if force or getattr(self, "train_function", None) is None:
                self.train_function = _common(tf, self, self.train_step, processes)

        def make_test_function(self, force: bool = False) -> None:
            if force or getattr(self, "test_function", None) is None:
                self.test_function = _common(tf, self, self.test_step, processes)

        def fit(self, batches: Any, **options: Any) -> None:
            _fit(self, batches, **options)

        def evaluate(self, feed: Any, *, callbacks: Any, **_: Any) -> dict[str, float]:
            if not isinstance(callbacks, keras.callbacks.CallbackList):
                callbacks = keras.callbacks.CallbackList(callbacks, model=self)
            return _evaluate(self, feed, callbacks)

    return OverProcesses


def _fit(model: Any, batches: Iterator[Any], *, callbacks: Any, validation_data: Any, **options: int) -> None:
    model.stop_training = False
    model.make_train_function()
    callbacks.on_train_begin()
    for epoch in range(options["initial_epoch"], options["epochs"]):
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        logs: dict[str, Any] = {}
        for number, batch in zip(range(options["steps_per_epoch"]), batches, strict=False):
            logs = model.train_function(batch)
            callbacks.on_train_batch_end(number, logs)
        if validation_data is not None and (epoch + 1) % options["validation_freq"] == 0:
            tested = model.evaluate(validation_data, callbacks=callbacks)
            logs = logs | {f"val_{name}": value for name, value in tested.items()}
        callbacks.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    callbacks.on_train_end()


def _evaluate(model: Any, feed: Any, callbacks: Any) -> dict[str, float]:
    model.make_test_function()
    callbacks.on_test_begin()
    model.reset_metrics()
    logs: dict[str, Any] = {}
    for number in range(len(feed)):
        logs = model.test_function(feed[number])
        callbacks.on_test_batch_end(number, logs)
    figures = {name: float(value) for name, value in logs.items()}
    callbacks.on_test_end(figures)
    return figures


def _placed(tf: Any, strategy: Any, batch: Any, processes: int) -> list[Any]:
    """This process's part of a batch on its devices, in their order."""
    own_devices = strategy.num_replicas_in_sync // processes

    def placed(values: Any) -> Any:
        shares = np.split(values, own_devices)
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(shares[context.replica_id_in_sync_group % own_devices])
        )

    return [placed(values) for values in batch]


def _common(tf: Any, model: Any, step: Callable[[Any], dict[str, Any]], processes: int) -> Callable[[Any], Any]:
    """`step` on all devices, from a batch's part; its figures are the same in every process."""
    strategy = model.distribute_strategy

    def on_device(images: Any, labels: Any) -> Any:
        logs = step((images, labels))
        means = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, list(logs.values()))
        return dict(zip(logs, means, strict=True))

    def on_all(images: Any, labels: Any) -> Any:
        logs = strategy.run(on_device, args=(images, labels))
        return {name: strategy.experimental_local_results(value)[0] for name, value in logs.items()}

    compiled = tf.function(on_all, autograph=False, jit_compile=model.jit_compile)
    return lambda batch: compiled(*_placed(tf, strategy, batch, processes))


_PAUSE_SECONDS = 0.2
_MESSAGE_SECONDS = 5.0
"""For what a connection that is open has to say: a stranger that stays silent must not hold up the others."""
_MOST_BYTES = 65_536
_LOOPBACK = ("127.0.0.1", "localhost")


def exchanged_addresses(group: ProcessGroup, within_seconds: float) -> list[str]:
    """HOST:PORT of every process, in order of rank; the same list in all of them.

    Rank 0 listens at the coordinator's port until each of the others has told its rank and a free port of its own, and
    answers with the list. A process's host is the address from which rank 0 hears it. Raises TrainerError where the
    others do not come.
    """
    deadline = time.monotonic() + within_seconds
    try:
        own_port = _free_port()
        if group.rank:
            return _listed_by_rank_0(group, own_port, deadline)
        return _gathered(group, own_port, deadline)
    except OSError as error:
        raise TrainerError(
            f"the {group.processes} processes did not come together at {group.coordinator} within "
            f"{within_seconds:.0f} s: {error}"
        ) from error


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _gathered(group: ProcessGroup, own_port: int, deadline: float) -> list[str]:
    host, port = _split(group.coordinator)
    # A machine's own name may mean its loopback address there, where the others cannot reach it.
    with socket.create_server((host if host in _LOOPBACK else "", port)) as server:
        connections: dict[int, socket.socket] = {}
        addresses = {0: f"{host}:{own_port}"}
        try:
            while len(addresses) < group.processes:
                server.settimeout(_seconds_left(deadline))
                connection, (peer, *_) = server.accept()
                with suppress(OSError, ValueError, KeyError, TypeError):  # whoever else may have knocked
                    message = _received(connection, min(deadline, time.monotonic() + _MESSAGE_SECONDS))
                    rank = int(message["rank"])
                    if 0 < rank < group.processes:
                        addresses[rank] = f"{peer}:{int(message['port'])}"
                        connections[rank] = connection
                        continue
                connection.close()
            result = [addresses[rank] for rank in range(group.processes)]
            for connection in connections.values():
                connection.sendall(_line({"addresses": result}))
            return result
        finally:
            for connection in connections.values():
                connection.close()


def _listed_by_rank_0(group: ProcessGroup, own_port: int, deadline: float) -> list[str]:
    while True:
        try:
            with socket.create_connection(_split(group.coordinator), timeout=_seconds_left(deadline)) as connection:
                connection.sendall(_line({"rank": group.rank, "port": own_port}))
                return [str(address) for address in _received(connection, deadline)["addresses"]]
        except (ConnectionError, ValueError):  # rank 0 does not listen yet
            _seconds_left(deadline)
            Event().wait(_PAUSE_SECONDS)


def _line(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _received(connection: socket.socket, deadline: float) -> dict[str, Any]:
    """One line. Raises ValueError where it is none, OSError where it does not come."""
    content = b""
    while not content.endswith(b"\n"):
        connection.settimeout(_seconds_left(deadline))
        chunk = connection.recv(_MOST_BYTES)
        if not chunk or len(content) > _MOST_BYTES:
            raise ValueError("no whole line")
        content += chunk
    message: dict[str, Any] = json.loads(content)
    return message


def _seconds_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left

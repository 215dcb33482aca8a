"""A run that begins with weights of another one: what is read, what fits, what is trained, and what is saved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, final_state, stopped_in_epoch_2
from trainplan.workloads.pretrained import WEIGHTS_FILE, PublishedWeights
from trainplan.workloads.terms import Preset
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.model import IMAGENET_NORMALISATION, PLAIN_NORMALISATION, Normalisation
from trainplan.workloads.trainer.weights import BaseWeights, put_weights, read_weights

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]

NET = {"layers": [8, "M", 16, "M"], "batch_norm": True, "dense": [32], "dropout": 0.2}


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server on loopback with these files; yields its address and the paths that were requested."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(files[self.path])))
            self.end_headers()
            self.wfile.write(files[self.path])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


@pytest.fixture(scope="module")
def before(tensorflow: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a run of one epoch."""
    run_dir: Path = tmp_path_factory.mktemp("before")
    attempt(a_job(epochs=1), run_dir)
    return run_dir / "output" / "model.keras"


def layers_of(tensorflow: Any, file: Path) -> dict[str, list[Any]]:
    model = tensorflow.keras.models.load_model(file, compile=False)
    return {layer.name: layer.get_weights() for layer in model.layers if layer.weights}


def fine_tuned(before: Path, **changes: Any) -> Any:
    model = {**NET, "weights": str(before), **changes.pop("model", {})}
    return a_job(model=model, epochs=1, **changes)


@pytest.mark.keras_3
def test_frozen_blocks_end_the_run_as_they_began_it(tensorflow: Any, before: Path, tmp_path: Path) -> None:
    attempt(fine_tuned(before, model={"freeze": "block1"}), tmp_path)
    old, new = layers_of(tensorflow, before), layers_of(tensorflow, tmp_path / "output" / "model.keras")
    for name in ("conv_0", "norm_0"):
        assert all(np.array_equal(a, b) for a, b in zip(old[name], new[name], strict=True)), name
    for name in ("conv_2", "norm_2", "dense_5"):
        assert not np.array_equal(old[name][0], new[name][0]), name
    saved = tensorflow.keras.models.load_model(tmp_path / "output" / "model.keras", compile=False)
    assert all(layer.trainable for layer in saved.layers)


@pytest.mark.keras_3
def test_the_last_layer_is_new_and_all_others_are_read(tensorflow: Any, before: Path, tmp_path: Path) -> None:
    attempt(fine_tuned(before, optimizer={"name": "sgd", "learning_rate": 1e-9, "momentum": 0}), tmp_path)
    old, new = layers_of(tensorflow, before), layers_of(tensorflow, tmp_path / "output" / "model.keras")
    near = {name: all(np.allclose(a, b, atol=1e-5) for a, b in zip(old[name], new[name], strict=True)) for name in old}
    convolutions = {name for name in old if name.startswith("conv")}
    assert all(near[name] for name in (*convolutions, "dense_5"))
    assert not near["dense_6"]


@pytest.mark.keras_3
def test_the_base_learns_at_its_share_of_the_rate(tensorflow: Any, before: Path, tmp_path: Path) -> None:
    moves = {}
    for share in (1.0, 0.01):
        optimizer = {"name": "sgd", "learning_rate": 0.001, "momentum": 0.0, "base_rate_share": share}
        attempt(fine_tuned(before, optimizer=optimizer), tmp_path / str(share))
        old, new = (
            layers_of(tensorflow, before),
            layers_of(tensorflow, tmp_path / str(share) / "output" / "model.keras"),
        )
        moves[share] = float(np.abs(old["conv_2"][0] - new["conv_2"][0]).mean())
    assert moves[0.01] == pytest.approx(0.01 * moves[1.0], rel=0.5)


@pytest.mark.keras_3
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(before: Path, tmp_path: Path) -> None:
    job = fine_tuned(before, model={"freeze": "block1"}, optimizer={"name": "adam", "base_rate_share": 0.1})
    job = job.model_copy(update={"epochs": 2})
    attempt(job, tmp_path / "whole")
    stopped_in_epoch_2(job, tmp_path / "stopped")
    attempt(job, tmp_path / "stopped", 2)
    whole, continued = (final_state(tmp_path / name) for name in ("whole", "stopped"))
    assert all(np.array_equal(a, b) for a, b in zip(whole, continued, strict=True))


def test_a_file_in_the_run_directory_stands_for_the_path(tensorflow: Any, before: Path, tmp_path: Path) -> None:
    (tmp_path / WEIGHTS_FILE).write_bytes(before.read_bytes())
    base = read_weights(tensorflow.keras, fine_tuned(tmp_path / "elsewhere.keras"), tmp_path, tmp_path)
    assert base is not None
    assert base.normalisation == PLAIN_NORMALISATION
    assert [layer.kind for layer in base.layers] == ["Conv2D", "BatchNormalization"] * 2 + ["Dense"] * 2


@pytest.mark.keras_3
def test_a_file_of_another_net_is_refused_with_its_shapes(tensorflow: Any, before: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"conv_2 has weights of 3x3x8x24.*the file of 3x3x8x16"):
        attempt(fine_tuned(before, model={"layers": [8, "M", 24, "M"]}), tmp_path / "a")
    with pytest.raises(BadInputError, match="has 4 convolutions and batch norms, this net 2"):
        attempt(fine_tuned(before, model={"layers": [8, "M"]}), tmp_path / "b")


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_a_file_that_is_no_model_is_refused(tensorflow: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.keras").write_bytes(content)
    with pytest.raises(BadInputError, match=r"cannot be read as a Keras model|no model\.keras of a run"):
        read_weights(tensorflow.keras, fine_tuned(tmp_path / "x.keras"), tmp_path, tmp_path)


def test_a_model_that_does_not_say_how_images_were_scaled_is_refused(tensorflow: Any, tmp_path: Path) -> None:
    layers = tensorflow.keras.layers
    tensorflow.keras.Sequential([layers.Input((8, 8, 1)), layers.Conv2D(8, 3)]).save(tmp_path / "x.keras")
    with pytest.raises(BadInputError, match="does not say how its images were scaled"):
        read_weights(tensorflow.keras, fine_tuned(tmp_path / "x.keras"), tmp_path, tmp_path)


# --- ImageNet ----------------------------------------------------------------------------------------------------


def a_published_file(keras: Any, folder: Path) -> tuple[Any, Path]:
    """A file in the layout of the published ones, of a VGG16 with other weights."""
    model = keras.applications.VGG16(include_top=False, weights=None, input_shape=(32, 32, 3))
    file = folder / "vgg16_notop.h5"
    _save_as_published(model, file)
    return model, file


def _save_as_published(model: Any, file: Path) -> None:
    """The published files were written by Keras 2: a group for each layer, with the names of its weights."""
    import h5py

    with h5py.File(file, "w") as out:
        out.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = out.create_group(layer.name)
            names = [f"{layer.name}_{kind}_1:0" for kind, _ in zip("Wb", layer.weights, strict=False)]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, weight in zip(names, layer.get_weights(), strict=True):
                group.create_dataset(name, data=weight)


def test_published_weights_are_fetched_once_checked_and_turned_to_the_runs_colours(
    tensorflow: Any, tmp_path: Path
) -> None:
    model, file = a_published_file(tensorflow.keras, tmp_path)
    md5 = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    job = a_job(model={"preset": "vgg16", "weights": "imagenet", "image_size": 32}, data={"name": "cifar10"})
    with serving({f"/{file.name}": file.read_bytes()}) as (address, requests):
        published = {
            Preset.VGG16: PublishedWeights(name=file.name, origin=f"{address}/{file.name}", md5=md5, weights=1)
        }
        bases = [read_weights(tensorflow.keras, job, tmp_path, tmp_path, published) for _ in range(2)]
    assert len(requests) == 1
    base = bases[1]
    assert isinstance(base, BaseWeights)
    assert base.normalisation == IMAGENET_NORMALISATION
    theirs = [layer.get_weights() for layer in model.layers if layer.weights]
    assert len(base.layers) == len(theirs) == 13
    assert np.array_equal(base.layers[0].arrays[0], theirs[0][0][:, :, ::-1, :])
    assert np.array_equal(base.layers[5].arrays[0], theirs[5][0])


def test_the_net_computes_what_the_published_one_does(tensorflow: Any, tmp_path: Path) -> None:
    """Features of Keras' VGG16 on its own preprocessing, against those of the run's net on plain pixels."""
    from trainplan.workloads.trainer.model import Preprocessing, build

    keras = tensorflow.keras
    model, file = a_published_file(keras, tmp_path)
    md5 = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    job = a_job(
        model={"preset": "vgg16", "weights": "imagenet", "image_size": 32, "dense": []}, data={"name": "cifar10"}
    )
    (tmp_path / "weights").mkdir()
    file.rename(tmp_path / "weights" / file.name)
    published = {Preset.VGG16: PublishedWeights(name=file.name, origin="http://127.0.0.1:9/none", md5=md5, weights=1)}
    base = read_weights(keras, job, tmp_path, tmp_path, published)
    assert base is not None
    models = build(keras, job.net(), 32, 0, preprocessing=Preprocessing(normalisation=base.normalisation))
    assert put_weights(base, models.serving) == {layer.name for layer in models.serving.layers if "conv" in layer.name}
    features = keras.Model(models.serving.inputs, models.serving.get_layer(models.serving.layers[-4].name).output)
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    expected = model.predict(keras.applications.vgg16.preprocess_input(images.astype("float32")), verbose=0)
    actual = features.predict(images, verbose=0).reshape(expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-4)


def test_a_file_with_another_sum_is_refused(tensorflow: Any, tmp_path: Path) -> None:
    job = a_job(model={"preset": "vgg16", "weights": "imagenet", "image_size": 32}, data={"name": "cifar10"})
    with serving({"/f.h5": b"damaged"}) as (address, _):
        published = {Preset.VGG16: PublishedWeights(name="f.h5", origin=f"{address}/f.h5", md5="0" * 32, weights=1)}
        with pytest.raises(BadInputError, match="md5 differs"):
            read_weights(tensorflow.keras, job, tmp_path, tmp_path, published)
    assert list((tmp_path / "weights").iterdir()) == []


def test_an_offset_for_each_colour_comes_back_from_a_saved_model(tensorflow: Any, tmp_path: Path) -> None:
    from trainplan.workloads.trainer.model import Preprocessing, build

    preprocessing = Preprocessing(normalisation=IMAGENET_NORMALISATION)
    job = a_job(model={"layers": [4, "M"], "dense": []}, data={"name": "cifar10"})
    build(tensorflow.keras, job.net(), 32, 0, preprocessing=preprocessing).serving.save(tmp_path / "x.keras")
    model = job.model.model_copy(update={"weights": str(tmp_path / "x.keras")})
    base = read_weights(tensorflow.keras, job.model_copy(update={"model": model}), tmp_path, tmp_path)
    assert base is not None
    assert base.normalisation == Normalisation(scale=1.0, offset=(-123.68, -116.779, -103.939))

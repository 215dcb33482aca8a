"""Predictions: what they rest on, and that they stay sane where nothing was measured."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from planner.throughput.compile import DATA, compile_measurements
from planner.throughput.nets import model_key, net_of
from planner.throughput.predict import MissingTableError, Predictor, Question
from planner.throughput.values import Basis, Measurement, Throughput, Unpredicted
from workloads.vgg import VGG_DENSE, VGG_FEATURES, Head, vgg

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    memory_bandwidth_gb_s: float | None
    peak_tflops: Mapping[str, float]


RATES = {
    "V100": Rates(memory_bandwidth_gb_s=900, peak_tflops=MappingProxyType({"fp32": 15.7, "fp16": 125})),
    "imaginary": Rates(memory_bandwidth_gb_s=900, peak_tflops=MappingProxyType({"fp32": 15.7, "fp16": 125})),
    "blank": Rates(memory_bandwidth_gb_s=None, peak_tflops=MappingProxyType({})),
}


def question(device: str = "V100", size: int = 224, **changes: object) -> Question:
    net = net_of("vgg16", size)
    assert net is not None
    base = Question(
        net=net, device=device, device_count=1, interconnect=None, vcpus=None, batch_per_device=64,
        precision="fp32", xla=False, framework="tensorflow",
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("throughput") / "m.sqlite"
    compile_measurements(DATA, target)
    return target


@pytest.fixture
def predictor(table: Path) -> Iterator[Predictor]:
    predictor = Predictor.open(table, rates=RATES.get)
    yield predictor
    predictor.close()


def answer(predictor: Predictor, asked: Question) -> Throughput:
    found = predictor.predict(asked)
    assert isinstance(found, Throughput), found
    assert 0 < found.low <= found.images_per_second <= found.high
    assert found.evidence
    return found


def test_the_same_configuration_is_measured(predictor: Predictor) -> None:
    found = answer(predictor, question())
    assert found.basis is Basis.MEASURED
    assert found.images_per_second == pytest.approx(263, rel=0.1)


@pytest.mark.parametrize(
    "changes",
    [{"batch_per_device": 100}, {"size": 112}, {"device_count": 2}, {"precision": "amp_fp16"}],
)
def test_another_configuration_of_a_measured_device_is_scaled(predictor: Predictor, changes: dict[str, object]) -> None:
    assert answer(predictor, question(**changes)).basis is Basis.SCALED  # type: ignore[arg-type]


def test_an_unmeasured_device_is_modelled_from_its_rates(predictor: Predictor) -> None:
    found = answer(predictor, question("imaginary"))
    assert found.basis is Basis.MODELLED
    assert 80 < found.images_per_second < 600


@pytest.mark.parametrize("device", ["blank", "unheard of"])
def test_a_device_without_rates_is_not_guessed(predictor: Predictor, device: str) -> None:
    assert predictor.predict(question(device)) == Unpredicted(reason="no_device_data")


def test_a_rented_host_is_scaled_per_vcpu(predictor: Predictor) -> None:
    small = answer(predictor, question("cpu", vcpus=4))
    large = answer(predictor, question("cpu", vcpus=16))
    assert small.basis is Basis.MODELLED
    assert large.images_per_second == pytest.approx(4 * small.images_per_second)
    assert large.high / large.low > 3
    assert isinstance(predictor.predict(question("cpu")), Unpredicted)


def test_what_this_machine_measured_comes_first(table: Path) -> None:
    own = Measurement(
        id="run-1", model="vgg16", image_size_px=224, device="this-machine", precision="fp32",
        batch_per_device=64, framework="tensorflow", images_per_second=3.5,
    )  # fmt: skip
    predictor = Predictor.open(table, own=[own], rates=RATES.get)
    found = answer(predictor, question("this-machine", vcpus=2))
    assert (found.basis, found.images_per_second, found.evidence) == (Basis.MEASURED, 3.5, ("run-1",))
    assert answer(predictor, question("this-machine", vcpus=2, size=112)).basis is Basis.SCALED
    predictor.close()


def test_a_net_is_known_by_its_layers_not_its_name() -> None:
    head = Head(dense=VGG_DENSE, dropout=0.0, classes=10)
    renamed = vgg("mine", VGG_FEATURES["vgg16"], head, (224, 3), batch_norm=False)
    pretender = vgg("vgg16", (64, "M"), head, (224, 3), batch_norm=False)
    assert model_key(renamed) == "vgg16"
    assert model_key(pretender).startswith("net-")


def test_a_missing_table_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(MissingTableError, match="python -m"):
        Predictor.open(tmp_path / "absent.sqlite")


def test_a_whole_catalog_is_answered_quickly(table: Path) -> None:
    started = time.perf_counter()
    predictor = Predictor.open(table, rates=RATES.get)
    for device in ("V100", "K80", "T4", "M60", "P100", "RTX 2080 Ti", "A100-40GB", "imaginary"):
        for count in (1, 2, 4, 8):
            for batch in (16, 32, 64, 128):
                predictor.predict(question(device, device_count=count, batch_per_device=batch))
    predictor.close()
    # Ten times what it takes on two busy cores: a guard against another order of magnitude, not a benchmark.
    assert time.perf_counter() - started < 0.6

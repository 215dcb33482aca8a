"""The fitted model: what it was fitted to, its physics, its grid, and what it answers held-out rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from trainplan.planner.throughput.check import as_json, check
from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.evidence import EvidenceRow, Nearness, basis_of, evidence
from trainplan.planner.throughput.grid import CONV_COUNT, NODE_COUNT, batch_nodes, conv_nodes
from trainplan.planner.throughput.model import MODEL_FILE, load_model
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.physics import step
from trainplan.planner.throughput.rates import Precision, known_rates
from trainplan.planner.throughput.rows import NumberedRow
from trainplan.planner.throughput.setup import (
    Era,
    Family,
    Library,
    Link,
    Setup,
    family_of,
    library_of,
    link_of,
    precision_of,
)
from trainplan.planner.throughput.table import open_table
from trainplan.planner.throughput.values import Basis, Parallelism

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainplan.planner.throughput.predict import Predictor
    from trainplan.pricing.devices import DeviceTable


def setup(devices: DeviceTable, **changes: object) -> Setup:
    net = net_of("vgg16", 224)
    rates = known_rates(devices["V100"])
    assert net is not None
    assert rates is not None
    base = Setup(
        net=net, batch=32, count=1, rates=rates, device="V100", precision=Precision.FP32, xla=False,
        family=Family.KERAS, source="", optimizer_step=True, link=Link.ONE, library=Library.ONE,
        gradient_bytes=4, era=Era.TO_2021, layout="NHWC", numbers="fp32",
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def test_the_model_is_of_the_measurements_that_are_shipped() -> None:
    import hashlib

    digest = hashlib.sha256((DATA / "measurements.csv").read_bytes()).hexdigest()
    assert json.loads(MODEL_FILE.read_text(encoding="utf-8"))["measurements_sha256"] == digest, "run make fit"


def test_every_correction_is_a_correction_and_every_width_a_width() -> None:
    model = load_model()
    assert {len(found.nodes) for found in model.corrections.values()} <= {0, NODE_COUNT}
    # No group moves a step by more than a factor of e as a whole.
    assert all(abs(found.constant) < 1 for found in model.corrections.values())
    assert all(0.01 < width < 1.5 for width in model.half_widths.values())
    assert {*Nearness} <= {*model.half_widths}


@pytest.mark.parametrize(("side", "batch"), [(224, 32), (7, 1), (1, 4096), (300, 5)])
def test_weights_on_the_grid_sum_to_one(side: int, batch: int) -> None:
    nodes = conv_nodes(200, 512, side, batch)
    assert math.isclose(sum(weight for _, weight in nodes), 1.0)
    assert all(0 <= node < CONV_COUNT and 0 < weight <= 1 for node, weight in nodes)
    assert math.isclose(sum(weight for _, weight in batch_nodes(None, batch)), 1.0)


def test_a_step_is_the_sum_of_its_parts_and_of_waiting(devices: DeviceTable) -> None:
    model = load_model()
    alone = step(setup(devices), model.constants, model.links)
    assert math.isclose(alone.device_seconds, sum(seconds for _, seconds in alone.parts))
    assert alone.seconds == pytest.approx(alone.device_seconds)
    many = step(setup(devices, count=8, link=Link.PCIE, library=Library.NCCL), model.constants, model.links)
    assert many.device_seconds == alone.device_seconds
    assert many.seconds > many.device_seconds
    host = step(setup(devices, count=8, link=Link.HOST, library=Library.NCCL), model.constants, model.links)
    assert host.seconds > many.seconds


def test_the_optimizer_and_half_precision_count(devices: DeviceTable) -> None:
    model = load_model()
    full = step(setup(devices), model.constants, model.links).seconds
    assert step(setup(devices, optimizer_step=False), model.constants, model.links).seconds < full
    assert step(setup(devices, precision=Precision.HALF), model.constants, model.links).seconds < full


@pytest.mark.parametrize(
    ("text", "parallelism", "device", "link"),
    [
        ("NVLink (DGX-1)", Parallelism.REPLICATED, "P100-SXM2", Link.NVLINK),
        ("NVLink pairs", Parallelism.REPLICATED, "RTX 2080 Ti", Link.PAIRS),
        ("PCIe4 / NVLink bridge", Parallelism.UNSTATED, "RTX A6000", Link.PCIE),
        ("PCIe", Parallelism.REPLICATED, "RTX 3090", Link.HOST),
        ("PCIe3", Parallelism.PARAMETER_SERVER, "K80", Link.PCIE),
        ("NVSwitch DGX-2", Parallelism.HOROVOD, "V100-SXM3", Link.NVSWITCH),
        ("NVLink3", Parallelism.UNSTATED, "A100-80GB", Link.NVSWITCH),
        ("NVLink3", Parallelism.UNSTATED, "A100-PCIe-80GB", Link.NVLINK),
        ("NVLink2", Parallelism.UNSTATED, "V100", Link.NVLINK),
        ("", Parallelism.DATA_PARALLEL, "V100", Link.DATA_PARALLEL),
        ("ICI", Parallelism.UNSTATED, "TPU v3", Link.NVLINK),
    ],
)
def test_links(text: str, parallelism: Parallelism, device: str, link: Link) -> None:
    assert link_of(4, 1, text, parallelism, device) is link
    assert link_of(1, 1, text, parallelism, device) is Link.ONE


@pytest.mark.parametrize(
    ("parallelism", "framework", "library"),
    [
        (Parallelism.REPLICATED, "TensorFlow tf_cnn_benchmarks", Library.NCCL),
        (Parallelism.HOROVOD, "TensorFlow", Library.HOROVOD),
        (Parallelism.KVSTORE, "MXNet", Library.KVSTORE),
        (Parallelism.UNSTATED, "tensorflow", Library.MIRRORED),
        (Parallelism.UNSTATED, "jax", Library.XLA),
        (Parallelism.UNSTATED, "torch", Library.DDP),
        (Parallelism.UNSTATED, "Chainer", Library.NCCL),
    ],
)
def test_libraries(parallelism: Parallelism, framework: str, library: Library) -> None:
    assert library_of(4, parallelism, framework) is library
    assert library_of(1, parallelism, framework) is Library.ONE


def test_a_library_that_reaches_more_of_a_link_waits_less(devices: DeviceTable) -> None:
    model = load_model()
    half = replace(model.links.libraries[Library.NCCL], reach=model.links.libraries[Library.NCCL].reach / 2)
    slower = replace(model.links, libraries={**model.links.libraries, Library.NCCL: half})
    many = setup(devices, count=8, link=Link.NVLINK, library=Library.NCCL)
    fast, slow = (step(many, model.constants, links) for links in (model.links, slower))
    assert fast.device_seconds == slow.device_seconds
    assert fast.seconds < slow.seconds
    assert set(model.links.libraries) == {*Library}
    assert set(model.links.bytes_per_second) == {*Link}


def test_frameworks_and_precisions() -> None:
    families = {name: family_of(name) for name in ("tensorflow", "jax", "torch", "Torch7", "PyTorch DDP", "Chainer")}
    assert list(families.values()) == [
        Family.KERAS, Family.KERAS, Family.TORCH, Family.TORCH7, Family.TORCH, Family.OTHER,
    ]  # fmt: skip
    assert [precision_of(name) for name in ("fp32", "tf32", "amp_bf16", "fp16")] == [
        Precision.FP32, Precision.TF32, Precision.HALF, Precision.HALF,
    ]  # fmt: skip


def test_what_vendors_leave_out_is_filled_by_rule(devices: DeviceTable) -> None:
    def rates(name: str) -> tuple[float, float, float]:
        found = known_rates(devices[name])
        assert found is not None
        return (found.tflops[Precision.FP32], found.tflops[Precision.TF32], found.tflops[Precision.HALF])

    assert rates("RTX 3090") == pytest.approx((35.58, 35.58, 70), rel=0.05)
    assert rates("TPU v3") == (123, 123, 123)
    assert rates("P100")[2] == rates("P100")[0]
    assert rates("K80")[0] == pytest.approx(4.37 * 2 / 3)


def row(**changes: object) -> EvidenceRow:
    base = EvidenceRow(
        id="a", model="vgg16", convolutions=13, image_size_px=224, batch=32, count=1,
        precision=Precision.FP32, xla=False,
        family=Family.KERAS, source="s", device="V100", architecture="volta", link=Link.ONE, library=Library.ONE,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "nearness", "basis"),
    [
        ({}, Nearness.REPEATED, Basis.MEASURED),
        ({"batch": 64}, Nearness.SAME_NET, Basis.SCALED),
        ({"model": "vgg19", "convolutions": 16}, Nearness.SAME_SOURCE, Basis.SCALED),
        ({"source": "t"}, Nearness.SAME_DEVICE, Basis.SCALED),
        ({"precision": Precision.HALF}, Nearness.OTHER_PRECISION, Basis.SCALED),
    ],
)
def test_nearness(changes: dict[str, object], nearness: Nearness, basis: Basis) -> None:
    found = evidence(row(), [row(**changes)], frozenset({"volta"}))
    assert (found.nearness, basis_of(found.nearness), found.ids) == (nearness, basis, ("a",))


def test_no_row_of_the_device_is_modelled_and_unseen_sharing_is_told() -> None:
    assert evidence(row(), [], frozenset({"volta"})).nearness is Nearness.SAME_ARCHITECTURE
    assert evidence(row(), [], frozenset()).nearness is Nearness.NONE
    ring, scattered = (
        row(count=2, link=Link.PCIE, library=Library.NCCL),
        row(count=2, link=Link.DATA_PARALLEL, library=Library.DATA_PARALLEL),
    )
    assert evidence(ring, [row()], frozenset()).key == "same_source+sharing"
    assert evidence(scattered, [row()], frozenset()).key == "same_source+scattering"
    assert evidence(ring, [replace(ring, library=Library.SERVER)], frozenset()).key == "same_source+sharing"
    assert evidence(ring, [ring], frozenset()).key == "repeated+shared"
    assert evidence(ring, [row()], frozenset(), frozenset({"horovod"})).key == "unseen_library"
    assert evidence(row(), [row()], frozenset(), frozenset({"horovod"})).key == "repeated"


def test_each_link_and_library_is_as_sure_as_it_was_right() -> None:
    near = evidence(row(count=2, link=Link.PCIE, library=Library.NCCL), [row()], frozenset())
    widths = {"same_source": 0.1, "same_source+sharing": 0.2, "unseen_library": 0.3, "same_device": 0.4}
    assert near.half_width(widths, {}) == 0.2
    assert near.half_width(widths, {"pcie/nccl": 1.5, "host/nccl": 9.0}) == pytest.approx(0.3)
    unseen = replace(near, library_seen=False)
    assert unseen.half_width(widths, {"pcie/nccl": 1.5}) == 0.3
    assert replace(unseen, nearness=Nearness.SAME_DEVICE).half_width(widths, {}) == 0.4


def test_an_unseen_depth_is_less_sure_the_farther_it_is() -> None:
    widths = load_model().half_widths
    known = evidence(row(image_size_px=64), [row()], frozenset())
    near = evidence(row(model="vgg19", convolutions=16), [row(), row(model="vgg11", convolutions=8)], frozenset())
    far = evidence(row(model="vgg11", convolutions=8), [row()], frozenset())
    beyond = evidence(row(model="net-1", convolutions=0), [row()], frozenset())
    assert (known.key, near.key, far.key) == ("same_source", "same_source+other_depth", "same_source+other_depth")
    assert near.depth_gap == pytest.approx(math.log(16 / 13))
    found = [one.half_width(widths, {}) for one in (known, near, far, beyond)]
    assert found == sorted(found)
    assert found[1] < found[2]
    # However far, it is known no worse than from another source.
    assert found[3] == widths["same_device"]


def test_sharing_that_no_fold_tried_doubts_on_top() -> None:
    near = evidence(row(count=2, link=Link.PCIE), [row(count=1)], frozenset())
    widths = {"same_source": 0.3, "same_source+sharing": 0.4, "same_device": 1.0}
    assert near.half_width(widths, {}) == 0.4
    other = replace(near, nearness=Nearness.SAME_DEVICE)
    assert other.half_width({**widths, "same_device": 0.3}, {}) == pytest.approx(0.5)


HEADER = "id,model,image_size,mode,device,device_memory_gb,n_devices,precision,xla,batch_per_device,framework,framework_version,images_per_second,source_repo_or_url,notes"  # noqa: E501
ADDRESS = "github:ddps-lab/profet@anything"
EC2 = "TensorFlow Keras,2.x (repo requirements: 2.5.0)"


def checked(
    lines: list[str], predictor: Predictor, table: Path, find: Callable[[str], str | None]
) -> dict[str, dict[str, object]]:
    import csv

    database = open_table(table)
    given = [NumberedRow(line, cells) for line, cells in enumerate(csv.DictReader([HEADER, *lines]), start=2)]
    try:
        found = as_json(check(given, predictor, database, find))
    finally:
        database.close()
    rows = found["rows"]
    assert isinstance(rows, list)
    summary = found["summary"]
    assert isinstance(summary, dict)
    return {"summary": summary, **{one["id"]: one for one in rows}}


def test_check_predicts_what_it_can_and_says_why_not(
    predictor: Predictor, table: Path, find: Callable[[str], str | None]
) -> None:
    found = checked(
        [
            f"new-1,vgg13,224,train,V100 SXM2,16,1,fp32,no,64,{EC2},360,{ADDRESS},Q=A; SGD",
            f"new-2,vgg13,224,inference,V100 SXM2,16,1,fp32,no,64,{EC2},900,,Q=A",
            f"new-3,vgg13,224,train,V100 SXM2,16,1,fp32,no,64,{EC2},360,,Q=C; unstable",
            f"new-4,nasnet,224,train,V100 SXM2,16,1,fp32,no,64,{EC2},360,,Q=A",
            f"new-5,vgg13,224,train,Apple M1,,1,fp32,no,64,{EC2},36,,Q=A",
            f"new-6,vgg13,224,train,V100 SXM2,16,1,fp32,no,,{EC2},360,,Q=A",
            f"new-7,vgg13,224,train,V100 SXM2,16,1,fp32,no,64,{EC2},fast,,Q=A",
        ],
        predictor, table, find,
    )  # fmt: skip
    first = found["new-1"]
    assert first["error"] == pytest.approx(first["predicted"] / 360 - 1)  # type: ignore[operator]
    assert abs(first["error"]) < 0.2  # type: ignore[arg-type]
    reasons = [found[f"new-{number}"]["reason"] for number in range(2, 8)]
    assert reasons == ["excluded", "excluded", "unknown_model", "no_device_data", "no_batch", "unreadable"]
    assert (found["summary"]["n"], found["summary"]["unpredicted"], found["summary"]["seen"]) == (1, 6, 0)


def test_a_shipped_row_is_predicted_without_itself(
    predictor: Predictor, table: Path, find: Callable[[str], str | None]
) -> None:
    database = open_table(table)
    select = "SELECT id, images_per_second FROM measurements WHERE source = 'profet' AND device = 'V100' AND model = "
    id_, rate = database.execute(select + "'vgg19' AND image_size_px = 64 AND batch_per_device = 32").fetchone()
    database.close()
    line = f"vgg19,64,train,V100 SXM2,16,1,fp32,no,32,{EC2},{rate},{ADDRESS},Q=A"
    found = checked([f"{id_},{line}", f"renamed,{line}"], predictor, table, find)
    assert found["summary"]["seen"] == 2
    assert found[id_]["predicted"] == found["renamed"]["predicted"]
    assert found[id_]["basis"] == "scaled"
    other = checked([f"other,vgg19,64,train,V100 SXM2,16,1,fp32,no,32,{EC2},1,{ADDRESS},Q=A"], predictor, table, find)
    # With itself it is a measured configuration, and nearer to what was measured.
    assert other["other"]["basis"] == "measured"
    assert abs(other["other"]["predicted"] - rate) < abs(found[id_]["predicted"] - rate)

"""The pictures of --plot: what is in them, and what is said where none can be drawn."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.unit.planner.cli.command import plan
from trainplan.planner.cli import plot
from trainplan.workloads.extras import install_hint

PNG = b"\x89PNG\r\n\x1a\n"
JOB = ("--model", "vgg16", "--dataset", "cifar10", "--device", "T4", "--device", "V100", "--device", "L4")


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The axes of the picture that was written last."""
    held: dict[str, Any] = {}
    save = plot._save

    def keep(figure: Any, axes: Any, target: Path) -> None:
        held.update(figure=figure, axes=axes)
        save(figure, axes, target)

    monkeypatch.setattr(plot, "_save", keep)
    return held


def test_an_estimate_is_drawn_with_its_front_named(tmp_path: Path, drawing: dict[str, Any]) -> None:
    target = tmp_path / "front.png"
    done = plan("estimate", *JOB, "--plot", target)
    assert done.code == 0, done.err
    assert target.read_bytes().startswith(PNG)
    axes = drawing["axes"]
    assert axes.get_title().startswith("vgg16-cifar10: cost against time, estimated on 20")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "USD" in axes.get_ylabel()
    (names,) = drawing["figure"].legends
    rows = names.get_title().get_text().splitlines()[1:]
    assert "  1: " in "\n".join(rows)
    assert len(rows) == len(axes.texts)
    assert all(any(device in row for device in ("T4", "V100", "L4")) for row in rows)


def test_names_that_are_near_each_other_do_not_lie_on_each_other(tmp_path: Path, drawing: dict[str, Any]) -> None:
    """The whole catalog: two offers of the front differ by a second and a cent."""
    done = plan("estimate", *JOB[:4], "--plot", tmp_path / "front.png")
    assert done.code == 0, done.err
    boxes = [note.get_window_extent() for note in drawing["axes"].texts]
    assert len(boxes) > 3
    assert not [1 for one, other in combinations(boxes, 2) if one.overlaps(other)]


def test_a_simulated_offer_is_marked_in_the_picture(tmp_path: Path, drawing: dict[str, Any]) -> None:
    done = plan("estimate", *JOB[:4], "--provider", "sim", "--plot", tmp_path / "front.png")
    assert done.code == 0, done.err
    assert "(simulated)" in drawing["axes"].get_title()


def test_the_json_is_printed_beside_a_picture(tmp_path: Path) -> None:
    done = plan("estimate", *JOB, "--json", "--limit", 1, "--plot", tmp_path / "front.png")
    assert len(done.json["candidates"]) == 1
    assert (tmp_path / "front.png").is_file()


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = plan("estimate", *JOB, "--plot", tmp_path / "front.png")
    assert "--plot needs matplotlib" in done.err
    assert install_hint("plot") in done.err
    assert "T4" in done.out
    assert not list(tmp_path.glob("*.png"))


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    done = plan("estimate", *JOB, "--plot", tmp_path / "front.jpg")
    assert (done.code, done.out) == (2, "")
    assert done.error == "--plot writes a PNG file, and front.jpg does not end in .png"
    assert done.hint == f"--plot {tmp_path / 'front.png'}"
    assert not list(tmp_path.iterdir())
    folder = plan("estimate", *JOB, "--plot", ".")
    assert folder.error == "--plot writes a PNG file, and . does not end in .png"
    assert folder.hint == "--plot report.png"


def test_a_picture_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    done = plan("estimate", *JOB, "--plot", tmp_path / "no such folder" / "front.png")
    assert done.code != 0
    assert "cannot write" in done.err
    assert "No such file or directory" in done.err


def test_a_check_is_drawn_with_its_title_and_its_devices(tmp_path: Path, drawing: dict[str, Any]) -> None:
    rows = tmp_path / "rows.csv"
    text = "id,model,device,device_count,images_per_second,batch_per_device,precision,image_size_px,"
    text += "mode,framework,quality\n"
    text += "a,vgg16,V100,1,300,64,fp32,224,train,TensorFlow,A\nb,vgg16,T4,1,900,32,fp32,224,train,TensorFlow,A\n"
    rows.write_text(text, encoding="utf-8")
    done = plan("throughput", "check", rows, "--plot", tmp_path / "check.png")
    assert done.code == 0, done.err
    assert (tmp_path / "check.png").read_bytes().startswith(PNG)
    axes = drawing["axes"]
    assert axes.get_title().startswith("rows.csv: 2 of 2 rows predicted, ")
    assert {text.get_text() for text in axes.texts} == {"V100", "T4"}

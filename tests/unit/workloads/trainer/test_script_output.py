"""What a script has left that stays where it is, and what the person is told of it."""

from __future__ import annotations

import os
from pathlib import Path

from trainplan.workloads.trainer.script_output import Results, results_of, write_output


def test_what_is_left_out_and_links_to_nothing_are_named(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in (".hydra/config.yaml", "data/a/1.png", "data/2.png", "out/.hidden", "out/data/kept.pt", "model.pt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x")
    (work / "best.pt").symlink_to("nothing.pt")
    (work / "away").symlink_to(tmp_path)
    (work / "plots" / "later").mkdir(parents=True)
    os.mkfifo(work / "out" / "queue")
    results = results_of(work, tmp_path / "checkpoints")
    assert sorted(results.files) == ["model.pt", "out/data/kept.pt"]
    assert results.remarks() == [
        "left out, as hidden or as data: .hydra (1 file), data (2 files), out/.hidden (1 file)",
        "links that lead to nothing do not come home: 'best.pt' to 'nothing.pt'",
        "empty folders, pipes, sockets and devices do not come home: 'out/queue', 'plots/later/'",
        "links to folders, and to what lies outside the script's folder, do not come home: "
        f"'away' leads to {str(tmp_path)!r}",
    ]


def test_what_a_line_does_not_name_is_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    results = Results(files={f"{n}:": tmp_path / "a" for n in range(7)}, left_out={f".{n}": 1 for n in range(7)})
    log: list[str] = []
    remarks = write_output(tmp_path / "output", results, {}, log=log.append)
    assert [remark.endswith(" and 2 more (plan logs lists all)") for remark in remarks] == [True, True]
    assert "left out, as hidden or as data: .6 (1 file)" in log
    assert "comes home under a name that every system takes: '6:' as '6%3A'" in log
    assert len(log) == 14

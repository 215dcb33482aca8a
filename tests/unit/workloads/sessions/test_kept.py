"""What outlives a session: whole checkpoints, the two newest, and nothing half copied."""

from __future__ import annotations

from pathlib import Path

from trainplan.workloads.sessions.kept import Keeper, restore, whole_checkpoints


def checkpoint(run_dir: Path, step: int, *, whole: bool = True) -> Path:
    folder = run_dir / "checkpoints" / f"step-{step:08}"
    folder.mkdir(parents=True)
    (folder / "state.npz").write_bytes(b"weights" * step)
    if whole:
        (folder / "complete.json").write_text("{}", encoding="utf-8")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_the_two_newest_whole_checkpoints_are_kept(tmp_path: Path) -> None:
    run_dir, kept = tmp_path / "run", tmp_path / "kept"
    keeper = Keeper(run_dir, kept, lambda text: None)
    assert not keeper.keep_checkpoint()
    for step in (1, 2, 3):
        checkpoint(run_dir, step)
        assert keeper.keep_checkpoint()
        assert not keeper.keep_checkpoint()  # it is there already
    checkpoint(run_dir, 4, whole=False)
    assert not keeper.keep_checkpoint()
    assert names(kept) == ["step-00000002", "step-00000003"]


def test_what_is_deleted_is_empty_before(tmp_path: Path) -> None:
    run_dir, kept = tmp_path / "run", tmp_path / "kept"
    keeper = Keeper(run_dir, kept, lambda text: None)
    for step in (1, 2):
        checkpoint(run_dir, step)
        keeper.keep_checkpoint()
    trash = tmp_path / "trash"
    trash.hardlink_to(kept / "checkpoints" / "step-00000001" / "state.npz")
    checkpoint(run_dir, 3)
    keeper.keep_checkpoint()
    assert trash.read_bytes() == b""


def test_remains_of_a_lost_session_are_taken_away_and_never_restored(tmp_path: Path) -> None:
    run_dir, kept = tmp_path / "run", tmp_path / "kept"
    checkpoint(kept, 5)
    checkpoint(kept, 6, whole=False)
    remains = kept / "checkpoints" / ".new-step-00000007"
    remains.mkdir()
    (remains / "complete.json").write_text("{}", encoding="utf-8")
    Keeper(run_dir, kept, lambda text: None)
    assert not remains.exists()
    assert restore(kept, run_dir) == 1
    assert restore(kept, run_dir) == 0
    assert [path.name for path in whole_checkpoints(run_dir)] == ["step-00000005"]


def test_a_full_drive_is_told_once_and_tried_again(tmp_path: Path) -> None:
    run_dir, kept = tmp_path / "run", tmp_path / "kept"
    told: list[str] = []
    keeper = Keeper(run_dir, kept, told.append)
    kept.write_text("no folder can be made here", encoding="utf-8")
    for step in (1, 2):
        checkpoint(run_dir, step)
        assert not keeper.keep_checkpoint()
    assert len(told) == 1
    assert "training goes on" in told[0]
    kept.unlink()
    assert keeper.keep_checkpoint()

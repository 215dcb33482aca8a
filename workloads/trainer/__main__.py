"""The command a container runs: read the job, train it, and say by exit code how it went."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from trainplan.workloads.job import TrainingJob, job_from_json
from trainplan.workloads.steady import anchored
from trainplan.workloads.trainer.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_WITH_RESULTS,
    BadInputError,
    DeadlineReached,
    TrainerError,
    TrainingStopped,
)
from trainplan.workloads.trainer.loop import train
from trainplan.workloads.trainer.own_script import run_script
from trainplan.workloads.trainer.prepare import Setting
from trainplan.workloads.trainer.printed_cover import cover_prints
from trainplan.workloads.trainer.process_group import ProcessGroup, process_group
from trainplan.workloads.trainer.progress import Clock, Progress, State, complain
from trainplan.workloads.trainer.sweep import train_sweep
from trainplan.workloads.trainer.tries import RATE_ONLY, TRY_KINDS, end_with, is_out_of_memory, train_tries
from trainplan.workloads.trainer.watch import Limits, StopRequest

# As TensorFlow 2.21, PyTorch 2.13 (gloo) and JAX 0.10.2 (gloo) say it when a process is killed.
_PEER_LOST = ("collective ops is aborted", "connection closed by peer", "connection reset by peer")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 65 bad job or data, 69 a server was not reached, 70 failed, 75 stopped, 76 deadline
    reached, 77 failed, stopped or at the deadline, with results."""
    options = _parser().parse_args(arguments)
    clock = Clock(wall=anchored())
    try:
        group = process_group(os.environ)
    except BadInputError as error:
        complain(f"error: {error}")
        return error.exit_code
    try:
        progress = Progress(_own_folder(options.run_dir / "attempts" / str(options.attempt), group), clock)
    except OSError as error:
        complain(f"error: the run directory cannot be written: {error}")
        return EXIT_FAILED
    stop = StopRequest()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _asks(stop))
    return _run(options, progress, clock, stop, group)


def _own_folder(attempt: Path, group: ProcessGroup) -> Path:
    """Rank 0 tells of the attempt; what the others tell lies beside it, for whoever looks for a fault."""
    return attempt / "ranks" / str(group.rank) if group.rank else attempt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainplan.workloads.trainer", description="Train one job.", allow_abbrev=False
    )
    parser.add_argument("--job", type=Path, required=True, help="the job as JSON")
    parser.add_argument("--run-dir", type=Path, required=True, help="everything is written below it")
    parser.add_argument("--attempt", type=int, required=True, help="which attempt at the run this is, from 1")
    parser.add_argument("--data-dir", type=Path, help="where data lies or is downloaded to (default: RUN_DIR/data)")
    parser.add_argument("--max-steps", type=_positive, help="end after so many steps: a measuring run")
    parser.add_argument(
        "--max-seconds", type=float, help="end a measuring run so many seconds behind its first step, however few steps"
    )
    parser.add_argument(
        "--until-steady",
        action="store_true",
        help="end a measuring run as soon as windows along it agree, and measure data and checkpoint too: a pilot",
    )
    parser.add_argument(
        "--try-settings",
        action="store_true",
        help="try micro-batches and XLA, each in a process of its own, for two minutes at most: a pilot of --max-steps",
    )
    parser.add_argument("--as-try", choices=TRY_KINDS, help="be one of these, which ends when its standard input does")
    parser.add_argument("--until-epoch", type=_positive, help="pause after this epoch: a trial of a sweep")
    parser.add_argument(
        "--until-share",
        type=_share,
        help="of a script that is a trial: pause after this share of its steps (1/9); 1 runs it to its end",
    )
    parser.add_argument("--figure", default="", help="of such a script: the figure that ranks it, which it reports")
    parser.add_argument(
        "--write-now",
        action="store_true",
        help="train no further: test the newest checkpoint and write the output of it, as a sweep does that ends early",
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="end as soon as standard input does: its other end is the parent's"
    )
    parser.add_argument("--deadline-unix", type=float, help="seconds since 1970; write a checkpoint and end by then")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _share(text: str) -> Fraction:
    share = Fraction(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return share


def _asks(stop: StopRequest) -> Callable[[int, FrameType | None], None]:
    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        stop.signal_name = signal.Signals(number).name

    return ask


def _run(options: argparse.Namespace, progress: Progress, clock: Clock, stop: StopRequest, group: ProcessGroup) -> int:
    try:
        job = _job(options.job)
        limits = Limits(
            checkpoint_every_seconds=job.checkpoint_every.total_seconds(),
            deadline_unix=options.deadline_unix,
            max_steps=options.max_steps,
            max_seconds=options.max_seconds,
            until_steady=options.until_steady,
            is_try=options.as_try is not None,
            rate_only=options.as_try == RATE_ONLY,
            until_epoch=options.until_epoch,
            writes_now=options.write_now,
            until_share=options.until_share,
            figure=options.figure,
            stop=stop,
        )
        data_dir = options.data_dir or options.run_dir / "data"
        if limits.max_seconds is not None and not group.is_alone:
            raise BadInputError("--max-seconds is for one process; several measure by --max-steps")
        if limits.until_steady and limits.max_steps is None:
            raise BadInputError("--until-steady is for a measuring run: --max-steps says how long it may last")
        if options.try_settings and not (limits.until_steady and group.is_alone):
            raise BadInputError("--try-settings is for one process, with --until-steady and --max-steps")
        if options.as_try or options.with_parent:
            end_with(sys.stdin.fileno())
        setting = Setting(
            run_dir=options.run_dir, data_dir=data_dir, limits=limits, progress=progress, clock=clock, group=group
        )
        _train(job, setting, options)
    except (TrainingStopped, DeadlineReached) as reason:
        state = State.STOPPED if isinstance(reason, TrainingStopped) else State.DEADLINE
        progress.status(state, str(reason))
        return reason.exit_code
    except TrainerError as error:
        # The results are whole: whoever started this collects them, and reads in metrics.json that training failed.
        state = State.DONE if error.exit_code == EXIT_WITH_RESULTS else State.FAILED
        return _failed(progress, str(error), error.exit_code, state)
    except Exception as error:  # noqa: BLE001 - the person gets one line, the log the rest
        progress.details(traceback.format_exc())
        return _failed(progress, explained(error, group), EXIT_FAILED)
    return EXIT_DONE


def _train(job: TrainingJob, setting: Setting, options: argparse.Namespace) -> None:
    if job.model.file is not None:
        cover_prints()
    if job.sweep is not None:
        train_sweep(job, setting, options.attempt)
    elif job.script is not None:
        run_script(job, setting, options.attempt)
    elif options.try_settings:
        train_tries(job, setting)
    else:
        train(job, setting)


def _job(path: Path) -> TrainingJob:
    try:
        return job_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"the job cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadInputError(f"{path} is not a job: {where}: {first['msg']}") from error


def _failed(progress: Progress, message: str, exit_code: int, state: State = State.FAILED) -> int:
    complain(f"error: {message}")
    progress.status(state, message)
    return exit_code


def explained(error: Exception, group: ProcessGroup) -> str:
    """What a person reads of an error that the trainer did not foresee, and what to do."""
    text = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:300]}"
    whole = f"{type(error).__name__} {error}".lower()
    if not group.is_alone and any(sign in whole for sign in _PEER_LOST):
        return (
            f"another of the {group.processes} processes has ended or cannot be reached; its own output says why, and "
            f"the run goes on from its newest checkpoint when all begin again ({text})"
        )
    if is_out_of_memory(whole):
        return f"the batch does not fit into the memory there is; write a smaller global_batch_size ({text})"
    return f"training failed: {text}"


if __name__ == "__main__":
    sys.exit(main())

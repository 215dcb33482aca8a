"""A trainer that plays a part; which one, the job's name says: quick, long, hang, deaf, fill, or look."""

import argparse
import json
import shutil
import signal
import socket
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--job", type=Path)
parser.add_argument("--run-dir", type=Path)
parser.add_argument("--attempt", type=int)
options, _ = parser.parse_known_args()
folder = options.run_dir / "attempts" / str(options.attempt)
folder.mkdir(parents=True, exist_ok=True)
STEPS = {"long": 120}
"""Steps of an epoch by the job's name, each half a second long; other jobs have five."""
KEEPS_EVERY = 10
stop_event = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop_event.set())


def say(event, **fields):
    now = datetime.now(UTC).isoformat()  # noqa: TID251  a program of its own
    with (folder / "progress.jsonl").open("a") as file:
        file.write(json.dumps({"event": event, "time": now, **fields}) + "\n")


def keep(step):
    place = options.run_dir / "checkpoints" / f"step-{step:08}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "weights").write_bytes(b"x" * 1000)
    (place / "complete.json").write_text(json.dumps({"step": step}))


def kept():
    """The step of the newest checkpoint, 0 where there is none."""
    found = (options.run_dir / "checkpoints").glob("step-*/complete.json")
    return max((json.loads(path.read_text())["step"] for path in found), default=0)


def result(name, data):
    output = options.run_dir / "output"
    output.mkdir(parents=True, exist_ok=True)
    (output / name).write_text(data)


def reached(host, port):
    """What TCP says to it: an answer, or its refusal."""
    try:
        socket.create_connection((host, port), timeout=60).close()
    except OSError as error:
        return type(error).__name__
    return "open"


def resolved(name):
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        return str(error)


def train():
    for step in range(done_steps + 1, total_steps + 1):
        say("step", step=step, epoch=1, loss=1.0 / step, accuracy=0.5, images_per_second=100.0)
        stops = stop_event.wait(0.5)
        if stops or step % KEEPS_EVERY == 0:
            keep(step)
            say("checkpoint", step=step)
        if stops:
            sys.exit(75)
    result("model.txt", "trained\n")


def hang():
    say("step", step=1, epoch=1, loss=1.0, accuracy=0.5, images_per_second=100.0)
    stop_event.wait()
    sys.exit(75)


def deaf():
    say("step", step=1, epoch=1, loss=1.0, accuracy=0.5, images_per_second=100.0)
    threading.Event().wait()


def fill():
    say("step", step=1, epoch=1, loss=1.0, accuracy=0.5, images_per_second=100.0)
    with (options.run_dir / "scratch").open("wb") as file:
        while not stop_event.wait(0.05):
            try:
                file.write(b"\0" * (8 << 20))
                file.flush()
            except OSError:
                stop_event.wait(300)
    sys.exit(75)


def look():
    seen = {
        "metadata": reached("169.254.169.254", 80),
        "host agent": reached("168.63.129.16", 80),
        "name": resolved("public.ecr.aws"),
        "resolver over TCP": reached("169.254.169.254", 53),
        "resolver": Path("/etc/resolv.conf").read_text(),
    }
    result("seen.json", json.dumps(seen))


job = json.loads(options.job.read_text())
done_steps, total_steps = kept(), STEPS.get(job["name"], 5) * job["epochs"]
say(
    "start",
    device_kind="gpu" if shutil.which("nvidia-smi") else "cpu",
    device_name="T4",
    device_count=1,
    framework="plain",
    framework_version="0",
    steps_per_epoch=total_steps,
    epochs=1,
    total_steps=total_steps,
    resumed_from_step=done_steps,
)
{"quick": train, "long": train, "hang": hang, "deaf": deaf, "fill": fill, "look": look}[job["name"]]()
say(
    "end",
    state="done",
    step=total_steps,
    epoch=1,
    images_per_second=100.0,
    hold_out_accuracy=None,
    train_seconds=3.0,
    total_seconds=3.0,
)

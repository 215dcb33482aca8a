"""How long `plan data check` takes on many small images: python -m benchmarks.data_check [--copies].

Writes a folder of grey-level noise, 32x32 px PNG in ten classes, and checks it a few times in processes of their own.
With `--copies` a tenth of the images are copies of others, in the same class.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_CLASSES = 10
_COPY_EVERY = 10


def write_images(folder: Path, images: int, *, copies: bool) -> None:
    """Write so many images, one in ten of them a copy of the one before it where `copies`."""
    import io

    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    data = b""
    for number in range(images):
        place = folder / f"class{number * _CLASSES // images}"
        place.mkdir(parents=True, exist_ok=True)
        if not (copies and number % _COPY_EVERY == 1):
            file = io.BytesIO()
            Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(file, "PNG")
            data = file.getvalue()
        (place / f"{number:06}.png").write_bytes(data)


def seconds_of_a_check(folder: Path) -> tuple[float, float]:
    """Wall-clock seconds and seconds of the processors of one check."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [Path(sys.executable).parent / "plan", "data", "check", folder],
        env=os.environ | {"PLAN_HOME": str(folder.parent / "home")},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.monotonic() - begin, used


def main() -> None:
    """Print the seconds of each check and the least of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--folder", type=Path, help="Keep the images there, or use those that are there")
    parser.add_argument("--times", type=int, default=3)
    choice = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = choice.folder or Path(place) / "data"
        if not folder.is_dir():
            write_images(folder, choice.images, copies=choice.copies)
        rows = [seconds_of_a_check(folder) for _ in range(choice.times)]
    for wall, used in rows:
        print(f"{wall:.1f} s, {used:.1f} s of processors")
    print(f"least: {min(wall for wall, _ in rows):.1f} s, {min(used for _, used in rows):.1f} s of processors")


if __name__ == "__main__":
    main()

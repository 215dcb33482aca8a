"""What a script needs and will not find where it trains: packages that nobody installs, and files that stay here."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from trainplan.providers.cloud.trainer_wheel import pinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.workloads.job import TrainingJob

# Packages that are imported by another name than their own. Assumed, as these projects are known in 2026-11: no row was
# checked against its wheel. A wrong row costs a false line; a launch is refused only where no package is named at all.
_PACKAGES_OF = {
    "absl": "absl-py", "attr": "attrs", "Bio": "biopython", "bs4": "beautifulsoup4", "clip": "openai-clip",
    "cv2": "opencv-python opencv-python-headless opencv-contrib-python opencv-contrib-python-headless",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv", "faiss": "faiss-cpu faiss-gpu", "fitz": "pymupdf",
    "git": "gitpython", "google": "protobuf", "hydra": "hydra-core", "magic": "python-magic",
    "mpl_toolkits": "matplotlib", "open_clip": "open-clip-torch",
    "OpenSSL": "pyopenssl", "osgeo": "gdal", "pasta": "google-pasta", "PIL": "pillow pillow-simd",
    "pkg_resources": "setuptools", "pl_bolts": "lightning-bolts",
    "pynvml": "nvidia-ml-py pynvml", "pytorch_lightning": "pytorch-lightning lightning", "ruamel": "ruamel.yaml",
    "serial": "pyserial", "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "usb": "pyusb", "wx": "wxpython", "yaml": "pyyaml",
    "zmq": "pyzmq",
}  # fmt: skip


def packages_of(name: str) -> list[str]:
    """The packages any of which is imported by a name: the one of the table, else those that are installed in this
    Python, else that of the same name."""
    if name in _PACKAGES_OF:
        return _PACKAGES_OF[name].split()
    return sorted(set(_installed().get(name, ()))) or [name]


@cache
def _installed() -> dict[str, list[str]]:
    return {**packages_distributions()}


def missing(job: TrainingJob, *, is_this_python: bool) -> list[str]:
    """What a script imports and nobody installs: neither the framework's software nor its requirements."""
    read = job.read_script
    if read is None:
        return []
    there = versions(pinned(f"{job.framework}-cpu"))
    there |= dict.fromkeys((normal_name(re.split(r"[\s\[<>=!~;(]", one)[0]) for one in read.dependencies), "")
    absent = [name for name in read.imports if not any(normal_name(one) in there for one in packages_of(name))]
    return [name for name in absent if not is_this_python or importlib.util.find_spec(name) is None]


def missing_text(job: TrainingJob, names: Sequence[str]) -> str:
    """What a person is told of packages that are missing."""
    other = {name: packages_of(name)[0] for name in names}
    shown = [name if normal_name(name) == normal_name(of) else f"{name} (package {of})" for name, of in other.items()]
    return (
        f"{script_name(job)} imports {', '.join(shown)}: not beside it, not in its requirements, and not "
        f"installed with {job.framework}"
    )


def left_behind_lines(job: TrainingJob) -> list[str]:
    """What a person is told of files beside a script that it names and will not find."""
    read = job.read_script
    if read is None or not read.left_behind:
        return []
    file = script_name(job)
    names = ", ".join(read.left_behind[:3]) + (", …" if len(read.left_behind) > 3 else "")
    path = f'Path(__file__).parent / "{read.left_behind[0]}"'
    root = PurePosixPath(read.inside)
    if all(any(PurePosixPath(one.path).is_relative_to(root / name) for one in read.files) for name in read.left_behind):
        return [f"{file} names {names}, which travels with it, and starts in another folder: write {path}"]
    return [
        f"{file} names {names} beside it, which stays here. If it reads that: texts travel with script: "
        f"{{file: {file}, folder: .}} and are found at {path}; data is fetched by the script (docs/own-script.md)"
    ]


def script_name(job: TrainingJob) -> str:
    """The name of the script's file."""
    return Path(str(job.script)).name


def versions(text: str) -> dict[str, str]:
    """Versions by normalised name of a pinned list."""
    rows = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE)
    return {normal_name(name): version for name, version in rows}


def normal_name(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()

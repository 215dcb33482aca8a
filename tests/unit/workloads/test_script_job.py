"""A job with a script of the person's own: how it is written, what is refused, and what travels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import a_script
from trainplan.workloads.job import TrainingJob, job_from_json, json_schema, shown_job
from trainplan.workloads.job_mistakes import JobFileError
from trainplan.workloads.jobfile import read_job
from trainplan.workloads.script import argument_words

BLOCK = """\
# /// script
# dependencies = ["pandas>=2", "rich"]
# [tool.trainplan]
# checkpoints = true
# constraints = {deadline = "2h"}
# ///
"""


def write(folder: Path, job: str, script: str = "print(1)\n", **files: str) -> Path:
    (folder / "train.py").write_text(script, encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "job.yaml").write_text(f"name: mine\n{job}", encoding="utf-8")
    return folder / "job.yaml"


def refused(path: Path) -> str:
    with pytest.raises(JobFileError) as error:
        read_job(path)
    return f"{error.value.message} | {error.value.hint}"


def test_a_job_names_its_script(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, "script: train.py\nargs: {epochs: 3, fast: true, lr: 0.1}\n"))
    assert job.script == str(tmp_path / "train.py")
    assert argument_words(job.args) == ("--epochs", "3", "--fast", "--lr", "0.1")
    assert job.read_script is not None
    assert job.read_script.source == "print(1)\n"
    assert not job.is_measured_script


def test_a_script_alone_is_a_job(tmp_path: Path) -> None:
    write(tmp_path, "", BLOCK + "import torch\n")
    job = read_job(tmp_path / "train.py")
    assert job.name == "train"
    assert job.checkpoints
    assert job.constraints.deadline is not None
    assert job.framework == "torch"
    assert job.read_script is not None
    assert job.read_script.dependencies == ("pandas>=2", "rich")


def test_the_job_file_counts_before_the_table_of_the_script(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, "script: train.py\ncheckpoints: false\nframework: jax\n", BLOCK))
    assert not job.checkpoints
    assert job.framework == "jax"


def test_it_travels_whole_and_comes_back_the_same(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, "script: train.py\nargs: [--lr, 0.1]\nrequirements: needs.txt\n",
                         **{"needs.txt": "rich>=13  # shows\n\n# nothing\npandas\n"}))  # fmt: skip
    again = job_from_json(job.to_json())
    assert again == job
    assert again.digest() == job.digest()
    assert again.read_script is not None
    assert again.read_script.dependencies == ("rich>=13", "pandas")
    assert "source" not in json.dumps(shown_job(job)["read_script"])
    assert not {"model", "data", "epochs", "optimizer"} & set(json.loads(job.to_json()))


SWEEP = {"args.width": [8, 16], "args.depth": [1, 2], "maximize": "score"}


@pytest.mark.parametrize("sweep", [{}, {"checkpoints": True, "sweep": SWEEP}])
def test_it_is_the_same_job_in_whatever_order_its_arguments_are_written_and_as_json(sweep: dict[str, object]) -> None:
    job = a_script(args={"epochs": 30, "lr": 0.1, "fast": True}, **sweep)
    other = a_script(args={"lr": 0.1, "fast": True, "epochs": 30}, **sweep)
    again = job_from_json(job.to_json())
    assert job.digest() == again.digest() == other.digest()
    assert argument_words(job.args) == argument_words(again.args) == argument_words(other.args)


def test_its_digest_is_that_of_what_runs(tmp_path: Path) -> None:
    path = write(tmp_path, "script: train.py\nargs: {lr: 0.1}\n")
    before = read_job(path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert read_job(write(elsewhere, "script: train.py\nargs: [--lr, 0.1]\n")).digest() == before.digest()
    assert read_job(write(tmp_path, "script: train.py\nargs: {lr: 0.2}\n")).digest() != before.digest()
    assert read_job(write(tmp_path, "script: train.py\nargs: {lr: 0.1}\n", "print(2)\n")).digest() != before.digest()


def test_work_that_was_measured_is_no_part_of_it(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, "script: train.py\n"))
    measured = job.with_work(5000)
    assert measured.is_measured_script
    assert measured.train_images == 5000
    assert measured.digest() == job.digest()
    assert job_from_json(measured.to_json()) == job


@pytest.mark.parametrize(
    ("job", "script", "message"),
    [
        ("script: [train.py, other.py]\n", "", "a job has one script"),
        ("script: .\n", "", "is a folder"),
        ("script: nothing.py\n", "", "there is no file"),
        ("script: job.yaml\n", "", "is no Python file"),
        ("script: train.py\n", "def (:\n", "line 1: not valid Python"),
        ("script: train.py\n", BLOCK + "\n" + BLOCK, "2 blocks of metadata"),
        ("script: train.py\n", "x = 1\nget_ipython().system('pip install a')\n", "line 2: get_ipython() is there in a"),
        (
            "script: train.py\n",
            "import os\nrank = int(os.environ['LOCAL_RANK'])\n",
            "line 2: LOCAL_RANK is set by torchrun",
        ),
        (
            "script: train.py\nargs: {lr: 0.1}\n",
            "import argparse\np = argparse.ArgumentParser().add_subparsers(dest='c', required=True)\n",
            "write args as a list of words, a command first",
        ),
        ("script: train.py\n", "import click\n@click.group()\ndef main(): ...\n", "a command first"),
        ("script: train.py\n", "from .models import Net\n", "line 1: a script has no package"),
        (
            "script: train.py\n",
            '# /// script\n# dependencies = ["A_b>=1"]\n# [tool.uv.sources]\n# a-b = {git = "https://x"}\n# ///\n',
            "[tool.uv.sources] takes a-b from elsewhere",
        ),
        ("script: train.py\n", "# /// script\n# dependencies = 3\n# ///\n", "list of texts"),
        ("script: train.py\n", "# /// script\n# = 3\n# ///\n", "not valid TOML"),
        ("script: train.py\n", '# /// script\n# [tool.trainplan]\n# script = "x.py"\n# ///\n', "names a script"),
        ("script: train.py\nrequirements: job.yaml\n", BLOCK, "two lists of the same"),
        ("script: train.py\nmodel: {preset: vgg16}\n", "", "a script decides that itself"),
        ("script: train.py\nepochs: 3\n", "", "a script decides that itself"),
        ("script: train.py\nargs: 3\n", "", "args: needs keys and values"),
        ("script: train.py\nargs: [[1]]\n", "", "an argument is a text"),
        ("script: train.py\nread_script: {}\n", "", "read_script"),
        ("model: {preset: vgg16}\ndata: {name: cifar10}\nepochs: 1\nglobal_batch_size: 8\nargs: {a: 1}\n", "", "args"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_made(tmp_path: Path, job: str, script: str, message: str) -> None:
    assert message in refused(write(tmp_path, job, script or "print(1)\n"))


@pytest.mark.parametrize(
    "args",
    [
        "{api-key: abcdef}",
        "{hub_token: abcdef}",
        "[--password, hunter2]",
        "[--wandb-api-key=abcdef]",
        "{url: 'https://me:secret@host/x'}",
        "{key: AKIAABCDEFGHIJKLMNOP}",
        "{model: hf_abcdefghijklmnopqrstuvwxyzabcdefgh}",
    ],
)
def test_a_secret_among_the_arguments_is_refused_and_not_repeated(tmp_path: Path, args: str) -> None:
    said = refused(write(tmp_path, f"script: train.py\nargs: {args}\n"))
    assert "secret" in said
    for value in ("abcdef", "hunter2", "me:secret", "AKIAABC"):
        assert value not in said


def test_tokens_of_a_text_are_no_secret(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, "script: train.py\nargs: {max-tokens: 512, tokenizer: bert, token-drop: 0.1}\n"))
    assert argument_words(job.args)[:2] == ("--max-tokens", "512")


def test_a_folder_travels_with_its_script(tmp_path: Path) -> None:
    source = tmp_path / "src"
    for name, text in {"conf/a.yaml": "lr: 1\n", "train.py": "import net\n", "net.py": "", ".env": "KEY=1\n"}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "net.pyc").write_bytes(b"\xff")
    job_file = tmp_path / "job.yaml"
    job_file.write_text("name: mine\nscript: {file: train.py, folder: src}\n")
    job = read_job(job_file)
    assert job.read_script is not None
    assert job.script == str(source / "train.py")
    assert [(file.path, file.source) for file in job.read_script.files] == [("net.py", ""), ("conf/a.yaml", "lr: 1\n")]
    assert job_from_json(job.to_json()) == job


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("weights.h5", b"\x89HDF\xff", "weights.h5 is no text in UTF-8"),
        ("notes\n.txt", b"", "is no plain name"),
        ("large.csv", b"a" * 600_000, "512 KiB (the largest so far is large.csv)"),
        ("key.yaml", b"password: postgres://me:hunter22@example.com/x", "key.yaml, line 1: this seems to be a secret"),
    ],
)
def test_what_cannot_travel_with_a_script_is_refused_by_name(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("")
    (tmp_path / "src" / name).write_bytes(content)
    (tmp_path / "job.yaml").write_text("name: mine\nscript: {file: train.py, folder: src}\n")
    with pytest.raises(JobFileError) as error:
        read_job(tmp_path / "job.yaml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{file: train.py}", "write script: train.py, or script: {file: train.py, folder: src}"),
        ("{file: a/train.py, folder: .}", "there is no file"),
        ("{file: train.py, folder: there}", "there is no folder"),
        ("{file: train.py, folder: 3}", "a job has one script"),
    ],
)
def test_a_folder_that_is_none_is_refused(value: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(f"name: mine\nscript: {value}\n")
    with pytest.raises(JobFileError) as error:
        read_job(tmp_path / "job.yaml")
    assert message in f"{error.value} {error.value.hint}"


def test_the_files_that_it_imports_travel_with_it(tmp_path: Path) -> None:
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "__init__.py").write_text("from .bar import progress\n")
    (tmp_path / "utils" / "bar.py").write_text("import json, pandas\nprogress = print\n")
    (tmp_path / "utils" / "unused.py").write_text("import nothing\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.py").write_text("key = 1\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "utils").rename(folder / "utils")
    (folder / "secret.py").symlink_to(elsewhere / "secret.py")
    script = "import torch\nfrom models import net\nimport utils.bar\nimport trainplan_run\nimport secret\n"
    script += "try:\n    import wandb\nexcept ImportError:\n    pass\n"
    path = write(folder, "script: train.py\n", script, **{"models.py": "def net(): return 1\n"})
    (folder / "trainplan_run.py").write_text("")
    read = read_job(path).read_script
    assert read is not None
    assert sorted(file.path for file in read.files) == ["models.py", "utils/__init__.py", "utils/bar.py"]
    assert read.imports == ("pandas", "secret", "torch"), "a link that leads out of the folder is no neighbour"
    before = read_job(path).digest()
    (folder / "models.py").write_text("def net(): return 2\n")
    assert read_job(path).digest() != before
    assert "def net" not in json.dumps(shown_job(read_job(path)))


@pytest.mark.parametrize("path", ["../up.py", "/etc/x.py", "a/../b.py", ".hidden", "a/.b.py", "a//b.py", "a\nb"])
def test_no_file_travels_to_another_place(path: str) -> None:
    read = {"sha256": "0" * 64, "source": "", "files": [{"path": path, "source": ""}]}
    with pytest.raises(JobFileError):
        a_script(read_script=read)


def test_a_tree_without_end_does_not_travel(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"m{number}.py").write_text(f"import m{number + 1}\n")
    assert "200 files" in refused(write(tmp_path, "script: train.py\n", "import m0\n"))


@pytest.mark.parametrize(
    ("script", "framework"),
    [
        ("from ultralytics import YOLO\n", "torch"),
        ("import timm\n", "torch"),
        ("from transformers import Trainer\n", "torch"),
        ("import tensorflow as tf\nfrom transformers import TFAutoModel\n", "tensorflow"),
        ("import os\nos.environ['KERAS_BACKEND'] = 'torch'\nimport keras\n", "torch"),
        ("import os\nos.environ.setdefault('KERAS_BACKEND', 'jax')\nimport keras\n", "jax"),
        ("import torch\nimport keras\n", "torch"),
        ("import jax\nimport keras\n", "tensorflow"),
        ("import optax\n", "jax"),
        ("import keras\n", "tensorflow"),
        ("print(1)\n", "tensorflow"),
    ],
)
def test_a_library_over_a_framework_means_that_one(tmp_path: Path, script: str, framework: str) -> None:
    assert read_job(write(tmp_path, "script: train.py\n", script)).framework == framework


def test_two_frameworks_are_asked_about(tmp_path: Path) -> None:
    script = "import torch\nimport tensorflow\n"
    assert "imports torch and tensorflow" in refused(write(tmp_path, "script: train.py\n", script))
    assert read_job(write(tmp_path, "script: train.py\nframework: torch\n", script)).framework == "torch"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_requirements_are_read_in_the_encodings_that_pip_reads(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, "script: train.py\nrequirements: needs.txt\n")
    (tmp_path / "needs.txt").write_bytes("six>=1.16\r\nrich\r\n".encode(encoding))
    read = read_job(path).read_script
    assert read is not None
    assert read.dependencies == ("six>=1.16", "rich")


@pytest.mark.parametrize(
    "line",
    [
        "git+https://github.com/a/b",
        "b @ git+https://x/y",
        "numpy=1.26.0=py310h5f9d8c6_0",
        "./folder",
        "numpy=1.2",
        "torch==2.1.0+cu118",
    ],
)
def test_what_cannot_be_locked_is_refused_when_the_job_is_read(tmp_path: Path, line: str) -> None:
    needs = {"needs.txt": f"{line}\n"}
    assert "cannot be locked" in refused(write(tmp_path, "script: train.py\nrequirements: needs.txt\n", **needs))


def test_a_requirement_may_go_on_in_the_next_line(tmp_path: Path) -> None:
    needs = {"needs.txt": "numpy \\\n  >=1.20\nrich\n"}
    read = read_job(write(tmp_path, "script: train.py\nrequirements: needs.txt\n", **needs)).read_script
    assert read is not None
    assert [one.split() for one in read.dependencies] == [["numpy", ">=1.20"], ["rich"]]


def test_lists_of_other_programs_are_named_as_such(tmp_path: Path) -> None:
    needs = {"environment.yml": "dependencies:\n  - python=3.9\n"}
    path = write(tmp_path, "script: train.py\nrequirements: environment.yml\n", **needs)
    assert "environment.yml is no list of pip's" in refused(path)


@pytest.mark.parametrize(
    "script",
    [
        "import os\nrank = int(os.environ['RANK']) if 'RANK' in os.environ else 0\n",
        "import os\nos.environ['RANK'] = '0'\nrank = int(os.environ['RANK'])\n",
        "import os\nos.environ.setdefault('RANK', '0')\nrank = int(os.environ['RANK'])\n",
        "import os\nif 'RANK' in os.environ:\n    rank = int(os.environ['RANK'])\n",
        "import os\ndef dist():\n    return int(os.environ['RANK'])\n",
    ],
)
def test_a_script_that_may_do_without_torchrun_is_taken(tmp_path: Path, script: str) -> None:
    assert read_job(write(tmp_path, "script: train.py\n", script)).read_script is not None


def test_options_of_pip_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "script: train.py\nrequirements: needs.txt\n", **{"needs.txt": "--index-url https://x\n"})
    assert "an option of pip" in refused(path)


def test_the_schema_takes_either(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema()
    jsonschema.validate({"name": "a", "script": "train.py", "args": {"lr": 0.1}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "a", "epochs": 1}, schema)
    assert "read_script" not in schema["properties"]
    assert TrainingJob.model_fields["script"].description


def folder_of(tmp_path: Path) -> Path:
    """A repository: scripts/train.py imports a module of its folder and one of the top."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("import near\nfrom config.sizes import WIDTH\nimport nobodys\n")
    (tmp_path / "scripts" / "near.py").write_text("from config import sizes\n")
    (tmp_path / "config" / "sizes.py").write_text("WIDTH = 3\n")
    (tmp_path / "config" / "a.yaml").write_text("lr: 1\n")
    return tmp_path / "job.yaml"


@pytest.mark.parametrize("file", ["scripts/train.py", "./scripts/train.py"])
def test_a_script_lies_anywhere_in_the_folder_that_travels(tmp_path: Path, file: str) -> None:
    path = folder_of(tmp_path)
    path.write_text(f"name: mine\nscript: {{file: {file}, folder: .}}\n")
    read = read_job(path).read_script
    assert read is not None
    assert read.inside == "scripts"
    assert {one.path for one in read.files} == {"config/sizes.py", "config/a.yaml", "scripts/near.py", "job.yaml"}
    assert read.imports == ("nobodys",)


def test_a_script_is_named_as_from_its_folder_or_from_the_job(tmp_path: Path) -> None:
    path = folder_of(tmp_path)
    for file in ("train.py", "scripts/train.py"):
        path.write_text(f"name: mine\nscript: {{file: {file}, folder: scripts}}\n")
        read = read_job(path).read_script
        assert read is not None
        assert (read.inside, [one.path for one in read.files]) == ("", ["near.py"])
        assert read.imports == ("config", "nobodys")


def test_a_script_outside_of_its_folder_is_refused(tmp_path: Path) -> None:
    path = folder_of(tmp_path)
    path.write_text("name: mine\nscript: {file: scripts/train.py, folder: config}\n")
    assert "scripts/train.py does not lie in script.folder" in refused(path)


@pytest.mark.parametrize("args", ["{config: ./conf/a.yaml, lr: 1}", "[--config, conf/a.yaml]"])
def test_a_file_that_an_argument_names_is_seen(tmp_path: Path, args: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a.yaml").write_text("lr: 1\n")
    read = read_job(write(tmp_path, f"script: train.py\nargs: {args}\n")).read_script
    assert read is not None
    assert read.left_behind == ("conf/a.yaml",)


@pytest.mark.parametrize(
    ("source", "script", "left"),
    [
        ("open('conf/a.yaml')", "train.py", ("conf/a.yaml",)),
        ("open(Path(__file__).parent / 'conf' / 'a.yaml')", "train.py", ("conf",)),
        ("np.load('./points.npz'); open('out.txt', 'w'); open('/etc/hosts')", "train.py", ("points.npz",)),
        ("open('conf/a.yaml')", "{file: train.py, folder: .}", ("conf/a.yaml",)),
        ("open(Path(__file__).parent / 'conf' / 'a.yaml')", "{file: train.py, folder: .}", ()),
        ("@hydra.main(config_path='conf')\ndef main(): ...", "train.py", ("conf",)),
        ("@hydra.main(config_path='conf')\ndef main(): ...", "{file: train.py, folder: .}", ()),
        ("import own\nrun('own', 'train.py')", "train.py", ()),
    ],
)
def test_files_that_a_script_names_and_will_not_find_are_seen(
    tmp_path: Path, source: str, script: str, left: tuple[str, ...]
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a.yaml").write_text("lr: 1\n")
    (tmp_path / "points.npz").write_text("1")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text("")
    read = read_job(write(tmp_path, f"script: {script}\n", source)).read_script
    assert read is not None
    assert read.left_behind == left

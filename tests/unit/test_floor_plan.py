"""The rooms of `planner/` and the floor plan of every cloud (docs/adr/0021-rooms-and-floor-plan.md)."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PLANNER_MODULES = {"__init__", "clock", "errors", "settings"}
ROOMS = {"cli", "datasets", "drill", "forecast", "home", "report", "runs", "throughput"}
PROVIDERS_MODULES = {"__init__", "base", "errors", "hardware", "registry", "values"}
"""`hardware` is this computer as hardware, which the planner and providers/local look at."""
SHARED = {"agent", "cloud", "stores"}
"""Folders of `providers/` that belong to no vendor."""
OF_THIS_COMPUTER = {"local", "sim", "slurm"}
"""Providers that rent nothing: a floor plan of rented machines does not fit them."""

PLAN = {
    "account": "what is looked up in an account, each once",
    "api": "the calls as they leave: a protocol, and the SDK behind it",
    "bill": "what bills in an account, for plan burn",
    "deadline": "what ends a machine when nobody else does",
    "doctor": "what every launch needs",
    "errors": "the vendor's codes, and the reaction each calls for",
    "listing": "what of ours there is, by label",
    "obtainability": "how likely the vendor says a machine is obtained",
    "permissions": "roles and policies as data",
    "preflight": "whether an offer may be launched",
    "prices": "live prices, and what a thing that was listed costs",
    "provider": "the protocol of providers/base.py",
    "quotas": "which quota a machine counts in",
    "reply": "what the vendor shows, as values of the seam",
    "request": "a launch as the calls that create it",
    "resolution": "what a launch looks up before anything is sent",
    "settings": "what a person sets",
    "setup": "carries out what a set-up makes or removes",
    "setup_steps": "the steps that make and remove standing resources",
    "store": "run directories in the vendor's object storage",
}
CLOUDS = ("aws", "azure", "gcp", "gcp/tpu")

OTHERS = {
    "local": {
        "api": "the calls of a container engine, and the values that cross them",
        "calibrate": "how fast this machine trains now, by the trainer itself",
        "command": "another program: its output, its exit code, and a limit on its time",
        "containers": "one of two hosts: a container of Docker or Podman",
        "engine": "Docker and Podman by their command lines",
        "here": "what both hosts share: folders, GPUs, whether there is room",
        "image": "the trainer image, built on this computer",
        "inside": "files of a run directory that a container writes too: no link leads out of it",
        "offers": "this computer's processor and GPUs as offers",
        "pids": "which process a pid means",
        "process": "one of two hosts: a process of this Python",
        "provider": "the protocol of providers/base.py",
        "records": "what is written down of each attempt that was started here",
        "settings": "what a person sets",
        "store": "a run directory that is a folder",
        "supervise": "a program of its own beside a trainer that is a process",
        "translate": "a launch as what is run here, and what is seen as values of the seam",
    },
    "sim": {
        "__main__": "the command of the simulated cloud's own process",
        "api": "the calls of a client, and the simulated cloud's time",
        "attempt_record": "what a machine signs of its results",
        "calls": "a client's call: counted, carried out, met by faults",
        "catalogue": "what is rented out, where and for how much",
        "draws": "chance that a seed decides",
        "faults": "which fault meets a call",
        "ledger": "what ever was there, and what it cost",
        "life": "what happens to a machine next",
        "objects": "the object store",
        "operations": "one method for each operation",
        "persistence": "the simulated cloud on disk",
        "process": "how the process is found, started and ended",
        "provider": "the protocol of providers/base.py",
        "scenario": "the file in which a person writes how it behaves",
        "server": "JSON over HTTP on loopback",
        "stock": "whether a machine can be had, and how often spot takes one back",
        "store": "a run directory in the object store",
        "tables": "what is remembered, by key",
        "training": "what a trainer would write, and when",
        "translate": "values and codes of the simulated cloud as those of the seam",
        "values": "machines, what comes with them, and what goes wrong on purpose",
        "world": "the state and the time",
    },
    "slurm": {
        "api": "the commands as they leave: a protocol, and a shell here or over ssh behind it",
        "doctor": "what every launch needs, and whether a partition takes a job",
        "errors": "what Slurm's commands complain of, and the reaction each calls for",
        "offers": "partitions as offers",
        "provider": "the protocol of providers/base.py",
        "queue": "how long a job would wait",
        "reply": "jobs and what they leave in their run directory, as values of the seam",
        "request": "a launch as the sbatch that makes its job",
        "settings": "what a person sets",
        "store": "a run directory on the shared file system",
    },
    "agent": {
        "__main__": "the command of agent.pyz",
        "agent": "one attempt from its first status to its last",
        "archives": "archives of a data set become files",
        "blob": "a run directory in Azure Blob Storage",
        "checkpoints": "checkpoints between the disk and the store",
        "clock": "time that is handed in",
        "container": "the machine's one container",
        "downloads": "what a run needs besides its image",
        "end": "ends the machine",
        "endings": "how an attempt ends, in the words of status.json",
        "gate": "whether the accelerator can be seen",
        "gcs": "a run directory in Google Cloud Storage",
        "images": "the image onto the machine, by its digest",
        "logs": "the container's output on its way to the store",
        "loop": "duties that are done when they are due",
        "machine": "what is found on the machine",
        "notices": "the cloud's word that it takes the machine away",
        "output": "the results and their manifest",
        "plain_file": "files that a container writes too: nothing that it left is followed",
        "processes": "commands of the machine",
        "progress": "progress.jsonl on its way to the store",
        "registries": "logging in to the person's own registry",
        "requests": "reads the run directory; also sent alone, for the first boot",
        "s3": "a run directory in S3",
        "schema": "the form of what a trainer writes about itself",
        "signatures": "vouches for checkpoints and results with the run's key",
        "spec": "spec.json and boot.json as values",
        "status": "status.json, written again and again",
        "store": "the run directory as the machine sees it",
        "stores": "which store a run directory is in",
        "training": "the container while it trains",
        "vault": "secrets, cut out of everything that is said",
        "watch": "what can end an attempt at any moment",
        "web": "a file from an open web address",
    },
}
"""Folders that rent nothing, each with a plan of its own: what each module is for."""

BESIDES = {
    "azure": {
        "launch": "a machine is seven calls, each waited for, and taken back where one is refused",
        "names": "everything is found again by its name, which eleven modules share",
    },
    "gcp": {
        "compute": "one of Google's two ways to a machine; the other is gcp/tpu/provider.py",
        "kinds": "how an offer is spelled: machine type, accelerator, disk, quotas; seven modules share it",
        "part": "the protocol of both ways",
    },
    "gcp/tpu": {
        "data_disk": "a machine's own disk is fixed at 100 GiB; the data disk is a call to another API",
    },
}
_PROJECTS = "the project's, in providers/gcp"
WITHOUT = {
    "gcp": {
        "deadline": "Compute Engine ends machines itself: maxRunDuration, in request.py",
    },
    "gcp/tpu": {
        **dict.fromkeys(
            ("account", "bill", "doctor", "permissions", "quotas", "settings", "setup", "store"), _PROJECTS
        ),
        "obtainability": "Google's advice is about machines of Compute Engine",
        "prices": "the API tells none; providers/gcp/prices.py has the catalog's",
        "setup_steps": _PROJECTS,
    },
}


def modules_in(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")}


def folders_in(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def only_reexports(tree: ast.Module) -> bool:
    """Whether there is nothing in a module but a docstring, imports and `__all__`."""
    rest = [node for node in tree.body if not imports(node)]
    rest = [node for node in rest if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return all(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in rest)


def imports(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def misplaced(folder: str, there: set[str]) -> set[str]:
    """What is wrong with the modules of a cloud's folder, in words."""
    besides, without = BESIDES.get(folder, {}), WITHOUT.get(folder, {})
    there = there - {"__init__"}
    wrong = {f"{name} is in no plan" for name in there - set(PLAN) - set(besides)}
    wrong |= {f"{name} is missing, without a reason" for name in set(PLAN) - there - set(without)}
    wrong |= {f"{name} is there, and the table says that it is not" for name in there & set(without)}
    return wrong | {f"{name} is not there, and the table says that it is" for name in set(besides) - there}


def test_the_planner_has_its_rooms_and_no_module_beside_them() -> None:
    assert modules_in(ROOT / "planner") == PLANNER_MODULES
    assert folders_in(ROOT / "planner") == ROOMS


def test_providers_have_the_shared_folders_and_one_for_each_vendor() -> None:
    vendors = {cloud.partition("/")[0] for cloud in CLOUDS}
    assert modules_in(ROOT / "providers") == PROVIDERS_MODULES
    assert folders_in(ROOT / "providers") == SHARED | OF_THIS_COMPUTER | vendors


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_cloud_has_the_modules_of_the_floor_plan(cloud: str) -> None:
    assert misplaced(cloud, modules_in(ROOT / "providers" / cloud)) == set()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_folders_within_a_cloud_have_the_floor_plan_too(cloud: str) -> None:
    within = {f"{cloud}/{name}" for name in folders_in(ROOT / "providers" / cloud)}
    assert within <= set(CLOUDS)


@pytest.mark.parametrize("folder", OTHERS)
def test_a_folder_that_rents_nothing_has_the_modules_of_its_own_plan(folder: str) -> None:
    assert modules_in(ROOT / "providers" / folder) - {"__init__"} == set(OTHERS[folder])
    assert not folders_in(ROOT / "providers" / folder)


@pytest.mark.parametrize(
    ("there", "wrong"),
    [
        (set(PLAN) | {"utils"}, {"utils is in no plan"}),
        (set(PLAN) - {"reply"}, {"reply is missing, without a reason"}),
    ],
)
def test_the_plan_notices(there: set[str], wrong: set[str]) -> None:
    assert misplaced("aws", there) == wrong


def test_the_tables_of_exceptions_are_about_clouds_and_modules_of_the_plan() -> None:
    assert {*BESIDES, *WITHOUT} <= set(CLOUDS)
    assert all(name in PLAN for names in WITHOUT.values() for name in names)
    assert not [name for names in BESIDES.values() for name in names if name in PLAN]


PATHS = sorted(path for package in ("planner", "providers") for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('"""A."""\nfrom a import b\n__all__ = ["b"]\n', True),
        ('"""A."""\nfrom a import b\n', True),
        ('"""A."""\nfrom a import b\nc = b\n', False),
        ('"""A."""\ndef f(): ...\n', False),
    ],
)
def test_a_module_that_only_reexports_is_known(text: str, *, is_one: bool) -> None:
    assert only_reexports(ast.parse(text)) is is_one


def test_no_module_only_reexports() -> None:
    """A package's own module says what the folder is for, and imports nothing."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PATHS}
    assert [path for path, tree in trees.items() if path.stem != "__init__" and only_reexports(tree)] == []
    packages = {path: tree for path, tree in trees.items() if path.stem == "__init__"}
    assert [path for path, tree in packages.items() if any(map(imports, tree.body))] == []


def steps_told(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """The files that a page names, each with the names in the same breath: `a.py` `b`, `c`."""
    named = re.findall(r"`([\w/]+\.py)`((?:,?\s+`\w+`)*)", page)
    return [(file, tuple(re.findall(r"`(\w+)`", names))) for file, names in named]


@pytest.mark.parametrize(("room", "least"), [("runs", 30), ("forecast", 15)])
def test_the_pages_that_tell_a_launch_and_an_estimate_name_what_is_there(room: str, least: int) -> None:
    page = ast.get_docstring(ast.parse((ROOT / "planner" / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    steps = steps_told(page)
    assert len(steps) >= least
    for file, names in steps:
        path = next((path for path in (ROOT / "planner" / file, ROOT / file) if path.is_file()), None)
        assert path, file
        kinds = (ast.FunctionDef, ast.ClassDef)
        there = {node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)}
        assert set(names) <= there, file


def test_a_page_that_names_something_else_is_noticed() -> None:
    assert steps_told("`a.py` `b` and `c`, then `d/e.py` `f`,\n  `g`; `h.py`.") == [
        ("a.py", ("b",)), ("d/e.py", ("f", "g")), ("h.py", ()),
    ]  # fmt: skip


def imported_at_run_time(tree: ast.AST) -> Iterator[str]:
    """What a module imports when it is imported or used, but not what it imports for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        else:
            yield from imported_at_run_time(node)


def circles(imports_of: Mapping[str, set[str]]) -> list[str]:
    """Modules that import themselves by way of others."""
    found = []
    for start in imports_of:
        seen: set[str] = set()
        left = list(imports_of[start])
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left.extend(imports_of[name])
        if start in seen:
            found.append(start)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even within functions: a circle has no module that can be read first."""
    packages = ("workloads", "pricing", "providers", "planner")
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    trees = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text("utf-8")
        )
        for path in paths
    }
    assert circles({name: set(imported_at_run_time(tree)) & set(trees) for name, tree in trees.items()}) == []


def test_a_circle_is_noticed() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    code = "if TYPE_CHECKING:\n    import a\nimport b\ndef f():\n    from c import d\n"
    assert set(imported_at_run_time(ast.parse(code))) == {"b", "c", "c.d"}


def test_the_import_rules_name_every_vendor_and_every_room() -> None:
    """A folder that is added and forgotten in pyproject.toml would be held to nothing."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    by_name = {rule["name"]: rule for rule in rules}
    vendors = {f"providers.{name}" for name in folders_in(ROOT / "providers") - SHARED}
    assert set(by_name["Vendor folders never import each other"]["modules"]) == vendors
    known = by_name["What vendors share knows no vendor"]
    assert set(by_name["The planner knows no vendor: it asks the registry"]["forbidden_modules"]) == vendors
    assert vendors <= {*known["source_modules"], *known["forbidden_modules"]}
    assert {f"providers.{name}" for name in SHARED - {"agent"}} <= set(known["source_modules"])
    rooms = by_name["Rooms of the planner import downwards only"]["layers"]
    assert {name.strip() for layer in rooms for name in layer.split("|")} == {f"planner.{name}" for name in ROOMS}
    edge = by_name["typer and rich stay at the edge"]["source_modules"]
    assert {f"planner.{name}" for name in ROOMS - {"cli"}} <= set(edge)

"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import ROOT
from trainplan.planner.cli.app import commands
from trainplan.providers.registry import FACTORIES, PROVEN_CLOUDS
from trainplan.providers.stores.registry import FACTORIES as STORES

SOURCE = ROOT / "src"
PACKAGES = ("workloads", "pricing", "providers", "planner", "extensions")
MODULES = [
    SOURCE / "trainplan" / "__init__.py",
    *sorted(path for package in PACKAGES for path in (SOURCE / "trainplan" / package).rglob("*.py")),
]
MOST_LINES = 600
COPIED_WHOLE = {"trainplan.workloads.reporting.trainplan_run": 700}
"""What people copy beside their own script as one file (docs/own-script.md) is not split."""
TEST_MODULES = sorted((ROOT / "tests").rglob("*.py"))
MOST_TEST_LINES = 700
LEAST_PATIENCE_SECONDS = 60
"""Below it, a limit for what hangs would end what is only slow on a busy computer."""
MOST_FUNCTION_LINES = 50


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


# The trainer runs in the container, where its framework is; `data` of the agent has programs of the machine's own.
# The check of imports below leaves both out.
NOT_IMPORTED = ("trainplan.workloads.trainer", "trainplan.providers.agent.data")
IMPORTABLE = [name for name in map(dotted, MODULES) if not name.startswith(NOT_IMPORTED)]


def test_modules_are_short() -> None:
    lengths = {dotted(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert not {name: lines for name, lines in lengths.items() if lines > COPIED_WHOLE.get(name, MOST_LINES)}


def test_test_modules_are_short() -> None:
    long = {
        dotted(path): lines
        for path in TEST_MODULES
        if (lines := len(path.read_text("utf-8").splitlines())) > MOST_TEST_LINES
    }
    assert not long, "divide it by its subjects"


def test_limits_for_what_hangs_are_long() -> None:
    """What waits for a process, a thread or an answer, and gives up: `timeout=`."""
    short = [
        f"{path.relative_to(ROOT)}:{node.value.lineno}: {node.value.value}"
        for path in TEST_MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "timeout" and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, int | float) and 0 < node.value.value < LEAST_PATIENCE_SECONDS
    ]
    assert short == []


def _functions() -> Iterator[tuple[str, int]]:
    """Every function's name, and its lines without its docstring."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                said = node.body[0]
                doc = isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant) and len(node.body) > 1
                begin = node.body[1].lineno if doc else said.lineno
                yield f"{dotted(path)}.{node.name}", (node.end_lineno or begin) - begin + 1


def test_functions_are_short() -> None:
    lengths = dict(_functions())
    assert {name: lines for name, lines in lengths.items() if lines > MOST_FUNCTION_LINES} == {}


# Third parties may look around while they are imported; ours may not. They are imported first.
IMPORTS = """
import importlib, json, os, sys
for name in "typer rich.live rich.progress pydantic yaml platformdirs sqlite3 importlib.metadata".split():
    importlib.import_module(name)

done = []

def hook(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "sqlite3.connect", "os.mkdir", "os.remove")):
        done.append(event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        done.append(f"open {{arguments[0]}}")

def asks(read):
    def reads(*arguments):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] == "trainplan":
            done.append(f"{{caller}} reads the environment")
        return read(*arguments)
    return reads

kind = type(os.environ)
kind.__getitem__, kind.get, os.getenv = asks(kind.__getitem__), asks(kind.get), asks(os.getenv)
sys.addaudithook(hook)
for name in {modules!r}:
    importlib.import_module(name)
print(json.dumps([done, sorted(sys.modules)]))
"""


def test_importing_does_nothing(tmp_path: Path) -> None:
    """No network, no environment, no file, no process, no SDK, no framework."""
    code = IMPORTS.format(modules=IMPORTABLE)
    there = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=there, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    done, modules = json.loads(ran.stdout)
    assert done == []
    tops = {name.partition(".")[0] for name in modules}
    assert tops & {"tensorflow", "keras", "jax", "torch", "numpy", "sklearn", "boto3", "botocore", "azure"} == set()
    assert not [name for name in modules if name.startswith("google.")]
    assert sorted(tmp_path.iterdir()) == []


def test_the_registry_and_the_folders_of_providers_agree() -> None:
    folders = {path.parent.name for path in (ROOT / "providers").glob("*/provider.py")}
    assert set(FACTORIES) == folders


NAMES_PROVIDERS = {
    "planner/forecast/spot.py": "how often each vendor's spot machines are taken back, as it was measured or published",
    "planner/home/files.py": "the names of a home's folders",
}
"""What of the planner has a provider's name in its text, and why."""


def test_the_planner_treats_no_provider_by_its_name() -> None:
    """`trainplan.providers.registry` tells what a provider is (`is_here`, `is_simulated`, CLOUDS)."""
    named = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "planner").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in FACTORIES
    }
    assert named == set(NAMES_PROVIDERS)


def test_the_registry_and_the_folders_of_stores_agree() -> None:
    """Providers that rent nothing make their stores themselves."""
    folders = {path.parent.name for path in (ROOT / "providers").glob("*/store.py")}
    assert set(STORES) == folders - {"local", "sim", "slurm", "agent", "stores"}
    assert all(path.partition(":")[0] == f"trainplan.providers.{name}.store" for name, path in STORES.items())


@pytest.mark.parametrize("name", list(FACTORIES))
def test_every_provider_can_be_made(name: str) -> None:
    module, _, factory = FACTORIES[name].partition(":")
    assert module.startswith(f"trainplan.providers.{name}.")
    assert callable(getattr(import_module(module), factory))


def test_every_command_is_built() -> None:
    files = {path.stem for path in (ROOT / "planner" / "cli" / "commands").glob("*.py")} - {"__init__"}
    assert set(commands()) == files | {path.parent.name for path in (ROOT / "extensions").glob("*/command.py")}


def test_the_package_says_that_it_is_typed() -> None:
    assert (SOURCE / "trainplan" / "py.typed").is_file()


def test_an_editable_installation_has_one_name() -> None:
    """It puts `src` on the path, and nothing else of the checkout."""
    assert [path.name for path in SOURCE.iterdir()] == ["trainplan"]
    code = "import importlib.util as u; print([n for n in {names!r} if u.find_spec(n)])"
    words = [sys.executable, "-P", "-c", code.format(names=("trainplan", *PACKAGES, "scripts"))]
    there = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(words, env=there, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['trainplan']"


SHARED = {"agent", "cloud", "stores"}
"""Folders of `providers/` that belong to no vendor."""


def modules_in(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")}


def folders_in(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def test_clouds_share_the_names_of_their_modules() -> None:
    """Whoever knows one cloud's folder finds the same thing in another's (ADR 40). A cloud
    that is not proven may lack most of them."""
    names = {name: modules_in(ROOT / "providers" / name) for name in PROVEN_CLOUDS}
    everywhere = set.intersection(*names.values())
    assert len(everywhere) >= 15
    alone = {name for modules in names.values() for name in modules - everywhere}
    assert len(alone) <= 10, "a module that one cloud alone has needs a reason"


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
    trees = {dotted(path): ast.parse(path.read_text("utf-8")) for path in MODULES}
    assert circles({name: set(imported_at_run_time(tree)) & set(trees) for name, tree in trees.items()}) == []


def test_a_circle_is_noticed() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    code = "if TYPE_CHECKING:\n    import a\nimport b\ndef f():\n    from c import d\n"
    assert set(imported_at_run_time(ast.parse(code))) == {"b", "c", "c.d"}


def test_the_import_rules_name_every_vendor_and_every_room() -> None:
    """A folder that is added and forgotten in pyproject.toml would be held to nothing."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    by_name = {rule["name"]: rule for rule in rules}
    vendors = {f"trainplan.providers.{name}" for name in folders_in(ROOT / "providers") - SHARED}
    assert set(by_name["Vendor folders never import each other"]["modules"]) == vendors
    known = by_name["What vendors share knows no vendor"]
    assert set(by_name["The planner knows no vendor: it asks the registry"]["forbidden_modules"]) == vendors
    assert vendors <= {*known["source_modules"], *known["forbidden_modules"]}
    assert {f"trainplan.providers.{name}" for name in SHARED - {"agent"}} <= set(known["source_modules"])
    rooms = {f"trainplan.planner.{name}" for name in folders_in(ROOT / "planner")}
    layers = by_name["Rooms of the planner import downwards only"]["layers"]
    assert {name.strip() for layer in layers for name in layer.split("|")} == rooms
    extensions = {f"trainplan.extensions.{name}" for name in folders_in(ROOT / "extensions")}
    assert set(by_name["Extensions never import each other"]["modules"]) == extensions
    assert rooms - {"trainplan.planner.cli"} <= set(by_name["typer and rich stay at the edge"]["source_modules"])


AT_THE_ROOT = {
    *(
        ".ci",
        ".devcontainer",
        ".github",
        ".gitignore",
        ".pre-commit-config.yaml",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "SECURITY.md",
    ),
    *(
        "Makefile",
        "README.md",
        "benchmarks",
        "docs",
        "examples",
        "extensions",
        "hatch_build.py",
        "planner",
        "pricing",
        "providers",
    ),
    *("pyproject.toml", "requirements", "scripts", "src", "tests", "workloads"),
}


def test_no_output_of_a_run_lies_at_the_root() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name.partition("/")[0] for name in listed.stdout.splitlines()} == AT_THE_ROOT

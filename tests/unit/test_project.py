"""The project keeps its promises to those who install it: light, pinned, licensed, and naming no machine."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

OPTIONAL = ["transformers", "timm", "torchvision", "keras", "PIL", "yaml", "sklearn", "scipy", "babel", "fastapi"]

MEASURE_IMPORT = """
import json, sys, time
import torch
before = set(sys.modules)
start = time.perf_counter()
import clearhead
seconds = time.perf_counter() - start
assert clearhead.__file__, "clearhead has no __init__.py"
print(json.dumps({"seconds": seconds, "new": sorted(set(sys.modules) - before)}))
"""

# What a CUDA build of torch brings along; we pin for CPU builds.
GPU_RUNTIME = ("nvidia-", "cuda-", "triton")

# Put together here, so that this file does not contain what it looks for.
UNWANTED = [
    "".join(parts)
    for parts in [
        ("pypi", ".org"),
        ("registry", ".npmjs"),
        ("files.python", "hosted"),
        ("deb.debian", ".org"),
        ("/wo", "rk/"),
    ]
]


def import_once() -> dict:
    """Seconds and new modules of `import clearhead` after `import torch`, in a process of its own."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE_IMPORT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_clearhead_costs_little_beyond_torch():
    times = []
    while len(times) < 5 and min(times, default=1.0) > 0.3:
        times.append(import_once()["seconds"])
    assert min(times) <= 0.3


def test_import_clearhead_imports_no_optional_extra():
    roots = {name.partition(".")[0] for name in import_once()["new"]}
    assert "clearhead" in roots
    assert roots.isdisjoint(OPTIONAL)


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(text) for group in [project["dependencies"], *extras] for text in group]


def brought_by_dev() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]


def test_constraints_pin_torch_without_a_local_tag():
    assert pins()["torch"] == "2.13.0"


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_every_dependency_is_a_range_and_is_pinned_inside_it(requirement):
    assert not any(part.operator == "==" for part in requirement.specifier)
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)])


def installed_dependencies() -> set[str]:
    """Names of everything that the project's requirements bring here, directly or through others."""
    found, todo = set(), brought_by_dev()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        asked = (name, *sorted(requirement.extras))
        if asked in found or name.startswith(GPU_RUNTIME):
            continue
        found.add(asked)
        for inner in map(Requirement, metadata.requires(name) or []):
            extras = [{"extra": extra} for extra in ["", *requirement.extras]]
            if inner.marker is None or any(inner.marker.evaluate(extra) for extra in extras):
                todo.append(inner)
    return {name for name, *_ in found}


def test_constraints_name_everything_that_gets_installed():
    try:
        names = installed_dependencies()
    except metadata.PackageNotFoundError as missing:
        pytest.skip(f"the dev extra is not installed here: {missing.name} is missing")
    assert names - set(pins()) == set()
    assert len(names) > len(brought_by_dev())


def test_the_licence_is_apache_2():
    text = (ROOT / "LICENSE").read_text()
    assert re.search(r"Apache License\s+Version 2\.0, January 2004", text)
    assert "END OF TERMS AND CONDITIONS" in text
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"


def project_files() -> list[Path]:
    """Files that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout, so there is no list of tracked files")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_package_registry_or_a_machine_path():
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in project_files()
        for text in UNWANTED
        if text.encode() in path.read_bytes()
    ]
    assert found == []

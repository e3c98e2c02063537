"""The least versions that are allowed: none has a known hole in what this package uses."""

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
ROOT = Path(__file__).parents[1]
# The first version without a hole, in code that this package calls with files of others.
SAFE = {
    "torch": "2.6",  # CVE-2025-32434: torch.load ran code from a checkpoint even with weights_only=True
    "pyarrow": "14.0.1",  # CVE-2023-47248: code from a Parquet file
    "pillow": "10.3",  # CVE-2023-50447, CVE-2024-28219
    "lightning": "2.6.1",  # of later ones, 2.6.2 and 2.6.3 were malware
}


def requirements():
    """Return each requirement of the package by name, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    parsed = [Requirement(line) for line in lines]
    return {one.name.lower(): one for one in parsed if one.name != "mgce"}


def pins(name):
    """Return the versions of each package, for any Python."""
    versions = {}
    for line in (ROOT / name).read_text().splitlines():
        if "==" in line:
            package, version = line.lower().partition(";")[0].split("==")
            versions.setdefault(package, set()).add(version.strip())
    return versions


@pytest.mark.parametrize("name", SAFE)
def test_no_version_with_a_known_hole_is_allowed(name):
    (floor,) = [one.version for one in requirements()[name].specifier if one.operator == ">="]
    assert Version(floor) >= Version(SAFE[name])


def test_releases_that_were_malware_are_excluded():
    allowed = requirements()["lightning"].specifier
    assert "2.6.1" in allowed and "2.6.2" not in allowed and "2.6.3" not in allowed


def test_no_version_under_a_licence_that_binds_users_is_allowed():
    """Version by version, as the metadata on PyPI have it: AGPL-3.0 up to 2.7.1, Apache-2.0 from 2.8.0 on."""
    allowed = requirements()["cleanlab"].specifier
    assert not any(version in allowed for version in ("2.6.6", "2.7.0", "2.7.1"))
    assert all(version in allowed for version in ("2.8.0", "2.9.0"))


@pytest.mark.parametrize("name", sorted(requirements()))
def test_what_is_required_is_under_a_permissive_licence(name):
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        pytest.skip("is not installed here")
    classifiers = [one for one in found.get_all("Classifier") or () if one.startswith("License ::")]
    stated = found.get("License-Expression") or found.get("License") or ""
    first_line = stated.strip().split("\n")[0]  # the text may follow
    licence = " ".join([*classifiers, first_line]).strip()
    assert licence and not re.search(r"Affero|GNU General Public|GPL", licence), licence


def test_the_tested_versions_are_allowed():
    tested = pins("constraints.txt")
    for name, requirement in requirements().items():
        if name in tested:
            assert all(version in requirement.specifier for version in tested[name]), name


def test_triton_may_be_the_one_that_the_cuda_builds_of_pytorch_ask_for():
    (line,) = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("triton")]
    allowed = Requirement(line).specifier
    asked_for = [Requirement(one) for one in metadata.requires("torch") or () if one.startswith("triton")]
    # What PyTorch 2.13.0 on PyPI asks for; a build without CUDA, as the tests have, asks for none.
    assert all(version in allowed for version in ("3.7.1", "3.9.0"))
    assert all(next(iter(one.specifier)).version in allowed for one in asked_for)

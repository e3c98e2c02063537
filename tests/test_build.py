"""Builds of one version tell themselves apart, and the hook that builds wheels names their platforms."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import mgce
from mgce import _machine
from mgce.estimators.archive import pack

ROOT = Path(__file__).parents[1]


@pytest.fixture
def fresh():
    _machine.build.cache_clear()
    yield
    _machine.build.cache_clear()


@pytest.fixture
def hook(monkeypatch):
    # Hatchling is in the environments of builds alone; what is tested needs only the name of the class.
    monkeypatch.setitem(
        sys.modules, "hatchling.builders.hooks.plugin.interface", SimpleNamespace(BuildHookInterface=object)
    )
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_wheel_names_the_build_that_it_holds(fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(_machine, "__file__", str(tmp_path / "mgce/_machine.py"))
    (tmp_path / "mgce").mkdir()
    assert _machine.build() == mgce.__version__  # a build without git
    _machine.build.cache_clear()
    (tmp_path / "mgce/_build.txt").write_text("20260102.0123456789+changes\n")
    assert _machine.build() == f"{mgce.__version__} (20260102.0123456789+changes)"
    assert _machine.describe()["mgce"] == _machine.build()
    assert b"20260102.0123456789+changes" in pack({}, [])


def test_a_checkout_names_its_commit(fresh):
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout of git")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(rf"{re.escape(mgce.__version__)} \(20\d{{6}}\.{commit[:10]}, checkout\)", _machine.build())


def test_a_repository_around_an_installed_package_is_not_its_build(fresh, monkeypatch):
    monkeypatch.setattr(_machine, "__file__", str(ROOT / "tests/venv/mgce/_machine.py"))
    assert _machine.build() == mgce.__version__


def test_the_hook_names_builds_as_a_checkout_does(hook, tmp_path):
    assert hook._build_of(str(tmp_path)) == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    clean = hook._build_of(str(tmp_path))
    (tmp_path / "new").touch()
    assert re.fullmatch(r"20\d{6}\.[0-9a-f]{10}", clean) and hook._build_of(str(tmp_path)) == f"{clean}+changes"


def test_each_platform_has_a_compiler_and_its_instruction_sets(hook, monkeypatch, tmp_path):
    run = []
    monkeypatch.setattr(hook, "_run", lambda command: run.append(command) or Path(command[-1]).touch())
    made = {
        tag: [one.name for one in hook._compile_all(hook._zig(tag), tag, tmp_path, tmp_path)] for tag in hook.PLATFORMS
    }
    names = ["_cpu_default", "_cpu_avx2", "_cpu_avx512"]
    assert made == {
        "manylinux_2_28_x86_64": [f"{name}.so" for name in names],
        "manylinux_2_28_aarch64": ["_cpu_default.so"],
        "macosx_11_0_arm64": ["_cpu_default.so"],
        "win_amd64": [f"{name}.dll" for name in names],
    }
    compiled, linked = ([command for command in run if ("-shared" in command) == shared] for shared in (False, True))
    assert len(compiled) == 8 * len(hook.SOURCES) and len(linked) == 8
    assert all(("-fPIC" in command) == ("x86_64-windows-gnu" not in command) for command in compiled)
    assert not any(option.startswith("-mavx") for command in linked for option in command)
    with pytest.raises(ValueError, match="Expected `MGCE_PLATFORM` to be one of"):
        hook._zig("linux")
    assert hook.ZIG in (ROOT / "constraints.txt").read_text().splitlines()

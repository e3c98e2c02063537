"""Compile the CPU kernels when the package is built: once for each instruction set, as plain shared libraries.

The libraries know nothing of Python or PyTorch, so one wheel for each platform serves every version of both. Without a
C++ compiler that knows vector types (GCC or Clang) the package is built without them, and works by plain tensor
operations; MGCE_REQUIRE_KERNEL=1 makes that an error. With MGCE_PLATFORM the wheel is for one of `PLATFORMS`, whatever
machine builds it, and Zig compiles: `.ci/wheels` builds all.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path("src/mgce/kernels")
SOURCES = ("cpu_kernel.cpp", "cpu_softmax.cpp", "cpu_trim.cpp")
# Operations mean what IEEE 754 says, but a product and a sum may be rounded once; nothing reads errno or traps.
ARITHMETIC = ("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
FLAGS = ("-std=c++17", "-O3", "-fvisibility=hidden", *ARITHMETIC)
# The instructions that PyTorch requires before it calls a processor by these names.
X86_VARIANTS = {
    "default": (),
    "avx2": ("-mavx2", "-mfma"),
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"),
}
# What Zig calls the oldest system that PyTorch's own wheels are for, by the tag of a wheel for it.
PLATFORMS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}
ZIG = "ziglang==0.17.1"  # as in constraints.txt
BUILD = "_build.txt"  # in the package: which build of a version this is


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Add the compiled libraries to a wheel, and leave them beside the sources for an editable one."""

    def dependencies(self) -> list[str]:
        """Return what a build for a stated platform needs."""
        return [ZIG] if os.environ.get("MGCE_PLATFORM") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the build; of a wheel, compile and name the platform in its tag."""
        self._folder = tempfile.TemporaryDirectory()
        if version != "editable":
            self._name_build(build_data)
        if self.target_name != "wheel":
            return
        stated = os.environ.get("MGCE_PLATFORM", "")
        if stated:
            tag, folder, compiler = stated, Path(self._folder.name), _zig(stated)
        else:
            tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            folder = Path(self.root) / KERNELS
            compiler = shlex.split(os.environ.get("CXX", "")) or [shutil.which("c++") or shutil.which("clang++") or ""]
        try:
            libraries = _compile_all(compiler, stated, Path(self.root) / KERNELS, folder)
        except (OSError, subprocess.CalledProcessError) as error:
            if stated or os.environ.get("MGCE_REQUIRE_KERNEL") == "1":
                raise
            reason = getattr(error, "stderr", "") or str(error)
            self.app.display_warning(f"mgce is built without its compiled CPU kernel, and slower: {reason}")
            return
        if stated:
            build_data["force_include"].update({str(one): f"mgce/kernels/{one.name}" for one in libraries})
        else:
            build_data["artifacts"].extend(f"{KERNELS.as_posix()}/{one.name}" for one in libraries)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled for a stated platform."""
        self._folder.cleanup()

    def _name_build(self, build_data: dict[str, Any]) -> None:
        """Add the date and commit of the sources, which a wheel that is built from an sdist takes from there."""
        home = "src/mgce" if self.target_name == "sdist" else "mgce"
        known = Path(self.root) / "src/mgce" / BUILD
        if not known.exists():
            known = Path(self._folder.name) / BUILD
            known.write_text(_build_of(self.root))
        build_data["force_include"][str(known)] = f"{home}/{BUILD}"


def _build_of(root: str) -> str:
    """Return the date and commit of a checkout, and whether it was changed since; "unknown" without git."""
    try:
        shown = ("log", "-1", "--format=%cd.%H", "--date=format:%Y%m%d"), ("status", "--porcelain")
        commit, changes = (
            subprocess.run(["git", "-C", root, *words], check=True, capture_output=True, text=True).stdout
            for words in shown
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit[: len("20260101.") + 10] + ("+changes" if changes.strip() else "")


def _zig(stated: str) -> list[str]:
    if stated not in PLATFORMS:
        raise ValueError(f"Expected `MGCE_PLATFORM` to be one of {', '.join(PLATFORMS)}, but got {stated!r}.")
    return [sys.executable, "-m", "ziglang", "c++", "-target", PLATFORMS[stated], "-g0", "-s"]


def _compile_all(compiler: list[str], stated: str, sources: Path, folder: Path) -> list[Path]:
    """Compile for each instruction set of a platform, or of this machine; return the libraries."""
    system = stated or f"{sys.platform}_{platform.machine().lower()}"
    windows, x86 = system.startswith("win"), system.endswith(("x86_64", "amd64"))
    suffix, position = (".dll", ()) if windows else (".so", ("-fPIC",))
    variants = X86_VARIANTS if x86 else {"default": ()}
    with tempfile.TemporaryDirectory() as parts, ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = {(name, source): Path(parts) / f"{name}-{source}.o" for name in variants for source in SOURCES}
        steps = [
            [*compiler, *FLAGS, *position, *variants[name], "-c", str(sources / source), "-o", str(made)]
            for (name, source), made in objects.items()
        ]
        list(pool.map(_run, steps))
        # Linked without the instructions of a variant: what the C++ library brings runs on every processor.
        libraries = [folder / f"_cpu_{name}{suffix}" for name in variants]
        own = [[str(made) for (of, _), made in objects.items() if of == name] for name in variants]
        list(pool.map(lambda library, files: _link([*compiler, "-shared", *files], library), libraries, own))
    return libraries


def _link(command: list[str], library: Path) -> None:
    # Written beside its place and renamed, so that no process ever loads half of it.
    part = library.with_name(f"{library.stem}.{os.getpid()}{library.suffix}")
    try:
        _run([*command, "-o", str(part)])
        part.replace(library)
    finally:
        part.unlink(missing_ok=True)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)

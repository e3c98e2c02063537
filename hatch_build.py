"""Compile the CPU kernel when the package is built: once for each instruction set, as plain shared libraries.

The libraries know nothing of Python or PyTorch, so one wheel for each platform serves every version of both. Without a
C++ compiler that knows vector types (GCC or Clang) the package is built without them, and works by plain tensor
operations; MGCE_REQUIRE_KERNEL=1 makes that an error.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path("src/mgce/kernels")
SOURCES = ("cpu_kernel.cpp", "cpu_softmax.cpp", "cpu_trim.cpp")
# Operations mean what IEEE 754 says, but a product and a sum may be rounded once; nothing reads errno or traps.
ARITHMETIC = ("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
FLAGS = ("-std=c++17", "-O3", "-shared", "-fvisibility=hidden", *ARITHMETIC)
# The instructions that PyTorch requires before it calls a processor by these names.
X86_VARIANTS = {
    "default": (),
    "avx2": ("-mavx2", "-mfma"),
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"),
}


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Add the compiled libraries to a wheel, and leave them beside the sources for an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform in the tag of the wheel."""
        if self.target_name != "wheel":
            return
        folder = Path(self.root) / KERNELS
        compiler = shlex.split(os.environ.get("CXX", "")) or [shutil.which("c++") or shutil.which("clang++") or ""]
        try:
            with ThreadPoolExecutor() as pool:
                compiled = [
                    pool.submit(_compile, compiler, options, folder / f"_cpu_{variant}{_suffix()}")
                    for variant, options in _variants().items()
                ]
            for library in compiled:
                library.result()
        except (OSError, subprocess.CalledProcessError) as error:
            if os.environ.get("MGCE_REQUIRE_KERNEL") == "1":
                raise
            reason = getattr(error, "stderr", "") or str(error)
            self.app.display_warning(f"mgce is built without its compiled CPU kernel, and slower: {reason}")
            return
        build_data["artifacts"].append(f"{KERNELS.as_posix()}/_cpu_*{_suffix()}")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _variants() -> dict[str, tuple[str, ...]]:
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return X86_VARIANTS if x86 else {"default": ()}


def _suffix() -> str:
    return ".dll" if sys.platform == "win32" else ".so"


def _compile(compiler: list[str], options: tuple[str, ...], library: Path) -> None:
    # Written beside its place and renamed, so that no process ever loads half of it.
    part = library.with_name(f"{library.name}.{os.getpid()}")
    position = () if sys.platform == "win32" else ("-fPIC",)
    try:
        sources = [str(library.with_name(source)) for source in SOURCES]
        command = [*compiler, *FLAGS, *position, *options, *sources, "-o", str(part)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        part.replace(library)
    finally:
        part.unlink(missing_ok=True)

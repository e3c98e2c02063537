"""The GPU kernels as they are compiled, which needs no GPU: what a thread of them takes."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mgce.kernels import cuda, cuda_plan

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
REGISTERS = 2**16  # of a multiprocessor of every compute capability from 7.0 on
# Bytes of stack of a thread, which is what it spills. Each bound is what was found: a kernel that takes more is slower.
SPILLED = {"long_kernel": 8, "row_kernel": 0, "scale_kernel": 0}


def in_new_process(*command: str) -> str:
    variables = {**os.environ, "PYTHONPATH": str(Path(cuda.__file__).parents[2]), "TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, *command], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(worker: str, which: str) -> list[dict]:
    path = str(Path(__file__).with_name(worker))
    return [json.loads(line) for line in in_new_process(path, which).splitlines()]


def check_launches(which: str) -> list[bool]:
    found = lines("launch_worker.py", which)
    for call in found:
        through_triton, past_it = call["ways"]
        assert past_it == through_triton
    return [call["looked up"] for call in found]


@pytest.mark.slow
def test_a_second_launch_runs_the_kernel_that_triton_would_choose() -> None:
    assert check_launches("some") == [False, False, True, False]


@pytest.mark.nightly
def test_every_kernel_is_launched_past_triton_as_through_it() -> None:
    assert sum(check_launches("all")) == 2


def check(variant: dict) -> None:
    together = cuda_plan.LONG_PROGRAMS if variant["kernel"] == "long_kernel" else 1
    assert together * 32 * variant["warps"] * variant["registers"] <= REGISTERS, variant
    assert variant["spilled"] <= SPILLED[variant["kernel"]], variant
    # Rows whose lengths are multiples of 16 move in vectors of 16 bytes.
    assert variant["vectors"] == variant["aligned"], variant


@pytest.mark.slow
@pytest.mark.nightly
def test_each_kernel_fits_a_device() -> None:
    variants = lines("compile_worker.py", "some")
    assert {variant["kernel"] for variant in variants} == SPILLED.keys()
    for variant in variants:
        check(variant)


@pytest.mark.nightly
def test_every_variant_of_the_kernel_of_long_rows_fits_a_device() -> None:
    variants = lines("compile_worker.py", "all")
    assert len(variants) == 768
    for variant in variants:
        check(variant)


KERNELS = sorted(Path(cuda.__file__).parent.glob("cuda_*.py"))


def aliases(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a loop sets to a value that they were set to before it under the same other name."""

    def copied(nodes: Iterable[ast.AST]) -> set[tuple[str, str]]:
        return {
            (node.targets[0].id, node.value.id)
            for node in nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Name)
        }

    for loop in (node for node in ast.walk(function) if isinstance(node, ast.While | ast.For)):
        before = (node for node in ast.walk(function) if getattr(node, "lineno", loop.lineno) < loop.lineno)
        yield from (f"{function.name}: {name} = {other}" for name, other in copied(before) & copied(ast.walk(loop)))


def test_no_loop_sets_a_name_to_what_it_was_before() -> None:
    """Triton takes such a name for unchanged: behind the loop it has its value from before; the interpreter does not.

    On an H200 the gradients of long rows were then those of the first guess, which no test on a CPU had shown.
    """
    wrong = "def f(t):\n    at = t\n    while t > 0:\n        at = t\n        t = t - 1\n    return at"
    (function,) = ast.parse(wrong).body
    assert isinstance(function, ast.FunctionDef) and list(aliases(function)) == ["f: at = t"]
    functions = [f for path in KERNELS for f in ast.walk(ast.parse(path.read_text())) if isinstance(f, ast.FunctionDef)]
    assert len(functions) > 20
    assert [found for function in functions for found in aliases(function)] == []

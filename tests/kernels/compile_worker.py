"""Compiles the GPU kernels without a GPU; a line of JSON for each: the registers and bytes of stack of a thread.

`python compile_worker.py some` compiles the largest variants of each kernel; `all`, every one of long rows with lists.
"""

import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget

from mgce.kernels import cuda_long, cuda_plan, cuda_rows

POINTERS = {"weight": "fp32", "denominator": "fp32", "losses": "fp32", "factor": "fp32", "places": "i32"}
FLOATS = ("target_share", "uniform_share", "beta", "beta_less_1", "inv_beta")
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def compile_kernel(kernel, floats, capability, constants, *, warps=4, registers=None, aligned=True):
    """Compile a kernel for a type of logits, and give what a thread of it takes.

    `aligned` is for rows whose lengths and strides are multiples of 16, as Triton specialises a kernel for them.
    """
    types = dict.fromkeys(kernel.arg_names, "i32") | dict.fromkeys(FLOATS, "fp32")
    types |= {name: "*" + kind for name, kind in POINTERS.items()}
    types |= {name: "*" + floats for name in ("logits", "values")}
    types["grad"] = "*fp32" if floats == "fp16" else "*" + floats  # float16 is scaled later, so that it stays float32
    types["target"] = "*" + floats if constants.get("PROBS") else "*i64"
    types |= dict.fromkeys(constants, "constexpr")
    signature = {name: types[name] for name in kernel.arg_names}
    multiples = [name for name, kind in signature.items() if kind[0] == "*" or name == "k" or name.endswith("stride")]
    known = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in multiples if aligned}
    source = triton.compiler.ASTSource(kernel, signature, constants, known)
    options = {"num_warps": warps, "enable_fp_fusion": True, **({"maxnreg": registers} if registers else {})}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        command = [CUOBJDUMP, "--dump-resource-usage", cubin.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    loads, stores = (f"{what}.global.v4.b32" in compiled.asm["ptx"] for what in ("ld", "st"))
    used = {name: int(re.search(rf"{name}:(\d+)", said)[1]) for name in ("REG", "STACK")}
    return {
        "kernel": kernel.__name__,
        "floats": floats,
        "capability": capability,
        "aligned": aligned,
        "warps": warps,
        "registers": used["REG"],
        "spilled": used["STACK"],
        "vectors": loads and (stores or not constants.get("GRAD", True)),  # a loss alone is one number for each row
    }


def compile_rows(floats, capability, k, beta, *, aligned=True, **options):
    """Compile the kernel for rows of k classes."""
    constants = {"HALVES": cuda_plan.halves(beta), **PLAIN, **options}
    if k <= cuda_plan.LONGEST_TILE:
        plan, kernel, registers = cuda_plan.plan_tile(k), cuda_rows.row_kernel, None
    else:
        plan, kernel = cuda_plan.plan_long(k, beta), cuda_long.long_kernel
        constants, registers = {"INPLACE": False, **constants}, plan.registers
    constants |= plan.constants
    found = compile_kernel(
        kernel, floats, capability, constants, warps=plan.warps, registers=registers, aligned=aligned
    )
    return {"k": k, "beta": beta, **found}


PLAIN = {"PROBS": False, "SMOOTH": False, "WEIGHTED": False, "MEAN": True, "GRAD": True}
EVERY = {"PROBS": True, "SMOOTH": True, "WEIGHTED": True, "MEAN": True, "GRAD": True}


def some():
    """Compile each kernel for few and for many arguments, and those variants that spill the most."""
    yield compile_rows("fp32", 90, 128000, 1.4, WEIGHTED=True)
    yield compile_rows("bf16", 90, 32001, 1.4, INPLACE=True, aligned=False)
    yield compile_rows("fp16", 80, 32000, 1.4, **EVERY)
    yield compile_rows("fp32", 90, 32000, 1.4, **EVERY)
    yield compile_rows("bf16", 90, 32000, 11.0, **EVERY)
    yield compile_rows("fp32", 80, 10, 1.4)
    yield compile_rows("bf16", 90, 300, 2.0)
    yield compile_rows("fp32", 90, cuda_plan.LONGEST_TILE, 1.4, **EVERY)
    yield compile_rows("fp32", 90, cuda_plan.LONGEST_TILE, 11.0, **EVERY)
    yield compile_kernel(cuda_rows.scale_kernel, "fp16", 90, {"ROWS": 1, "BLOCK": cuda_plan.SCALED_BLOCK})
    yield compile_kernel(cuda_rows.scale_kernel, "bf16", 90, {"ROWS": cuda_plan.SCALED_BLOCK // 16, "BLOCK": 16})


def every():
    """Compile every variant of the kernel of long rows with lists, but for betas whose powers are alike."""
    outputs = ({"GRAD": True, "INPLACE": False}, {"GRAD": True, "INPLACE": True}, {"GRAD": False, "INPLACE": False})
    flags = (True, False)
    for floats, capability, beta in itertools.product(
        ("fp32", "bf16", "fp16"), (80, 90), (1.4, 1.0, 1.5, 2.0, 5.0, 7.5)
    ):
        for output, weighted, mean, aligned in itertools.product(outputs, flags, flags, flags):
            if not (floats == "fp16" and output["INPLACE"]):
                yield compile_rows(
                    floats, capability, 32000, beta, aligned=aligned, WEIGHTED=weighted, MEAN=mean, **output
                )


if __name__ == "__main__":
    for variant in {"some": some, "all": every}[sys.argv[1]]():
        print(json.dumps(variant), flush=True)

"""Compiles the GPU kernels without a GPU; a line of JSON for each: the registers and bytes of stack of a thread.

`python compile_worker.py some` compiles the largest variants of each kernel; `all`, every one of rows read once.
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

from mgce.kernels import cuda_chunks, cuda_plan, cuda_rows, cuda_stream

POINTERS = {"weight": "fp32", "denominator": "fp32", "losses": "fp32", "factor": "fp32", "places": "i32", "marks": "i8"}
FLOATS = ("target_share", "uniform_share", "beta", "beta_less_1", "inv_beta")
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def compile_kernel(kernel, floats, capability, constants, *, warps=4, registers=None, aligned=True):
    """Compile a kernel for a type of logits, and give what a thread of it takes.

    `aligned` is for rows whose lengths and strides are multiples of 16, as Triton specialises a kernel for them.
    """
    types = dict.fromkeys(kernel.arg_names, "i32") | dict.fromkeys(FLOATS, "fp32")
    types |= {name: "*" + kind for name, kind in POINTERS.items()}
    types |= {name: "*" + floats for name in ("logits", "scratch", "values")}
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


def stream(floats, capability, beta, *, aligned=True, **options):
    """Compile the kernel of rows that are read once."""
    plan = cuda_plan.plan_stream(4 if floats == "fp32" else 2)
    default = {"WEIGHTED": False, "MEAN": True, "GRAD": True, "INPLACE": False, "HALVES": cuda_plan.halves(beta)}
    return compile_kernel(
        cuda_stream.stream_kernel,
        floats,
        capability,
        {**default, **options, **plan.constants},
        warps=plan.warps,
        registers=cuda_plan.STREAM_REGISTERS,
        aligned=aligned,
    )


def rows(floats, capability, k, beta, **options):
    """Compile the kernel that other rows of a length get: held in registers, or read in chunks."""
    plan = cuda_plan.plan_rows(k, beta)
    kernel = cuda_rows.row_kernel if plan.rows else cuda_chunks.chunked_kernel
    constants = {"HALVES": cuda_plan.halves(beta), **options, **plan.constants}
    if not plan.rows:
        constants["MARKED"] = False
    return {"k": k, "beta": beta, **compile_kernel(kernel, floats, capability, constants, warps=plan.warps)}


def cached_rows(floats, beta, warps, **options):
    """Compile the kernel of rows in chunks for as many warps as few rows in flight get, and rows that are marked."""
    pack = beta < cuda_plan.LARGEST_PACKED_BETA
    constants = {"HALVES": cuda_plan.halves(beta), "MARKED": True, "BLOCK": 256 * warps, "PACK": pack, **options}
    return compile_kernel(cuda_chunks.chunked_kernel, floats, 90, constants, warps=warps)


PLAIN = {"PROBS": False, "SMOOTH": False, "WEIGHTED": False, "MEAN": True, "GRAD": True}
EVERY = {"PROBS": True, "SMOOTH": True, "WEIGHTED": True, "MEAN": True, "GRAD": True}


def some():
    """Compile each kernel for few and for many arguments, and those variants that spill the most."""
    yield stream("fp32", 90, 1.4, WEIGHTED=True)
    yield stream("bf16", 90, 1.4, INPLACE=True, aligned=False)
    yield stream("fp16", 80, 1.4, WEIGHTED=True)
    yield rows("fp32", 80, 10, 1.4, **PLAIN)
    yield rows("bf16", 90, 1000, 2.0, **PLAIN)
    yield rows("fp32", 90, 8192, 1.4, **EVERY)
    yield rows("fp32", 90, 16384, 11.0, **EVERY)
    yield rows("bf16", 90, 128000, 1.4, **PLAIN)
    yield cached_rows("bf16", 1.4, cuda_plan.LARGEST_CHUNK_WARPS, **EVERY)
    yield compile_kernel(cuda_rows.scale_kernel, "fp16", 90, {"ROWS": 1, "BLOCK": cuda_plan.SCALED_BLOCK})
    yield compile_kernel(cuda_rows.scale_kernel, "bf16", 90, {"ROWS": cuda_plan.SCALED_BLOCK // 16, "BLOCK": 16})


def every():
    """Compile every variant of the kernel of rows that are read once, but for betas whose powers are alike."""
    outputs = ({"GRAD": True, "INPLACE": False}, {"GRAD": True, "INPLACE": True}, {"GRAD": False, "INPLACE": False})
    flags = (True, False)
    for floats, capability, beta in itertools.product(
        ("fp32", "bf16", "fp16"), (80, 90), (1.4, 1.0, 1.5, 2.0, 5.0, 7.5)
    ):
        for output, weighted, mean, aligned in itertools.product(outputs, flags, flags, flags):
            if not (floats == "fp16" and output["INPLACE"]):
                yield stream(floats, capability, beta, aligned=aligned, WEIGHTED=weighted, MEAN=mean, **output)


if __name__ == "__main__":
    for variant in {"some": some, "all": every}[sys.argv[1]]():
        print(json.dumps(variant), flush=True)

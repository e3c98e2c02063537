"""A SIMD vector of 64 bytes as a numba type, so that a kernel says what is vectorised instead of hoping for it.

Arithmetic, `>` and `==` work between vectors and between a vector and a number; the functions below do the rest. A
comparison gives a mask, one bit for each lane. LLVM splits the vectors into the registers of the machine at hand: one
of AVX-512, two of AVX2, four of NEON.

A product and a sum may be contracted into one fused operation. Nothing else is relaxed: infinities, NaN and the order
of operations mean what they say.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

BITS = 512
CONTRACT = ("contract",)
INT32 = ir.IntType(32)


def _emitted(build: Callable[..., Any]) -> Any:
    """Make a numba function of one that gives, for the types of its arguments, a signature and what emits its code."""
    return intrinsic(build)


class Simd(types.Type):
    """Vector of float32 or float64 values."""

    def __init__(self, element: Any) -> None:
        self.dtype = element
        self.lanes = BITS // element.bitwidth
        super().__init__(f"simd({element})")


class Mask(types.Type):
    """One bit for each lane of a vector."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(f"mask({lanes})")


@register_model(Simd)
class _SimdModel(models.PrimitiveModel):
    def __init__(self, manager: Any, simd: Simd) -> None:
        super().__init__(manager, simd, ir.VectorType(manager[simd.dtype].get_value_type(), simd.lanes))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, mask: Mask) -> None:
        super().__init__(manager, mask, ir.VectorType(ir.IntType(1), mask.lanes))


# -- operators


def _operator(function: Any, emit: Callable[[Any, Any, Any], Any], *, compares: bool = False) -> None:
    """Teach numba a binary operator between vectors, or between a vector and a number."""

    class Typing(AbstractTemplate):
        def generic(self, args: tuple[Any, ...], kwargs: Any) -> Any:
            vectors = {a for a in args if isinstance(a, Simd)}
            if len(vectors) != 1 or not all(isinstance(a, (Simd, types.Number)) for a in args):
                return None
            simd = vectors.pop()
            return signature(Mask(simd.lanes) if compares else simd, *args)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        simd = next(a for a in sig.args if isinstance(a, Simd))
        return emit(builder, *(_as_simd(context, builder, v, t, simd) for v, t in zip(args, sig.args, strict=True)))

    infer_global(function)(Typing)
    for left, right in ((Simd, Simd), (Simd, types.Number), (types.Number, Simd)):
        lower_builtin(function, left, right)(lower)


_operator(operator.add, lambda b, x, y: b.fadd(x, y, flags=CONTRACT))
_operator(operator.sub, lambda b, x, y: b.fsub(x, y, flags=CONTRACT))
_operator(operator.mul, lambda b, x, y: b.fmul(x, y, flags=CONTRACT))
_operator(operator.truediv, lambda b, x, y: b.fdiv(x, y))
_operator(operator.gt, lambda b, x, y: b.fcmp_ordered(">", x, y), compares=True)
_operator(operator.eq, lambda b, x, y: b.fcmp_ordered("==", x, y), compares=True)


def _as_simd(context: Any, builder: Any, value: Any, source: Any, simd: Simd) -> Any:
    if source == simd:
        return value
    return _splat(builder, context.cast(builder, value, source, simd.dtype), simd.lanes)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(INT32, lanes), [0] * lanes))


# -- memory


def _address(context: Any, builder: Any, source: Any, value: Any, index: Any) -> Any:
    if isinstance(source, types.Array):
        value = context.make_array(source)(context, builder, value).data
    return builder.gep(value, [index])


def _vector_address(context: Any, builder: Any, source: Any, value: Any, index: Any) -> Any:
    element = _address(context, builder, source, value, index)
    simd = Simd(source.dtype)
    return builder.bitcast(element, context.get_value_type(simd).as_pointer()), source.dtype.bitwidth // 8


@_emitted
def pointer(typing_context: Any, address: Any, like: Any) -> Any:
    """Give the pointer to elements at an integer address, of the type `like` or that of its elements."""
    result = types.CPointer(like.dtype)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(result))

    return result(address, like), emit


@_emitted
def lanes_of(typing_context: Any, like: Any) -> Any:
    """Give the number of lanes of a vector of the element type of `like`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.IntType(64)(Simd(like.dtype).lanes)

    return types.int64(like), emit


@_emitted
def splat(typing_context: Any, like: Any, value: Any) -> Any:
    """Give the vector whose lanes are all `value`, of the element type of `like`: memory, or a vector."""
    simd = Simd(like.dtype)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _as_simd(context, builder, args[1], value, simd)

    return simd(like, value), emit


@_emitted
def load(typing_context: Any, memory: Any, index: Any) -> Any:
    """Read a vector from `memory[index:]`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, align = _vector_address(context, builder, memory, args[0], args[1])
        return builder.load(address, align=align)

    return Simd(memory.dtype)(memory, index), emit


@_emitted
def store(typing_context: Any, memory: Any, index: Any, vector: Any) -> Any:
    """Write a vector to `memory[index:]`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, align = _vector_address(context, builder, memory, args[0], args[1])
        builder.store(args[2], address, align=align)
        return context.get_dummy_value()

    return types.void(memory, index, vector), emit


def _call(builder: Any, name: str, result: Any, args: Sequence[Any], flags: Sequence[str] = ()) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm." + name), args, fastmath=flags)


def _suffix(vector: Any) -> str:
    return f"v{vector.count}f{BITS // vector.count}"


@_emitted
def first_lanes(typing_context: Any, like: Any, number: Any) -> Any:
    """Give the mask of the first `number` lanes of a vector."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _first_lanes(builder, args[1], Simd(like.dtype).lanes)

    return Mask(Simd(like.dtype).lanes)(like, number), emit


def _first_lanes(builder: Any, number: Any, lanes: int) -> Any:
    wide = _splat(builder, number, lanes)
    return builder.icmp_signed("<", ir.Constant(wide.type, list(range(lanes))), wide)


@_emitted
def load_first(typing_context: Any, memory: Any, index: Any, number: Any, fill: Any) -> Any:
    """Read the first `number` lanes of a vector from `memory[index:]`; the others are `fill`."""
    simd = Simd(memory.dtype)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, align = _vector_address(context, builder, memory, args[0], args[1])
        mask = _first_lanes(builder, args[2], simd.lanes)
        rest = _as_simd(context, builder, args[3], fill, simd)
        return _call(builder, f"masked.load.{_suffix(rest.type)}.p0", rest.type, [address, INT32(align), mask, rest])

    return simd(memory, index, number, fill), emit


@_emitted
def store_first(typing_context: Any, memory: Any, index: Any, number: Any, vector: Any) -> Any:
    """Write the first `number` lanes of a vector to `memory[index:]`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, align = _vector_address(context, builder, memory, args[0], args[1])
        mask = _first_lanes(builder, args[2], vector.lanes)
        name = f"masked.store.{_suffix(args[3].type)}.p0"
        _call(builder, name, ir.VoidType(), [args[3], address, INT32(align), mask])
        return context.get_dummy_value()

    return types.void(memory, index, number, vector), emit


@_emitted
def store_packed(typing_context: Any, memory: Any, index: Any, vector: Any, mask: Any) -> Any:
    """Write a vector to `memory[index:]` that begins with the lanes that `mask` chooses; its rest is undefined."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, align = _vector_address(context, builder, memory, args[0], args[1])
        name = f"experimental.vector.compress.{_suffix(args[2].type)}"
        packed = _call(builder, name, args[2].type, [args[2], args[3], ir.Constant(args[2].type, ir.Undefined)])
        builder.store(packed, address, align=align)
        return context.get_dummy_value()

    return types.void(memory, index, vector, mask), emit


@_emitted
def load_unpacked(typing_context: Any, memory: Any, index: Any, mask: Any) -> Any:
    """Read `memory[index:]` one after another into the lanes that `mask` chooses; the others are zero."""
    simd = Simd(memory.dtype)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = _address(context, builder, memory, args[0], args[1])
        zero = ir.Constant(context.get_value_type(simd), [0.0] * simd.lanes)
        return _call(builder, f"masked.expandload.{_suffix(zero.type)}", zero.type, [address, args[2], zero])

    return simd(memory, index, mask), emit


@_emitted
def atomic_add(typing_context: Any, memory: Any, index: Any, value: Any) -> Any:
    """Add to an integer that threads share, and give what it was before."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = _address(context, builder, memory, args[0], args[1])
        return builder.atomic_rmw("add", address, args[2], "monotonic")

    return value(memory, index, value), emit


# -- lanes


@_emitted
def count(typing_context: Any, mask: Any) -> Any:
    """Give the number of lanes that a mask chooses."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(mask.lanes))
        number = _call(builder, f"ctpop.i{mask.lanes}", bits.type, [bits])
        return builder.zext(number, ir.IntType(64))

    return types.int64(mask), emit


@_emitted
def any_lane(typing_context: Any, mask: Any) -> Any:
    """Tell whether a mask chooses any lane."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(mask.lanes))
        return builder.icmp_unsigned("!=", bits, bits.type(0))

    return types.boolean(mask), emit


@_emitted
def where(typing_context: Any, mask: Any, vector: Any, other: Any) -> Any:
    """Choose the lanes of `vector` where `mask` is set, else those of `other`, a vector or a number."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(args[0], args[1], _as_simd(context, builder, args[2], other, vector))

    return vector(mask, vector, other), emit


@_emitted
def lane_sum(typing_context: Any, vector: Any) -> Any:
    """Add up the lanes, pairwise."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type.element, -0.0)
        name = f"vector.reduce.fadd.{_suffix(args[0].type)}"
        return _call(builder, name, zero.type, [zero, args[0]], flags=["reassoc"])

    return vector.dtype(vector), emit


@_emitted
def lane_maximum(typing_context: Any, vector: Any) -> Any:
    """Give the largest lane; NaN if there is one."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = f"vector.reduce.fmaximum.{_suffix(args[0].type)}"
        return _call(builder, name, args[0].type.element, [args[0]], flags=["nsz"])

    return vector.dtype(vector), emit


@_emitted
def maximum(typing_context: Any, left: Any, right: Any) -> Any:
    """Give the larger of each lane; NaN where either is."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        other = _as_simd(context, builder, args[1], right, left)
        return _call(builder, f"maximum.{_suffix(other.type)}", other.type, [args[0], other], flags=["nsz"])

    return left(left, right), emit


@_emitted
def square_root(typing_context: Any, vector: Any) -> Any:
    """Give the square root of each lane."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call(builder, f"sqrt.{_suffix(args[0].type)}", args[0].type, args)

    return vector(vector), emit


# -- the two halves of a float


def _layout(vector: Any) -> tuple[int, int, Any]:
    """Give the width of the fraction, the bias of the exponent, and the type of the bits."""
    fraction, bias = (23, 127) if vector.lanes == BITS // 32 else (52, 1023)
    return fraction, bias, ir.VectorType(ir.IntType(BITS // vector.lanes), vector.lanes)


def _constant(vector: Any, value: float) -> Any:
    return ir.Constant(vector, [value] * vector.count)


@_emitted
def split_logarithm(typing_context: Any, vector: Any) -> Any:
    """Give e and 2^-e, e the whole number that takes a positive x into [1/sqrt 2, sqrt 2) as x 2^-e."""
    fraction, bias, integers = _layout(vector)
    root_half = 0x3F3504F3 if fraction == 23 else 0x3FE6A09E667F3BCD

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.sub(builder.bitcast(args[0], integers), _constant(integers, root_half))
        exponent = builder.ashr(bits, _constant(integers, fraction))
        shifted = builder.shl(exponent, _constant(integers, fraction))
        scale = builder.bitcast(builder.sub(_constant(integers, bias << fraction), shifted), args[0].type)
        return context.make_tuple(builder, sig.return_type, [builder.sitofp(exponent, args[0].type), scale])

    return types.UniTuple(vector, 2)(vector), emit


@_emitted
def split_power(typing_context: Any, vector: Any) -> Any:
    """Give x - n and 2^n, n the whole number next to x, for x within the exponents of normal floats."""
    fraction, bias, integers = _layout(vector)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        # Adding this number leaves n + bias in the low bits of the sum, rounded to nearest.
        shift = _constant(args[0].type, 1.5 * 2.0**fraction + bias)
        shifted = builder.fadd(args[0], shift)
        rest = builder.fsub(args[0], builder.fsub(shifted, shift))
        scale = builder.shl(builder.bitcast(shifted, integers), _constant(integers, fraction))
        return context.make_tuple(builder, sig.return_type, [rest, builder.bitcast(scale, args[0].type)])

    return types.UniTuple(vector, 2)(vector), emit


def polynomial(single: Sequence[float], double: Sequence[float]) -> Any:
    """Build the function that evaluates one of two polynomials, lowest power first, by the type of its argument."""

    @_emitted
    def evaluate(typing_context: Any, vector: Any) -> Any:
        coefficients = single if vector.lanes == BITS // 32 else double

        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            total = _constant(args[0].type, coefficients[-1])
            for coefficient in reversed(coefficients[:-1]):
                product = builder.fmul(total, args[0], flags=CONTRACT)
                total = builder.fadd(product, _constant(args[0].type, coefficient), flags=CONTRACT)
            return total

        return vector(vector), emit

    return evaluate

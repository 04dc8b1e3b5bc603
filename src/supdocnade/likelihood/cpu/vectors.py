"""Machine instructions that Numba does not offer: vectors of floats and an atomic counter.

A vector holds eight floats. Vectors are for kernels that the compiler does not vectorise well by
itself: such a kernel refers to a row of floats by its address, loads eight of them at once,
multiplies, adds and stores them. The compiler uses one register of eight floats or two of four,
depending on the machine. If eight does not divide the length of a row, the last floats are loaded
and stored with their number: floats beyond them are neither read nor written, and count as zero.

Nothing is checked: the caller must pass valid addresses and keep the arrays alive.

Numba's cache checks only a kernel's own file: after a change here, change the files of the kernels
that import this one too, or their old versions are loaded.
"""

from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 8
"""Floats in a vector."""

_FLOAT, _INT, _BIT = ir.FloatType(), ir.IntType(32), ir.IntType(1)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_FOUR = ir.VectorType(_FLOAT, 4)
_FLOAT_BYTES = 4

# LLVM names intrinsics by the types of their arguments; before version 16 with the pointee types.
_TYPED_POINTERS = llvm_version_info[0] < 16
_VECTOR_POINTER, _BYTE_POINTER = ("p0v8f32", "p0i8") if _TYPED_POINTERS else ("p0", "p0")


class Float32x8(types.Type):
    """Numba type of a vector."""

    def __init__(self) -> None:
        super().__init__(name="float32x8")


vector = Float32x8()


@register_model(Float32x8)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


def _pointer(builder, address, index, kind):
    """Return a pointer of some kind to float number `index` after an address."""
    floats = builder.inttoptr(address, _FLOAT.as_pointer())
    return builder.bitcast(builder.gep(floats, [index]), kind.as_pointer())


def _constant(values):
    return ir.Constant(ir.VectorType(_INT, len(values)), values)


def _shuffle(builder, one, other, places):
    """Return the floats at these positions of two concatenated vectors."""
    return builder.shuffle_vector(one, other, _constant(places))


def _splat(builder, value):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _INT(0))
    return _shuffle(builder, one, one, [0] * LANES)


def _first_lanes(builder, count):
    """Return a mask of the first `count` lanes."""
    wide = ir.VectorType(ir.IntType(64), LANES)
    one = builder.insert_element(ir.Constant(wide, ir.Undefined), count, _INT(0))
    counts = builder.shuffle_vector(one, one, _constant([0] * LANES))
    return builder.icmp_signed("<", ir.Constant(wide, list(range(LANES))), counts)


def _call(builder, name, result, arguments):
    """Call an LLVM intrinsic."""
    kind = ir.FunctionType(result, [each.type for each in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


@intrinsic
def splat(context, value):
    """Return a vector of eight copies of a float."""

    def generate(context, builder, signature, arguments):
        return _splat(builder, arguments[0])

    return vector(types.float32), generate


@intrinsic
def load(context, address, index):
    """Return eight floats, starting with float number `index` after an address."""

    def generate(context, builder, signature, arguments):
        return builder.load(_pointer(builder, *arguments, _VECTOR), align=_FLOAT_BYTES)

    return vector(types.uintp, types.intp), generate


@intrinsic
def load_first(context, address, index, count):
    """Return the first `count` of the floats of `load`, and zeros for the others."""

    def generate(context, builder, signature, arguments):
        *place, count = arguments
        pointer = _pointer(builder, *place, _VECTOR)
        zeros = ir.Constant(_VECTOR, [0.0] * LANES)
        operands = [pointer, _INT(_FLOAT_BYTES), _first_lanes(builder, count), zeros]
        return _call(builder, f"llvm.masked.load.v{LANES}f32.{_VECTOR_POINTER}", _VECTOR, operands)

    return vector(types.uintp, types.intp, types.intp), generate


@intrinsic
def store(context, address, index, values):
    """Write eight floats, starting at float number `index` after an address."""

    def generate(context, builder, signature, arguments):
        *place, values = arguments
        builder.store(values, _pointer(builder, *place, _VECTOR), align=_FLOAT_BYTES)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp, vector), generate


@intrinsic
def store_first(context, address, index, count, values):
    """Write the first `count` of eight floats, as `store` does."""

    def generate(context, builder, signature, arguments):
        *place, count, values = arguments
        pointer = _pointer(builder, *place, _VECTOR)
        operands = [values, pointer, _INT(_FLOAT_BYTES), _first_lanes(builder, count)]
        _call(builder, f"llvm.masked.store.v{LANES}f32.{_VECTOR_POINTER}", ir.VoidType(), operands)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp, types.intp, vector), generate


@intrinsic
def load_one(context, address, index):
    """Return float number `index` after an address."""

    def generate(context, builder, signature, arguments):
        return builder.load(_pointer(builder, *arguments, _FLOAT), align=_FLOAT_BYTES)

    return types.float32(types.uintp, types.intp), generate


@intrinsic
def load_address(context, address, index):
    """Return address number `index` of the array of addresses at an address."""

    def generate(context, builder, signature, arguments):
        address, index = arguments
        kind = context.get_value_type(types.uintp)
        addresses = builder.inttoptr(address, kind.as_pointer())
        return builder.load(builder.gep(addresses, [index]))

    return types.uintp(types.uintp, types.intp), generate


@intrinsic
def add_product(context, total, left, right):
    """Return total + left · right by lane, fused where the machine can."""

    def generate(context, builder, signature, arguments):
        total, left, right = arguments
        return _call(builder, f"llvm.fmuladd.v{LANES}f32", _VECTOR, [left, right, total])

    return vector(vector, vector, vector), generate


@intrinsic
def multiply(context, left, right):
    """Return left · right by lane."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return vector(vector, vector), generate


@intrinsic
def where_positive(context, condition, values):
    """Return the values in lanes where the condition is positive, and zero in others."""

    def generate(context, builder, signature, arguments):
        condition, values = arguments
        zeros = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered(">", condition, zeros), values, zeros)

    return vector(vector, vector), generate


@intrinsic
def store_sums(context, address, index, a, b, c, d):
    """Write four floats, the sums over the lanes of four vectors.

    The order of the additions is the same for each vector.
    """

    def generate(context, builder, signature, arguments):
        *place, a, b, c, d = arguments
        pairs = [
            builder.fadd(
                _shuffle(builder, one, other, [0, 8, 1, 9, 4, 12, 5, 13]),
                _shuffle(builder, one, other, [2, 10, 3, 11, 6, 14, 7, 15]),
            )
            for one, other in ((a, b), (c, d))
        ]
        quarters = builder.fadd(
            _shuffle(builder, *pairs, [0, 1, 8, 9, 4, 5, 12, 13]),
            _shuffle(builder, *pairs, [2, 3, 10, 11, 6, 7, 14, 15]),
        )
        sums = builder.fadd(
            _shuffle(builder, quarters, quarters, [0, 1, 2, 3]),
            _shuffle(builder, quarters, quarters, [4, 5, 6, 7]),
        )
        builder.store(sums, _pointer(builder, *place, _FOUR), align=_FLOAT_BYTES)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp, vector, vector, vector, vector), generate


@intrinsic
def prefetch(context, address, index):
    """Prefetch the cache line of float number `index` after an address."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(builder, *arguments, ir.IntType(8))
        operands = [pointer, _INT(0), _INT(3), _INT(1)]  # Read, into the nearest cache, data.
        _call(builder, f"llvm.prefetch.{_BYTE_POINTER}", ir.VoidType(), operands)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp), generate


@intrinsic
def take_next(context, address):
    """Return the integer at an address and increment it atomically.

    Threads take numbered parts in this way: a thread that starts late or runs on a slow core takes
    fewer parts.
    """

    def generate(context, builder, signature, arguments):
        kind = ir.IntType(64)
        pointer = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.atomic_rmw("add", pointer, kind(1), "monotonic")

    return types.int64(types.uintp), generate

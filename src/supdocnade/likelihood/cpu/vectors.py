"""What kernels need of the machine and Numba does not offer: vectors, and a counter for threads.

Vectors have eight floats. They are for kernels that a compiler does not turn into good code by
itself: a kernel knows a row of floats by its address, loads eight of them at once, multiplies, adds
and stores them. The compiler makes of that what the machine has: one register of eight floats, two
of four. Where a row's length is no multiple of eight, its last floats are loaded and stored with
their number: what lies beyond them is neither read nor written, and counts as zero.

Nothing is checked: whoever calls these answers for the addresses, and for the arrays behind them
being alive.

Numba's cache looks at a kernel's own file alone: whoever changes this one also changes the files of
kernels that import it, or they go on as they were compiled before.
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
_BYTES = 4
"""Of a float."""

# LLVM names functions by the types they take; older ones also by what a pointer points to.
_OLDER = llvm_version_info[0] < 16
_AT_VECTOR, _AT_BYTE = ("p0v8f32", "p0i8") if _OLDER else ("p0", "p0")


class Float32x8(types.Type):
    """The type of a vector inside a kernel."""

    def __init__(self) -> None:
        super().__init__(name="float32x8")


vector = Float32x8()


@register_model(Float32x8)
class _InOneRegister(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


def _pointer(builder, address, index, kind):
    """Return where float number `index` after an address is, as a pointer to something."""
    floats = builder.inttoptr(address, _FLOAT.as_pointer())
    return builder.bitcast(builder.gep(floats, [index]), kind.as_pointer())


def _constant(values):
    return ir.Constant(ir.VectorType(_INT, len(values)), values)


def _shuffle(builder, one, other, places):
    """Return a vector of the floats at these places of two vectors, one after the other."""
    return builder.shuffle_vector(one, other, _constant(places))


def _splat(builder, value):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _INT(0))
    return _shuffle(builder, one, one, [0] * LANES)


def _first_lanes(builder, count):
    """Return which lanes are the first `count`."""
    wide = ir.VectorType(ir.IntType(64), LANES)
    one = builder.insert_element(ir.Constant(wide, ir.Undefined), count, _INT(0))
    counts = builder.shuffle_vector(one, one, _constant([0] * LANES))
    return builder.icmp_signed("<", ir.Constant(wide, list(range(LANES))), counts)


def _call(builder, name, result, arguments):
    """Call a function that LLVM knows by itself."""
    kind = ir.FunctionType(result, [each.type for each in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


@intrinsic
def splat(context, value):
    """Return a vector of one float, eight times."""

    def generate(context, builder, signature, arguments):
        return _splat(builder, arguments[0])

    return vector(types.float32), generate


@intrinsic
def load(context, address, index):
    """Return the eight floats from float number `index` after an address on."""

    def generate(context, builder, signature, arguments):
        return builder.load(_pointer(builder, *arguments, _VECTOR), align=_BYTES)

    return vector(types.uintp, types.intp), generate


@intrinsic
def load_first(context, address, index, count):
    """Return the first `count` of these floats, and zeros for the others."""

    def generate(context, builder, signature, arguments):
        *place, count = arguments
        where = _pointer(builder, *place, _VECTOR)
        zeros = ir.Constant(_VECTOR, [0.0] * LANES)
        given = [where, _INT(_BYTES), _first_lanes(builder, count), zeros]
        return _call(builder, f"llvm.masked.load.v{LANES}f32.{_AT_VECTOR}", _VECTOR, given)

    return vector(types.uintp, types.intp, types.intp), generate


@intrinsic
def store(context, address, index, values):
    """Write eight floats from float number `index` after an address on."""

    def generate(context, builder, signature, arguments):
        *place, values = arguments
        builder.store(values, _pointer(builder, *place, _VECTOR), align=_BYTES)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp, vector), generate


@intrinsic
def store_first(context, address, index, count, values):
    """Write the first `count` of eight floats."""

    def generate(context, builder, signature, arguments):
        *place, count, values = arguments
        where = _pointer(builder, *place, _VECTOR)
        given = [values, where, _INT(_BYTES), _first_lanes(builder, count)]
        _call(builder, f"llvm.masked.store.v{LANES}f32.{_AT_VECTOR}", ir.VoidType(), given)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp, types.intp, vector), generate


@intrinsic
def load_one(context, address, index):
    """Return float number `index` after an address."""

    def generate(context, builder, signature, arguments):
        return builder.load(_pointer(builder, *arguments, _FLOAT), align=_BYTES)

    return types.float32(types.uintp, types.intp), generate


@intrinsic
def load_address(context, address, index):
    """Return the address that stands `index` addresses after an address."""

    def generate(context, builder, signature, arguments):
        address, index = arguments
        kind = context.get_value_type(types.uintp)
        addresses = builder.inttoptr(address, kind.as_pointer())
        return builder.load(builder.gep(addresses, [index]))

    return types.uintp(types.uintp, types.intp), generate


@intrinsic
def add_product(context, total, left, right):
    """Return total + left · right, lane by lane, in one instruction where there is one."""

    def generate(context, builder, signature, arguments):
        total, left, right = arguments
        return _call(builder, f"llvm.fmuladd.v{LANES}f32", _VECTOR, [left, right, total])

    return vector(vector, vector, vector), generate


@intrinsic
def multiply(context, left, right):
    """Return left · right, lane by lane."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return vector(vector, vector), generate


@intrinsic
def where_positive(context, condition, values):
    """Return the values in lanes where the condition is above zero, and zero in others."""

    def generate(context, builder, signature, arguments):
        condition, values = arguments
        zeros = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered(">", condition, zeros), values, zeros)

    return vector(vector, vector), generate


@intrinsic
def store_sums(context, address, index, a, b, c, d):
    """Write the sums of four vectors' lanes, one after the other.

    Halves are added to halves in the same order for each of them.
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
        builder.store(sums, _pointer(builder, *place, _FOUR), align=_BYTES)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp, vector, vector, vector, vector), generate


@intrinsic
def prefetch(context, address, index):
    """Ask for the cache line of float number `index` after an address, which is read soon."""

    def generate(context, builder, signature, arguments):
        where = _pointer(builder, *arguments, ir.IntType(8))
        given = [where, _INT(0), _INT(3), _INT(1)]  # For reading, as near as can be, data.
        _call(builder, f"llvm.prefetch.{_AT_BYTE}", ir.VoidType(), given)
        return context.get_dummy_value()

    return types.void(types.uintp, types.intp), generate


@intrinsic
def take_next(context, address):
    """Return the whole number at an address and add one to it, as one step that no thread divides.

    Threads that share out numbered parts take one after the other, each when it is done with the
    last: one that began late or runs on a slow core takes fewer.
    """

    def generate(context, builder, signature, arguments):
        kind = ir.IntType(64)
        where = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.atomic_rmw("add", where, kind(1), "monotonic")

    return types.int64(types.uintp), generate

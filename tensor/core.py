"""The Tensor: a lazy node of the graph and the device it lives on, with Python's operators.

An operator on two tensors of one dtype, shape and device is one search and one node; everything
else goes through `tensor.ops`, which promotes and broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node, Shape
from tensor import engine, indexing, ops
from tensor.promotion import Number, Scalar, from_numpy

__all__ = ["Operand", "Tensor", "common_device", "not_a_tensor", "wrap"]

Operand: TypeAlias = "Tensor | Number"
_SCALARS = (int, float, np.generic)
_ARRAYS = (np.ndarray, list, tuple, complex)
"""Operands that a tensor refuses; any other may implement the operator for a tensor."""


def not_a_tensor(x: object, place: str) -> TypeError:
    """The error for an argument that should have been a tensor; `place` is "name of function"."""
    return TypeError(f"{place} is of type {type(x).__name__}, not a tensor; make one with asarray")


def common_device(tensors: Sequence[Tensor], place: str = "an operand") -> str:
    """The one device of all tensors. Raises: ValueError when there are several."""
    device = ""
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise not_a_tensor(tensor, place)
        device = device or tensor.device
        if tensor.device != device:
            raise ValueError(
                f"tensors live on {device} and {tensor.device}; move one with .to({device!r})"
            )
    return device


def _mixed(op: str, x: Tensor, other: Any, swapped: bool) -> Any:
    """Operands of differing dtype or shape, or a scalar.

    Raises: TypeError for an array or a sequence, of which == and != would be a plain False.
    """
    if isinstance(other, Tensor):
        device = common_device([x, other])
        a, b = x._node, other._node
        return Tensor(ops.binary(op, b, a) if swapped else ops.binary(op, a, b), device)
    if isinstance(other, _SCALARS):
        return Tensor(ops.with_value(op, x._node, other, swapped), x.device)
    if isinstance(other, _ARRAYS):
        raise not_a_tensor(other, f"an operand of {op}")
    return NotImplemented


def _forward(op: str, swapped: bool = False) -> Callable[[Tensor, Operand], Tensor]:
    """The special method of a binary op; `swapped`: the other operand is the first."""
    direct = ops.DIRECT[op]
    compared = dt.bool_ if op in graph.COMPARE else None

    def method(self: Tensor, other: Operand) -> Tensor:
        if type(other) is Tensor:
            a, b = self._node, other._node
            dtype = a.dtype
            if (
                dtype is b.dtype
                and a.shape == b.shape
                and dtype in direct
                and self.device == other.device
            ):
                sources = (b, a) if swapped else (a, b)
                return Tensor(Node(op, sources, None, compared or dtype, a.shape), self.device)
        result: Tensor = _mixed(op, self, other, swapped)
        return result

    return method


def _inplace(op: str) -> Callable[[Tensor, Operand], Tensor]:
    """The special method of `x op= y`: x keeps its dtype, shape and identity."""

    def method(self: Tensor, other: Operand) -> Tensor:
        result = _mixed(op, self, other, False)
        if result is NotImplemented:
            missing: Tensor = result
            return missing
        node = result._node
        if node.dtype is not self.dtype or node.shape != self.shape:
            raise TypeError(
                f"an in-place {op} would turn {self.dtype.name}{list(self.shape)} "
                f"into {node.dtype.name}{list(node.shape)}; write x = x {op} y"
            )
        self._node = node
        return self

    return method


_power = _forward("pow")


class Tensor:
    """An n-dimensional array with elements computed when they are first read."""

    __slots__ = ("__weakref__", "_node", "device")

    __array_ufunc__ = None
    """numpy defers operators to Tensor; ndarray + Tensor is refused, as the standard requires."""

    def __init__(self, node: Node, device: str) -> None:
        self._node, self.device = node, device

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> object:
            """Raises: AttributeError, with the function where the namespace has one."""
            from tensor.arguments import missing_method

            found = None if name.startswith("_") else missing_method(name)
            if found is None:
                return object.__getattribute__(self, name)  # raises as any object does
            raise found

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._node.shape

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self._node.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._node.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self._node.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def _transposed(self) -> Tensor:
        if self.ndim != 2:
            raise ValueError(f".T needs rank 2, not {self.ndim}; use .mT or permute_dims")
        return self.mT

    T = property(_transposed, doc="The transpose of a matrix.")

    @property
    def mT(self) -> Tensor:
        """Every matrix in the last two axes transposed."""
        rank = self.ndim
        if rank < 2:
            raise ValueError(f".mT needs rank 2 or more, not {rank}")
        return Tensor(
            graph.permute(self._node, (*range(rank - 2), rank - 1, rank - 2)), self.device
        )

    def realize(self) -> Self:
        """Compute the elements now; the tensor itself."""
        if self._node.op != "buffer":
            engine.realize((self._node,), self.device)
        return self

    def numpy(self) -> NDArray[Any]:
        """The elements as a read-only numpy array, shared where the device sees host memory.

        numpy has no bfloat16: such a tensor comes as the float32 values it holds.
        """
        array = engine.to_numpy(self._node, self.device)
        if self.dtype is dt.bfloat16:
            return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return array

    def item(self) -> Scalar:
        """The only element as a Python number. Raises: ValueError for any other size."""
        value: Scalar = self.numpy().item()
        return value

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.numpy().tolist()

    def to(self, device: str) -> Tensor:
        """The same elements on another device; shared when they are there already."""
        device = engine.device_name(device)
        if device == self.device:
            return Tensor(self._node, device)
        return Tensor(engine.copy(self._node, self.device, device), device)

    def to_device(self, device: str, /, *, stream: None = None) -> Tensor:
        """The standard's name of `to`. Raises: ValueError for a stream; there are none here."""
        if stream is not None:
            raise ValueError(f"stream {stream!r} is not supported; devices order their own work")
        return self.to(device)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        import tensor

        if api_version not in (None, *tensor.ARRAY_API_VERSIONS):
            known = ", ".join(tensor.ARRAY_API_VERSIONS)
            raise ValueError(f"array API version {api_version!r} is not provided; {known} are")
        return tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        if copy is False and (wanted != array.dtype or self.dtype is dt.bfloat16):
            raise ValueError(f"{self.dtype.name} to {wanted} needs a copy; pass copy=None")
        return array.astype(wanted, copy=bool(copy))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        from tensor import interop

        return interop.array_interface(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        from tensor import interop

        return interop.described(self, "__cuda_array_interface__")

    def __buffer__(self, flags: int) -> memoryview:
        from tensor import interop

        return interop.buffer_of(self, flags)

    def __dlpack__(
        self,
        /,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from tensor import interop

        return interop.to_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from tensor import interop

        return interop.device_code(self.device)

    def __reduce__(self) -> tuple[Any, ...]:
        bits = engine.to_numpy(self._node, self.device)
        return _unpickled, (bits, self.device, self.dtype.name)

    def _only(self, what: str) -> Scalar:
        if self._node.shape:
            raise TypeError(f"{what} needs a tensor of rank 0, not of shape {self.shape}")
        value: Scalar = self.numpy().item()
        return value

    def __bool__(self) -> bool:
        return bool(self._only("bool()"))

    def __int__(self) -> int:
        return int(self._only("int()"))

    def __float__(self) -> float:
        return float(self._only("float()"))

    def __complex__(self) -> complex:
        return complex(self._only("complex()"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"an index needs an integer tensor, not {self.dtype.name}")
        return int(self._only("an index"))

    def __len__(self) -> int:
        if not self._node.shape:
            raise TypeError("a tensor of rank 0 has no len()")
        return self._node.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._node.shape:
            raise TypeError("a tensor of rank 0 cannot be iterated")
        return (self[i] for i in range(self._node.shape[0]))

    def __round__(self, digits: int | None = None) -> Scalar:
        return round(self._only("round()"), digits)

    def __format__(self, spec: str) -> str:
        """That of the number for rank 0; other ranks have no format but str()."""
        return super().__format__(spec) if self._node.shape else format(self.item(), spec)

    def __repr__(self) -> str:
        text = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({text}, dtype={self.dtype.name}, device={self.device!r})"

    def __getitem__(self, key: Any, /) -> Tensor:
        return Tensor(indexing.getitem(self._node, key, self.device), self.device)

    def __setitem__(self, key: Any, value: Operand | NDArray[Any], /) -> None:
        if isinstance(value, Tensor):
            node = value.to(self.device)._node
        elif isinstance(value, np.ndarray):
            node = wrap(value.copy(), self.device)._node
        else:
            node = ops.constant(value, self.dtype)
        self._node = indexing.setitem(self._node, key, node, self.device)

    def __pos__(self) -> Tensor:
        return Tensor(self._node, self.device)

    def __neg__(self) -> Tensor:
        if self.dtype is dt.bool_:
            raise TypeError("negative is not defined for bool; use ~x")
        return Tensor(graph.unary("neg", self._node), self.device)

    def __abs__(self) -> Tensor:
        if self.dtype.kind in "bu":
            return +self
        return Tensor(graph.unary("abs", self._node), self.device)

    def __invert__(self) -> Tensor:
        if self.dtype.kind == "f":
            raise TypeError(f"bitwise_invert is not defined for {self.dtype.name}")
        return Tensor(graph.unary("invert", self._node), self.device)

    __add__, __radd__, __iadd__ = _forward("add"), _forward("add", True), _inplace("add")
    __sub__, __rsub__, __isub__ = _forward("sub"), _forward("sub", True), _inplace("sub")
    __mul__, __rmul__, __imul__ = _forward("mul"), _forward("mul", True), _inplace("mul")
    __truediv__, __rtruediv__ = _forward("div"), _forward("div", True)
    __floordiv__, __rfloordiv__ = _forward("floordiv"), _forward("floordiv", True)
    __mod__, __rmod__, __imod__ = _forward("mod"), _forward("mod", True), _inplace("mod")
    __rpow__, __ipow__ = _forward("pow", True), _inplace("pow")
    __and__, __rand__, __iand__ = _forward("and"), _forward("and", True), _inplace("and")
    __or__, __ror__, __ior__ = _forward("or"), _forward("or", True), _inplace("or")
    __xor__, __rxor__, __ixor__ = _forward("xor"), _forward("xor", True), _inplace("xor")
    __lshift__, __rlshift__ = _forward("shl"), _forward("shl", True)
    __rshift__, __rrshift__ = _forward("shr"), _forward("shr", True)
    __itruediv__, __ifloordiv__ = _inplace("div"), _inplace("floordiv")
    __ilshift__, __irshift__ = _inplace("shl"), _inplace("shr")
    __lt__, __le__ = _forward("lt"), _forward("le")
    __gt__, __ge__ = _forward("lt", True), _forward("le", True)
    # The standard's == compares elements, unlike the signature of object.
    __eq__: Any = _forward("eq")
    __ne__: Any = _forward("ne")
    __hash__: Any = None

    def __pow__(self, other: Operand, modulus: object = None, /) -> Tensor:
        if modulus is not None:
            raise TypeError("pow() of a tensor takes no modulus; write x ** y % m")
        return _power(self, other)

    def __matmul__(self, other: object, /) -> Tensor:
        from tensor import products

        if isinstance(other, Tensor):
            return products.matmul(self, other)
        return self.__rmatmul__(other)

    def __rmatmul__(self, other: object, /) -> Tensor:
        if isinstance(other, _ARRAYS):
            raise not_a_tensor(other, "an operand of @")
        return NotImplemented

    def __imatmul__(self, other: object, /) -> Tensor:
        result = self @ other
        if result.shape != self.shape or result.dtype is not self.dtype:
            raise TypeError(f"an in-place @ would turn {self.shape} into {result.shape}")
        self._node = result._node
        return self


def wrap(array: NDArray[Any], device: str, dtype: DType | None = None) -> Tensor:
    """A numpy array as a tensor, shared where possible; `dtype` bfloat16 reads uint16 bits."""
    return Tensor(engine.from_numpy(array, device, dtype or from_numpy(array.dtype)), device)


def _unpickled(bits: NDArray[Any], device: str, dtype: str) -> Tensor:
    return wrap(bits, device, dt.BY_NAME[dtype])

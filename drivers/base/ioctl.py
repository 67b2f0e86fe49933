"""ioctls declared as a struct with its number and size, packed as the C ABI packs them.

Used as in::

    class RawInfo(Struct, size=8):
        bustype: int = u32()
        vendor: int = u16()
        product: int = u16()

    RAW_INFO = Ioctl("HIDIOCGRAWINFO", "R", "H", 0x03, RawInfo)
    info = RAW_INFO(world, fd, RawInfo())

A wrong `size` is an error when the class is made; tests/abi compares number, size and offsets
with the kernel's own headers.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

from drivers.base.contracts import World
from drivers.base.deadline import polls
from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.oserrors import errno_of

# src: include/uapi/asm-generic/ioctl.h (x86, Arm)
_NR_SHIFT, _TYPE_SHIFT, _SIZE_SHIFT, _DIR_SHIFT = 0, 8, 16, 30
_DIRECTIONS = {"": 0, "W": 1, "R": 2, "WR": 3}
_SIZE_LIMIT = 1 << 14
_RETRIED = frozenset({errno.EINTR, errno.EAGAIN})
RETRY_S = 1.0
"""How long EINTR and EAGAIN are retried before they are raised."""


class Field:
    """One member of a Struct: a scalar, `count` scalars, or raw bytes."""

    __slots__ = ("align", "code", "count", "layout", "name", "offset")

    def __init__(self, code: str, count: int = 1) -> None:
        self.code, self.count, self.name, self.offset = code, count, "", 0
        self.layout = struct.Struct(f"<{count}{code}")
        self.align = struct.calcsize(f"<{code}")

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, args: Struct | None, owner: type) -> Any:
        if args is None:
            return self
        values = self.layout.unpack_from(args.raw, self.offset)
        return values[0] if self.count == 1 or self.code == "s" else values

    def __set__(self, args: Struct, value: Any) -> None:
        single = self.count == 1 or self.code == "s"
        if self.code == "s" and len(value) > self.count:
            raise ValueError(f"{type(args).__name__}.{self.name}: {len(value)} bytes do not fit")
        try:
            self.layout.pack_into(args.raw, self.offset, *([value] if single else value))
        except struct.error as error:
            raise ValueError(f"{type(args).__name__}.{self.name} = {value!r}: {error}") from error


def u8(count: int = 1) -> Any:
    """__u8 or an array of them."""
    return Field("B", count)


def u16(count: int = 1) -> Any:
    """__u16 or an array of them."""
    return Field("H", count)


def u32(count: int = 1) -> Any:
    """__u32 or an array of them."""
    return Field("I", count)


def u64(count: int = 1) -> Any:
    """__u64 (also a pointer or size_t) or an array of them."""
    return Field("Q", count)


def i32(count: int = 1) -> Any:
    """__s32 (also int) or an array of them."""
    return Field("i", count)


def i64(count: int = 1) -> Any:
    """__s64 or an array of them."""
    return Field("q", count)


def chars(count: int) -> Any:
    """`count` raw bytes."""
    return Field("s", count)


@dataclass_transform(kw_only_default=True)
class Struct:
    """A C struct with natural alignment over `raw`, little-endian. New ones are all zero."""

    __slots__ = ("raw",)
    SIZE: ClassVar[int] = 0
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    raw: ClassVar[Any]  # a slot; ClassVar keeps it out of the typed constructor

    def __init_subclass__(cls, size: int) -> None:
        end, widest = 0, 1
        fields = tuple(f for f in vars(cls).values() if isinstance(f, Field))
        for field in fields:
            field.offset = -(-end // field.align) * field.align
            end, widest = field.offset + field.layout.size, max(widest, field.align)
        actual = -(-end // widest) * widest
        if actual != size:
            raise TypeError(f"{cls.__name__} is declared with {size} bytes but has {actual}")
        cls.SIZE, cls.FIELDS = size, fields

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "raw", bytearray(self.SIZE))
        known = {field.name for field in self.FIELDS}
        for name, value in values.items():
            if name not in known:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
            setattr(self, name, value)

    @classmethod
    def of(cls, raw: bytes) -> Self:
        """The struct in bytes from outside. Raises: MalformedInput when the size is wrong."""
        if len(raw) != cls.SIZE:
            raise MalformedInput(f"{cls.__name__}: {len(raw)} bytes where {cls.SIZE} belong")
        made = cls()
        made.raw[:] = raw
        return made

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.FIELDS)
        return f"{type(self).__name__}({shown})"


S = TypeVar("S", bound=Struct)


def request_number(direction: str, group: int | str, number: int, nbytes: int) -> int:
    """_IOC of a direction "", "W", "R" or "WR", seen from user space."""
    kind = ord(group) if isinstance(group, str) else group
    if not (0 <= kind < 1 << 8 and 0 <= number < 1 << 8 and 0 <= nbytes < _SIZE_LIMIT):
        raise ValueError(f"ioctl {group!r} {number:#x} of {nbytes} bytes cannot be encoded")
    return (
        _DIRECTIONS[direction] << _DIR_SHIFT
        | nbytes << _SIZE_SHIFT
        | kind << _TYPE_SHIFT
        | number << _NR_SHIFT
    )


class Ioctl(Generic[S]):
    """One request of one kernel driver, called as a function.

    `resumes` names the member with the progress of an interrupted call, and the one with its
    total; the repeated call continues from there. `counts_down` names the member with the
    remaining time: an interrupted call does not wait for all of it again.
    """

    __slots__ = ("args", "counts_down", "name", "request", "resumes")

    def __init__(
        self,
        name: str,
        direction: str,
        group: int | str,
        number: int,
        args: type[S],
        *,
        resumes: tuple[str, str] | None = None,
        counts_down: str | None = None,
    ) -> None:
        self.name, self.args, self.resumes, self.counts_down = name, args, resumes, counts_down
        self.request = request_number(direction, group, number, args.SIZE)

    def __repr__(self) -> str:
        return f"Ioctl({self.name}, {self.request:#010x}, {self.args.__name__})"

    def __call__(self, world: World, fd: int, args: S) -> S:
        """Call it; `args` is changed in place and returned.

        Raises: the translated errno (EINTR and EAGAIN only after 1 s of retries);
        MalformedInput when the answer has another size.
        """
        given = bytes(args.raw)
        failure = self._once(world, fd, args)
        if failure is not None:
            self._retry(world, fd, args, given, failure)
        return args

    def bound(self, world: World, fd: int, args: S) -> Callable[[bytes], None]:
        """What sets `args` to all its bytes and calls it: the same in fewer steps, for launches."""
        raw, ioctl, request, size = args.raw, world.ioctl, self.request, args.SIZE

        def call(given: bytes) -> None:
            raw[:] = given
            try:
                ioctl(fd, request, raw)
            except DeviceError as error:
                self._retry(world, fd, args, given, self._failure(error))
            if len(raw) != size:
                raise self._misshapen(args)

        return call

    def _retry(self, world: World, fd: int, args: S, given: bytes, failure: DeviceError) -> None:
        """Call it until it succeeds. Raises: what may not be retried; the failure after 1 s."""
        last: DeviceError | None = failure
        for _ in polls(RETRY_S, world):
            self._restore(args, given)
            last = self._once(world, fd, args)
            if last is None:
                return
        raise last or failure

    def _once(self, world: World, fd: int, args: S) -> DeviceError | None:
        """Call it once; the error when it may be retried. Raises: all other errors."""
        try:
            world.ioctl(fd, self.request, args.raw)
        except DeviceError as error:
            return self._failure(error)
        if len(args.raw) != args.SIZE:
            raise self._misshapen(args)
        return None

    def _failure(self, error: DeviceError) -> DeviceError:
        """An error that may be retried, with the ioctl's name. Raises: all others."""
        error.named(self.name)
        if errno_of(error) not in _RETRIED:
            raise error
        return error

    def _misshapen(self, args: S) -> MalformedInput:
        return MalformedInput(f"{self.name}: the answer has {len(args.raw)} bytes")

    def _restore(self, args: S, given: bytes) -> None:
        """The arguments as they were before an interrupted call, except for its progress.

        # src: kfd_chardev.c kfd_ioctl() copies the struct out whatever the command returned
        """
        reached = bytes(args.raw)
        args.raw[:] = given
        if len(reached) != args.SIZE:
            return
        reported = self.args.of(reached)
        if self.resumes is not None:
            done, most = self.resumes
            if getattr(args, done) <= getattr(reported, done) <= getattr(args, most):
                setattr(args, done, getattr(reported, done))
        if self.counts_down is not None:
            left = getattr(reported, self.counts_down)
            setattr(args, self.counts_down, min(left, getattr(args, self.counts_down)))

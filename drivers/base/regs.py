"""Registers as values, blocks as address maps, ports as the only door to a live register.

Used as in::

    class CntlReg(Reg32):
        enable: int = bits(0)
        vmid: int = bits(7, 4)

    class Engine(Block):
        CNTL = at(0x40, CntlReg)

    engine = Engine(region, clock=world)
    engine.CNTL.write(engine.CNTL.read().replace(vmid=3))
    engine.CNTL.wait(lambda reg: reg.enable == 0, timeout_s=0.5)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, dataclass_transform, overload

from drivers.base.deadline import Clock, polls
from drivers.base.errors import DeviceGone, DeviceTimeout


class Bits:
    """Bits hi..lo of a register; an IntEnum names their values."""

    __slots__ = ("enum", "hi", "lo", "mask")

    def __init__(self, hi: int, lo: int, enum: type[IntEnum] | None) -> None:
        self.hi, self.lo, self.enum = hi, lo, enum
        self.mask = ((1 << (hi - lo + 1)) - 1) << lo if hi >= lo >= 0 else 0

    def __get__(self, reg: Reg | None, owner: type) -> Any:
        if reg is None:
            return self
        value = (reg.raw & self.mask) >> self.lo
        if self.enum is not None and value in self.enum._value2member_map_:
            return self.enum(value)
        return value


def bits(hi: int, lo: int | None = None, enum: type[IntEnum] | None = None) -> Any:
    """Declare bits hi..lo (or the single bit `hi`) of a register class."""
    return Bits(hi, hi if lo is None else lo, enum)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Reg:
    """An immutable register value with named fields; bits without a name are preserved.

    Raises: ValueError for a value that does not fit its field, never a spill into the neighbour.
    """

    __slots__ = ("raw",)
    BITS: ClassVar[int] = 32
    FIELDS: ClassVar[dict[str, Bits]] = {}
    raw: ClassVar[Any]  # a slot; ClassVar keeps it out of the typed constructor

    def __init_subclass__(cls) -> None:
        fields, used = {}, 0
        for name, field in vars(cls).items():
            if not isinstance(field, Bits):
                continue
            if not 0 <= field.lo <= field.hi < cls.BITS:
                raise TypeError(f"{cls.__name__}.{name}: {field.hi}..{field.lo} is no bit range")
            if used & field.mask:
                raise TypeError(f"{cls.__name__}.{name} overlaps another field")
            used |= field.mask
            fields[name] = field
        cls.FIELDS = fields

    def __init__(self, **values: int) -> None:
        object.__setattr__(self, "raw", self._pack(0, values))

    @classmethod
    def of(cls, raw: int) -> Self:
        """The register whose bits are `raw`."""
        if not 0 <= raw < 1 << cls.BITS:
            raise ValueError(f"{cls.__name__}: {raw:#x} is not a {cls.BITS}-bit value")
        reg = object.__new__(cls)
        object.__setattr__(reg, "raw", raw)
        return reg

    def replace(self, **values: int) -> Self:
        """The same register with some fields changed."""
        return self.of(self._pack(self.raw, values))

    @classmethod
    def _pack(cls, raw: int, values: dict[str, int]) -> int:
        for name, value in values.items():
            field = cls.FIELDS.get(name)
            if field is None:
                known = ", ".join(cls.FIELDS)
                raise TypeError(f"{cls.__name__} has no field {name!r}; it has {known}")
            if not 0 <= value <= field.mask >> field.lo:
                raise ValueError(
                    f"{cls.__name__}.{name} = {value:#x} does not fit bits {field.hi}..{field.lo}"
                )
            raw = raw & ~field.mask | int(value) << field.lo
        return raw

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is a value; use replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            raise TypeError(f"comparing {type(self).__name__} with {type(other).__name__}")
        return bool(self.raw == other.raw)

    def __hash__(self) -> int:
        return hash((type(self), self.raw))

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in self.FIELDS if getattr(self, n))
        return f"{type(self).__name__}({self.raw:#0{2 + self.BITS // 4}x}: {shown})"


class Reg32(Reg):
    """A 32-bit register."""

    __slots__ = ()


class Reg64(Reg):
    """A 64-bit register, accessed as one 64-bit word."""

    __slots__ = ()
    BITS = 64


class Mmio(Protocol):
    """32- and 64-bit access to one aperture; byte offsets, bounds-checked. A Region is one."""

    def read32(self, off: int) -> int:
        """The word at `off`."""

    def write32(self, off: int, value: int) -> None:
        """Store the word at `off`."""

    def read64(self, off: int) -> int:
        """The double word at `off`."""

    def write64(self, off: int, value: int) -> None:
        """Store the double word at `off`."""


R = TypeVar("R", bound=Reg)


class Port(Generic[R]):
    """One register of one live block."""

    __slots__ = ("block", "cls", "name", "off")

    def __init__(self, block: Block, off: int, cls: type[R], name: str) -> None:
        self.block, self.off, self.cls, self.name = block, off, cls, name

    def read(self) -> R:
        """One read on the wire."""
        mmio = self.block.mmio
        wide = self.cls.BITS == Reg64.BITS
        return self.cls.of(mmio.read64(self.off) if wide else mmio.read32(self.off))

    def write(self, value: R) -> None:
        """One write on the wire."""
        if type(value) is not self.cls:
            raise TypeError(f"{self.name} is a {self.cls.__name__}, not a {type(value).__name__}")
        if self.cls.BITS == Reg64.BITS:
            self.block.mmio.write64(self.off, value.raw)
        else:
            self.block.mmio.write32(self.off, value.raw)

    def update(self, **values: int) -> R:
        """Read, change some fields, write; the value written."""
        value = self.read().replace(**values)
        self.write(value)
        return value

    def wait(self, ok: Callable[[R], bool], timeout_s: float) -> R:
        """Poll until `ok(value)`. Raises: DeviceTimeout with the last value, DeviceGone."""
        value = self.cls.of(0)
        for _ in polls(timeout_s, self.block.clock):
            value = self.read()
            if ok(value):
                return value
            if value.raw == (1 << self.cls.BITS) - 1:
                raise DeviceGone(
                    f"{self.name} reads all ones",
                    hint="the device left the bus: check power and cable, then open it again",
                )
        raise DeviceTimeout(
            f"{self.name} after {timeout_s} s: {value!r}",
            register=self.name,
            last=value,
            hint="see the kernel log (dmesg), then open the device again",
        )


class At(Generic[R]):
    """Class-level declaration: register type `cls` at byte offset `off` of its block."""

    def __init__(self, off: int, cls: type[R]) -> None:
        self.off, self.cls, self.name = off, cls, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"{owner.__name__}.{name}"

    @overload
    def __get__(self, block: None, owner: type) -> At[R]: ...
    @overload
    def __get__(self, block: Block, owner: type) -> Port[R]: ...
    def __get__(self, block: Block | None, owner: type) -> At[R] | Port[R]:
        if block is None:
            return self
        return Port(block, block.base_off + self.off, self.cls, self.name)


def at(off: int, cls: type[R]) -> At[R]:
    """Declare a register of type `cls` at byte offset `off` of the block class."""
    return At(off, cls)


class Block:
    """A group of registers at `base_off` of an aperture."""

    __slots__ = ("base_off", "clock", "mmio")

    def __init__(self, mmio: Mmio, base_off: int = 0, *, clock: Clock) -> None:
        self.mmio, self.base_off, self.clock = mmio, base_off, clock

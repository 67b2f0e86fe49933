"""Registers as values with named fields.

Used as in::

    class CntlReg(Reg32):
        enable: int = bits(0)
        vmid: int = bits(7, 4)

    CntlReg.of(word).replace(vmid=3).raw
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar, Self, dataclass_transform


class Bits:
    """Bits hi..lo of a register; an IntEnum names their values."""

    __slots__ = ("enum", "hi", "lo", "mask")

    def __init__(self, hi: int, lo: int, enum: type[IntEnum] | None) -> None:
        self.hi, self.lo, self.enum = hi, lo, enum
        self.mask = ((1 << (hi - lo + 1)) - 1) << lo if hi >= lo >= 0 else 0

    def __get__(self, reg: Reg32 | None, owner: type) -> Any:
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
class Reg32:
    """An immutable 32-bit register with named fields; bits without a name are preserved.

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
                raise TypeError(f"{cls.__name__}.{name}: {field.hi}..{field.lo} is not a bit range")
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

"""Element types, shared by the tensor graph and the kernel IR."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type; compared by identity, so there is exactly one object per name.

    Copies and unpickled ones are that object, and a second one is refused.
    """

    name: str
    itemsize: int
    kind: str
    """"b" bool, "u" unsigned, "i" signed, "f" float."""

    def __post_init__(self) -> None:
        if BY_NAME:
            raise TypeError(f"dtypes are not made; use one of {', '.join(BY_NAME)}")

    def __repr__(self) -> str:
        return f"unbound.{self.name}"

    def __reduce__(self) -> str:
        """The name of the one object in this module, where pickle and copy find it."""
        return "bool_" if self.kind == "b" else self.name

    @property
    def bits(self) -> int:
        return 8 * self.itemsize

    @property
    def storage(self) -> str:
        """The numpy dtype that holds the same bytes (bfloat16 has none: its bits are uint16)."""
        return "uint16" if self.name == "bfloat16" else self.name


BY_NAME: dict[str, DType] = {}
"""All of them, once this module is complete."""

bool_ = DType("bool", 1, "b")
uint8, uint16, uint32, uint64 = (DType(f"uint{8 * n}", n, "u") for n in (1, 2, 4, 8))
int8, int16, int32, int64 = (DType(f"int{8 * n}", n, "i") for n in (1, 2, 4, 8))
float16 = DType("float16", 2, "f")
bfloat16 = DType("bfloat16", 2, "f")
float32 = DType("float32", 4, "f")
float64 = DType("float64", 8, "f")

ALL = (bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
       float16, bfloat16, float32, float64)  # fmt: skip
BY_NAME.update((dtype.name, dtype) for dtype in ALL)


def limits(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer or bool dtype."""
    if dtype.kind == "f":
        raise TypeError(f"{dtype.name} is not an integer dtype")
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1

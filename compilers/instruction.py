"""One line of a listing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `address` is an offset in the image."""

    address: int
    code: bytes
    text: str
    """Mnemonic and operands."""
    target: int | None = None
    """Target of a jump or call."""
    jump: bool = False
    note: str = ""
    label: str = ""
    hot: bool = False
    """Inside the hot loop: the innermost loop with most nesting, then most vector work."""

    @property
    def end(self) -> int:
        """The address after it."""
        return self.address + len(self.code)

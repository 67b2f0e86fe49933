"""Why the GPU stops a submission."""

from __future__ import annotations

PAGE_FAULT, OPCODE_ERROR, PROTECTED = "page fault", "opcode error", "protected register"
HANG, ILLEGAL_INSTRUCTION = "hang", "illegal instruction"
KINDS = (PAGE_FAULT, OPCODE_ERROR, PROTECTED, HANG, ILLEGAL_INSTRUCTION)


class GpuFault(Exception):
    """A submission cannot go on."""

    def __init__(self, kind: str, why: str, va: int = 0, access: str = "") -> None:
        super().__init__(f"{kind}: {why}")
        self.kind, self.why, self.va, self.access = kind, why, va, access

"""Errors of a warp, as the error register of its SM (HWW_WARP_ESR) numbers them.

# src: Linux drivers/gpu/drm/nouveau/nvkm/engine/gr/gf100.c gf100_mp_warp_error, which gv100.c uses
# src: kernel logs of GPUs since Volta agree where they show number and name: 0x9 "Illegal
# src: Instruction Encoding" (3dem/relion issue 436), 0xb "Illegal Instruction Parameter"
# src: (leptonai/gpud pull request 46); 0xe alone (vllm-project/vllm issue 5901)
"""

from __future__ import annotations

from typing import Final

ERROR_MASK: Final = 0xFFFF
"""What of the register is the error; above it are flags and the warp."""
NAMES: Final = {
    0x01: "stack error", 0x02: "API stack error", 0x03: "return from an empty stack",
    0x04: "program counter wrapped", 0x05: "misaligned program counter",
    0x06: "program counter overflow", 0x07: "misaligned constant address",
    0x08: "misaligned register", 0x09: "illegal instruction",
    0x0A: "illegal instruction of this kind of program", 0x0B: "illegal instruction parameter",
    0x0C: "invalid constant address", 0x0D: "register out of range",
    0x0E: "address out of range", 0x0F: "misaligned address", 0x10: "invalid address space",
    0x11: "illegal instruction parameter", 0x12: "invalid constant address",
    0x13: "geometry error", 0x14: "divergent warp", 0x15: "warp exit",
}  # fmt: skip


def warp_error(register: int) -> str:
    """What a warp did, by the value of its register; "" for no error."""
    error = register & ERROR_MASK
    return NAMES.get(error, f"warp error {error:#x}") if error else ""

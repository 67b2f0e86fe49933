"""Copy-engine packets of the kernel's own rings: registers, page tables, invalidation.

src: sdma_v6_0.c, sdma_v7_0.c, sdma_v4_4_2.c: emit_wreg(), emit_reg_wait(), emit_vm_flush(),
vm_set_pte_pde(); fields by sdma_v6_0_0_pkt_open.h
"""

from __future__ import annotations

from boards.amd.cp.context import COMPARE, Context, bits, join
from boards.amd.cp.layouts import fields
from boards.amd.sdma.layouts import POLL_REGMEM, Form

PTEPDE, SRBM_WRITE = 12, 14
SUB_VM_INVALIDATION = 4
VM_INVALIDATION = Form(
    "VM_INVALIDATION", 4, (SUB_VM_INVALIDATION,),
    (fields((15, 0), (20, 16), (28, 24)), 0, 0, fields((15, 0), (20, 16))),
)  # fmt: skip
REGISTER_POLL = Form("POLL_REGMEM", 6, (0,), (fields((15, 0), 26, (30, 28)), 3, 3, 0, 0))
FORMS = {
    PTEPDE: Form("PTEPDE", 10, (0,), (fields((15, 0)), 7, 0, 0, 0, 0, 0, 0, 0, fields((18, 0)))),
    SRBM_WRITE: Form("SRBM_WRITE", 3, (0,), (fields((15, 0), (31, 28)),)),
}
_ALL_BYTES, _REGISTER_WRITE = 0xF, 7
_WORD_BYTES, _ENTRY_BYTES = 4, 8


def form_of(header: int) -> Form | None:
    """The form of a packet that only the kernel's rings have; None: it is one of everybody's."""
    op, sub = bits(header, 7, 0), bits(header, 15, 8)
    if op == POLL_REGMEM and sub == SUB_VM_INVALIDATION:
        return VM_INVALIDATION
    if op == POLL_REGMEM and not sub and not bits(header, 31, 31):
        return REGISTER_POLL
    return FORMS.get(op)


def _srbm_write(context: Context, words: tuple[int, ...]) -> bool:
    """A register by its dword; of SDMA 7 by its byte, and without byte enables.

    src: sdma_v6_0_ring_emit_wreg(); sdma_v7_0_ring_emit_wreg(): "SRBM WRITE command will not
    support on sdma v7. Use Register WRITE command instead, which OPCODE is same"
    """
    enabled, register = bits(words[0], 31, 28), words[1]
    by_byte = context.host.chip.sdma[0] >= _REGISTER_WRITE
    if enabled != (0 if by_byte else _ALL_BYTES):
        raise context.fault("unsupported", f"byte enable {enabled:#x}")
    if by_byte:
        register, odd = divmod(register, _WORD_BYTES)
        if odd:
            raise context.fault("misaligned", f"register at byte {words[1]:#x}")
    context.spec.kernel.write_register(register, words[2])
    return True


def _pte_pde(context: Context, words: tuple[int, ...]) -> bool:
    """`count` + 1 entries: a value that grows by the increment, and the mask's bits in each."""
    target, mask = join(words[1], words[2]), join(words[3], words[4])
    value, step = join(words[5], words[6]), join(words[7], words[8])
    entries = (
        (value + number * step | mask) & (1 << 64) - 1 for number in range(words[9] + 1)
    )  # fmt: skip
    context.write(target, b"".join(entry.to_bytes(_ENTRY_BYTES, "little") for entry in entries))
    return True


def _register_poll(context: Context, words: tuple[int, ...]) -> bool:
    """Byte addresses of one register, or of one that is written and one that is waited for."""
    kernel, function = context.spec.kernel, bits(words[0], 30, 28)
    if function not in COMPARE:
        raise context.fault("reserved value", f"func {function}")
    if bits(words[0], 26, 26):
        kernel.write_register(words[2] // _WORD_BYTES, words[3])
    if not words[1]:
        return True
    value = kernel.read_register(words[1] // _WORD_BYTES)
    return COMPARE[function](value & words[4], words[3])


def _invalidate(context: Context, words: tuple[int, ...]) -> bool:
    """Invalidation by the engine's own request, which it waits for: VMIDs in the low bits."""
    context.spec.kernel.invalidate_vmids(bits(words[1], 15, 0))
    return True


def run(context: Context, form: Form, words: tuple[int, ...]) -> bool:
    """One of these packets; False: wait and ask again. Raises: PacketFault, MemoryFault."""
    handlers = {
        "SRBM_WRITE": _srbm_write, "PTEPDE": _pte_pde, "POLL_REGMEM": _register_poll,
        "VM_INVALIDATION": _invalidate,
    }  # fmt: skip
    return handlers[form.name](context, words)

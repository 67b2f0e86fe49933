"""Copy-engine packets of the kernel's own rings, as sdma_v6_0.c emits them."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from boards.amd.cp.context import Context
from boards.amd.cp.engine_types import Chip, PacketFault
from boards.amd.sdma import kernel
from tests.boards.engine_harness import Rig, chip
from tests.support import check

# src: sdma_v6_0_0_pkt_open.h: opcode in bits 7:0, sub-operation in 15:8
SRBM_WRITE = [0xF000_000E, 0x1234, 0xCAFE]
REGISTER_WRITE = [0x0000_000E, 0x1234 << 2, 0xCAFE]
"""Of SDMA 7: a byte address, no byte enables. src: sdma_v7_0.c sdma_v7_0_ring_emit_wreg()"""
SDMA_7 = chip("gfx1201", "gfx12", (7, 0, 1))
POLL_REGISTER = [0x3000_0008, 0x1234 << 2, 0, 0x40, 0xFF, 0x0FFF_000A]
PTE_PDE = [0x0000_000C, 0x1000_2000, 0x7F, 0x71, 0x8, 0x5000, 0x1, 0x1000, 0, 2]
VM_INVALIDATION = [0x1F0C_0408, 0x00F8_0100, 0xFFFF_FFFF, 0x001F_0100]


class Registers:
    """What the kernel's rings reach."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}
        self.vmids = 0

    def read_register(self, address_dw: int) -> int:
        return self.values.get(address_dw, 0)

    def write_register(self, address_dw: int, value: int) -> None:
        self.values[address_dw] = value

    def invalidate_vmids(self, vmids: int) -> None:
        self.vmids |= vmids


def run(
    words: list[int], registers: Registers, engine: Chip | None = None
) -> tuple[bool, dict[int, bytes]]:
    written: dict[int, bytes] = {}

    def fault(kind: str, detail: str = "") -> PacketFault:
        return PacketFault(kind, detail=detail)

    context: Any = SimpleNamespace(
        spec=SimpleNamespace(kernel=registers),
        fault=fault,
        write=written.__setitem__,
        host=SimpleNamespace(chip=engine or chip()),
    )
    form = kernel.form_of(words[0])
    if form is None:
        raise AssertionError(f"no packet of the kernel's: {words[0]:#x}")
    check(len(words) == form.words, f"{form.name} has {form.words} words")
    reserved = [word & mask for word, mask in zip(words, form.reserved, strict=False)]
    check(not any(reserved), f"{form.name}: reserved bits {reserved}")
    return kernel.run(cast(Context, context), form, tuple(words)), written


def test_a_register_is_written_and_waited_for() -> None:
    registers = Registers()
    check(run(SRBM_WRITE, registers)[0] and registers.values == {0x1234: 0xCAFE}, "written")
    check(not run(POLL_REGISTER, registers)[0], "0xfe is not 0x40")
    registers.values[0x1234] = 0x1240
    check(run(POLL_REGISTER, registers)[0], "under the mask it is")


def test_sdma_7_writes_a_register_by_its_byte() -> None:
    registers = Registers()
    check(run(REGISTER_WRITE, registers, SDMA_7)[0], "done at once")
    check(registers.values == {0x1234: 0xCAFE}, f"{registers.values}")


@pytest.mark.parametrize(
    ("words", "engine", "kind"),
    [
        ([0x0000_000E, 0x48D2, 0], SDMA_7, "misaligned"),
        (SRBM_WRITE, SDMA_7, "unsupported"),
        (REGISTER_WRITE, chip(), "unsupported"),
    ],
)
def test_each_version_has_its_own_register_write(words: list[int], engine: Chip, kind: str) -> None:
    registers = Registers()
    with pytest.raises(PacketFault) as error:
        run(words, registers, engine)
    check(error.value.kind == kind, f"{error.value}")
    check(not registers.values, "nothing is written")


def test_page_table_entries_grow_by_the_increment() -> None:
    _, written = run(PTE_PDE, Registers())
    wanted = struct.pack("<3Q", *(0x8_0000_0071 | 0x1_0000_5000 + n * 0x1000 for n in range(3)))
    check(written == {0x7F_1000_2000: wanted}, f"{written}")


def test_an_invalidation_names_its_vmids() -> None:
    registers = Registers()
    check(run(VM_INVALIDATION, registers)[0], "done at once")
    check(registers.vmids == 1 << 8, f"{registers.vmids:#x}")


@pytest.mark.parametrize("words", [SRBM_WRITE, PTE_PDE])
def test_a_process_may_send_none_of_them(words: list[int]) -> None:
    r = Rig(chip())
    r.create("sdma")
    r.submit(words, scale=4)
    check(r.fault().kind == "privileged", f"{r.fault()}")

"""What stops a wave without a page fault is named, at once, by the device's own trap handler.

The handler's words are what an application's queue would run on silicon; no silicon ran them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.text import disassemble
from boards.amd.machine import Options
from drivers.amd.aql_ring import AqlRing
from drivers.amd.device import AmdDevice
from drivers.amd.trap_code import HANDLERS, assemble
from drivers.base.contracts import Binary
from drivers.base.errors import DeviceFault
from queues.amd.aql_launch import PACKET_FORMAT
from queues.amd.kernel_code import AmdCode
from tests.boards.driver_harness import add, device_on, get, kernel, put
from tests.support import check

N = 64
QUEUES = (
    ("gfx1030", "PM4"), ("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx1201", "PM4"),
    ("gfx942", "AQL"), ("gfx942", "PM4"), ("gfx90a", "AQL"),
)  # fmt: skip
HANG_S = 5
"""AMD_HANG_S, of virtual time: what is found sooner is no hang."""
ATOMIC = """
define amdgpu_kernel void @k(ptr addrspace(1) %c) #0 {
  %old = atomicrmw add ptr addrspace(1) %c, i32 1 syncscope("agent") monotonic, align 4
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""


S_TRAP_2 = dict.fromkeys(("gfx1030", "gfx942", "gfx90a"), 0xBF920002)
"""LLVM 19 MC; later families have another opcode."""
LATER_S_TRAP_2 = 0xBF900002


def patched(chip: str, word: int) -> Binary:
    """A kernel with another first instruction."""
    made = add(chip)
    image, at = bytearray(made.image), AmdCode.of(made).code_offset
    struct.pack_into("=I", image, at, word)
    return replace(made, image=bytes(image))


def next_launch_is_right(device: AmdDevice) -> None:
    x = put(device, np.arange(N, dtype=np.float32))
    out = device.alloc(4 * N)
    device.launch(device.load(add(device.arch)), [x, x, out, N], 1)
    device.synchronize()
    np.testing.assert_array_equal(get(device, out).view(np.float32), 2 * np.arange(N))


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
@pytest.mark.parametrize(
    ("make", "kind", "offset"),
    [
        (lambda chip: patched(chip, 0xFFFFFFFF), "illegal instruction", 0),
        (lambda chip: patched(chip, S_TRAP_2.get(chip, LATER_S_TRAP_2)), "s_trap 2", 0),
        (lambda chip: kernel(ATOMIC, chip, 1), "memory violation", 2),
    ],
    ids=["illegal instruction", "trap", "violation"],
)
def test_the_exception_is_named_and_the_device_goes_on(
    chip: str, queue: str, make: Callable[[str], Binary], kind: str, offset: int
) -> None:
    with device_on(chip, queue, AMD_HANG_S=str(HANG_S)) as (board, device):
        program, x = device.load(make(chip)), put(device, np.ones(N, np.float32))
        arguments = [x.gpu_va + offset] if offset else [x, x, x, N]
        began_s = board.monotonic_s()
        device.launch(program, arguments, 1)
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        fault = caught.value
        check(board.monotonic_s() - began_s < HANG_S / 2, "found by waiting for a hang")
        check((fault.kind, fault.kernel) == (kind, "k"), str(fault))
        check("near pc 0x" in str(fault), str(fault))
        next_launch_is_right(device)


def test_a_page_fault_stays_one() -> None:
    """The wave comes to the handler, too, with XNACK_ERROR; the kernel says where it was."""
    with device_on("gfx1100", options=Options(evict_on_fault=False)) as (_, device):
        x = put(device, np.ones(N, np.float32))
        device.launch(device.load(add("gfx1100")), [0x1000, x, x, N], 1)
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        check(caught.value.kind == "unmapped" and caught.value.gpu_va == 0x1000)
        next_launch_is_right(device)


@pytest.mark.parametrize("chip", ["gfx1030", "gfx1100", "gfx942"])
def test_an_aql_error_has_its_code(chip: str) -> None:
    """Without queue_inactive_signal the code goes to address 0: a page fault of nobody's."""
    with device_on(chip, "AQL", AMD_HANG_S=str(HANG_S)) as (_, device):
        ring = device.compute
        if not isinstance(ring, AqlRing):
            raise TypeError("not a queue of AQL packets")
        words = (9,) + (0,) * (len(struct.unpack(PACKET_FORMAT, bytes(64))) - 1)
        with ring.lock:
            ring.play(memoryview(struct.pack(PACKET_FORMAT, *words)))
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        check(caught.value.kind == "bad packet", str(caught.value))
        next_launch_is_right(device)


@pytest.mark.parametrize(
    ("family", "chip"),
    [
        ("CDNA2", "gfx90a"),
        ("CDNA3", "gfx942"),
        ("RDNA2", "gfx1030"),
        ("RDNA3", "gfx1100"),
        ("RDNA4", "gfx1201"),
    ],
)
def test_the_words_are_the_instructions_beside_them(family: str, chip: str) -> None:
    """As the board's decoder, which is compared with LLVM's, reads them."""
    code = assemble(HANDLERS[family], 0x1122_3344_5566, 0x7788_99AA_BBCC, 0x321)
    words = struct.unpack(f"={len(code) // 4}I", code)
    texts, at = [], 0
    for _ in range(40):
        inst = decode(FAMILIES[chip], words[at : at + 4], 4 * at, 64 if "CDNA" in family else 32)
        texts.append(disassemble(inst))
        at += inst.size_bytes // 4
        if texts[-1].startswith("s_branch"):
            break
    text = "\n".join(texts)
    for wanted in (
        "v_mov_b32_e32 v0, 0x33445566", "v_mov_b32_e32 v1, 0x1122", "v_mov_b32_e32 v2, ttmp0",
        "v_mov_b32_e32 v3, ttmp1", "v_mov_b32_e32 v2, ttmp2", "v_mov_b32_e32 v3, 1",
        "v_mov_b32_e32 v0, 0x99aabbcc", "v_mov_b32_e32 v1, 0x7788", "v_mov_b32_e32 v2, 0x321",
        "s_mov_b32 m0, 0x321", "s_sendmsg sendmsg(MSG_INTERRUPT)", "s_rfe_b64 ttmp[0:1]",
    ):  # fmt: skip
        check(wanted in text, f"{wanted} is not in\n{text}")
    # s_getpc_b64 names the next instruction; 24 bytes on is what stands behind s_rfe_b64
    after, back = texts.index("s_getpc_b64 ttmp[0:1]") + 1, texts.index("s_rfe_b64 ttmp[0:1]")
    check(4 * (back + 1 - after) == 24 and texts[back + 1] == "s_trap 2", text)

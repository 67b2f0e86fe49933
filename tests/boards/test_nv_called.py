"""Functions that a kernel calls, as a division's slow path, and tables whose address it holds."""

from __future__ import annotations

import numpy as np
import pytest

from compilers.nv import cubin, cuda_family, libraries, nvjitlink
from compilers.nv.cubin_file import CubinFile
from drivers.base.contracts import Binary, Device
from drivers.base.errors import MalformedInput, NotFound
from queues.nv.kernel_code import CodePatch, Field, NvCode
from tests.cuda.made_up import cuda
from tests.nv_boards import nv_board
from tests.support import check

SM = {"tu102": "75", "ga102": "86", "ad102": "89", "gh100": "90a", "gb202": "120"}
PTX = """.version 8.8
.target sm_{sm}
.address_size 64
.visible .entry k(.param .u64 where)
{{
  .reg .b64 %p<4>; .reg .f32 %f<4>; .reg .b32 %t<2>;
  ld.param.u64 %p1, [where];
  cvta.to.global.u64 %p2, %p1;
  mov.u32 %t1, %tid.x;
  mul.wide.u32 %p3, %t1, 4;
  add.u64 %p3, %p2, %p3;
  ld.global.f32 %f1, [%p3];
  ld.global.f32 %f2, [%p3+256];
  div.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%p3+512], %f3;
  ret;
}}
"""


TABLE = """.version 8.8
.target sm_{sm}
.address_size 64
.global .align 4 .b32 before[3] = {{1, 2, 3}};
.global .align 4 .b32 table[32] = {{{values}}};
.visible .entry k(.param .u64 where)
{{
  .reg .b64 %p<5>; .reg .b32 %t<3>;
  ld.param.u64 %p1, [where];
  cvta.to.global.u64 %p2, %p1;
  mov.u32 %t1, %tid.x;
  mul.wide.u32 %p3, %t1, 4;
  mov.u64 %p4, table;
  add.u64 %p4, %p4, %p3;
  ld.global.u32 %t2, [%p4];
  add.u64 %p3, %p2, %p3;
  st.global.u32 [%p3], %t2;
  ret;
}}
"""


def assembled(sm: str, text: str = PTX, **more: str) -> bytes:
    try:
        libraries.find(nvjitlink.NAMES)
    except NotFound:
        pytest.skip("no nvJitLink: make nv")
    return nvjitlink.assembled(text.format(sm=sm, **more), f"sm_{sm}")


def quotients(device: Device, binary: Binary) -> None:
    """Denormals, infinities and huge quotients take the slow path, beside lanes that do not."""
    tops = np.array([1, 3e38, 1e-40, np.inf, 0, -7, 1e-38, np.nan] * 8, np.float32)
    downs = np.array([3, 1e-30, 3, 2, 0, 1e-44, 4, 1] * 8, np.float32)
    with np.errstate(all="ignore"):
        expected = tops / downs
    buffer = device.alloc(1024)
    device.copy_in(buffer, memoryview(np.concatenate([tops, downs]).tobytes()))
    device.compute_queue().exec(device.load(binary), [buffer], (1, 1, 1), (64, 1, 1)).submit()
    device.synchronize()
    back = bytearray(1024)
    device.copy_out(memoryview(back), buffer)
    found = np.frombuffer(back, np.float32)[128:192]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("chip", SM)
def test_a_division_s_slow_path(chip: str) -> None:
    binary = cubin.load(assembled(SM[chip]), "k", f"sm_{SM[chip]}")
    check(len(NvCode.of(binary).patches) >= 3, "nothing is called")
    with nv_board(chip, "PTX") as device:
        quotients(device, binary)


@pytest.mark.parametrize("chip", SM)
def test_code_that_holds_a_table_s_address(chip: str) -> None:
    wanted = np.arange(7, 39, dtype=np.uint32) * 3
    blob = assembled(SM[chip], TABLE, values=", ".join(map(str, wanted.tolist())))
    binary = cubin.load(blob, "k", f"sm_{SM[chip]}")
    check(NvCode.of(binary).patches, "the address is in a constant bank")
    found = np.zeros(32, np.uint32)
    with nv_board(chip, "PTX") as device:
        buffer = device.alloc(found.nbytes)
        device.compute_queue().exec(device.load(binary), [buffer], (1, 1, 1), (32, 1, 1)).submit()
        device.copy_out(memoryview(found).cast("B"), buffer)
    np.testing.assert_array_equal(found, wanted)


def test_the_same_on_the_made_up_libcuda() -> None:
    """It loads the cubin whole."""
    blob = assembled("86")
    binary = cuda_family.FAMILY.load(blob, "k", "cuda_sm_86")
    with cuda(CUDA_PTX="1") as device:
        quotients(device, binary)


def test_addresses_go_where_instructions_have_them() -> None:
    """src: nvdisasm 13.5 of CALL.ABS: bit 34 is 0x4 on sm_86; bit 16 is 0x4, bit 34 0x400 on sm_90a

    and of MOV 32@lo() and 32@hi(), whose immediate is at 32.
    """
    base, goal = 0x7_1234_5600, 0x120
    address = base + goal
    for field, expected in (
        (Field.LOW, (address & 0xFFFF_FFFF) << 32),
        (Field.HIGH, 0x7 << 32),
        (Field.TARGET, address // 4 << 34),
        (Field.SPLIT_TARGET, address // 0x400 << 34 | (address // 4 & 0xFF) << 16),
    ):
        image = bytearray(48)
        CodePatch(16, field, goal).apply(image, base)
        check(int.from_bytes(image[16:32], "little") == expected, f"{field}: {image.hex()}")
        check(not any(image[:16] + image[32:]), f"{field} changed its neighbours")
        full = bytearray(b"\xff" * 48)
        CodePatch(16, field, goal).apply(full, base)
        CodePatch(16, field, 0).apply(full, 0)
        CodePatch(16, field, 0).apply(image, 0)
        apart = int.from_bytes(full[16:32], "little") ^ int.from_bytes(image[16:32], "little")
        kept = 128 - apart.bit_count()
        check(kept == {Field.SPLIT_TARGET: 55, Field.TARGET: 47}.get(field, 32), f"{field}: {kept}")


@pytest.mark.parametrize("kind", [1, 2, 59, 0xFFFF])
def test_other_relocations_of_code_are_refused(kind: int) -> None:
    blob = bytearray(assembled("86"))
    file = CubinFile(bytes(blob))
    code = next(one for one in file.sections if one.name == ".text.k")
    table = next(one for one in file.sections if one.info == code.number and one.kind in (4, 9))
    blob[table.offset + 8 : table.offset + 12] = kind.to_bytes(4, "little")
    with pytest.raises(MalformedInput, match=f"relocation of kind {kind}"):
        cubin.load(bytes(blob), "k", "sm_86")

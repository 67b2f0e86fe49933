"""Buffer instructions against numpy: bounds, structures, atomics, scalar loads, private memory."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.isa.families import FAMILIES
from boards.amd.wave.buffer import scratch_resource
from boards.amd.wave.execute import execute
from boards.amd.wave.types import LENIENT, Dispatch, Strict
from tests.boards.isa_kernels import IDS
from tests.boards.isa_programs import SCRATCH
from tests.boards.wave_harness import CHIPS, FlatMemory, kernel, launch
from tests.support import check

_G = "ptr addrspace(1) noalias"
_RSRC = "ptr addrspace(8)"
_ITEMS, _INSIDE, _FIELDS = 64, 40, 3
_RAW, _STRUCTURED = 3 << 28 | 1 << 24, 1 << 24
_MAKE = f"declare {_RSRC} @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)\n"


def _resource(name: str, pointer: str, stride: int, records: int, flags: int) -> str:
    return (
        f"  %{name} = call {_RSRC} @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %{pointer},"
        f" i16 {stride}, i64 {records}, i32 {flags})\n"
    )


def _copy(kind: str, nbytes: int) -> str:
    """Element t of %a goes to element t of %c, both through raw buffers of _INSIDE elements."""
    name = kind.strip("<>").replace(" x ", "")
    suffix = f"v{name}" if kind[0] == "<" else name
    load, store = (f"llvm.amdgcn.raw.ptr.buffer.{what}.{suffix}" for what in ("load", "store"))
    body = (
        "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
        + _resource("ra", "a", 0, _INSIDE * nbytes, _RAW)
        + _resource("rc", "c", 0, (_INSIDE + 8) * nbytes, _RAW)
        + f"  %o = mul i32 %t, {nbytes}\n"
        + f"  %v = call {kind} @{load}({_RSRC} %ra, i32 %o, i32 0, i32 0)\n"
        + f"  call void @{store}({kind} %v, {_RSRC} %rc, i32 %o, i32 0, i32 0)\n  ret void"
    )
    top = f"declare {kind} @{load}({_RSRC}, i32, i32, i32)\n"
    top += f"declare void @{store}({kind}, {_RSRC}, i32, i32, i32)\n"
    return kernel(body, f"{_G} %a, {_G} %c", top=IDS + _MAKE + top)


@pytest.mark.parametrize("cpu", CHIPS)
@pytest.mark.parametrize(
    ("kind", "dtype"), [("i8", "u1"), ("i16", "u2"), ("i32", "u4"), ("<4 x i32>", "4u4")]
)
def test_raw_buffers_end_where_they_say(cpu: str, kind: str, dtype: str) -> None:
    element = np.dtype(dtype)
    a = np.random.default_rng(1).integers(1, 200, _ITEMS * element.itemsize, np.uint8)
    c = np.full(len(a), 0xEE, np.uint8)
    report = launch(_copy(kind, element.itemsize), [a, c], cpu=cpu, workgroup=(_ITEMS, 1, 1))
    expected = c.copy()
    read, written = _INSIDE * element.itemsize, (_INSIDE + 8) * element.itemsize
    expected[:read], expected[read:written] = a[:read], 0
    expected[written:] = 0xEE
    np.testing.assert_array_equal(c, expected)
    check(not report.violations, str(report.violations))


_STRUCT_LOAD = "llvm.amdgcn.struct.ptr.buffer.load.i32"
_FIELD = kernel(
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    + _resource("ra", "a", 4 * _FIELDS, _INSIDE, _STRUCTURED)
    + f"""  %v = call i32 @{_STRUCT_LOAD}({_RSRC} %ra, i32 %t, i32 4, i32 0, i32 0)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %p
  ret void""",
    f"{_G} %a, {_G} %out",
    top=IDS + _MAKE + f"declare i32 @{_STRUCT_LOAD}({_RSRC}, i32, i32, i32, i32)\n",
)


@pytest.mark.parametrize("cpu", CHIPS)
def test_structured_buffers_are_indexed_by_stride(cpu: str) -> None:
    a = np.random.default_rng(2).integers(1, 1 << 30, (_ITEMS, _FIELDS), np.uint32)
    out = np.zeros(_ITEMS, np.uint32)
    launch(_FIELD, [a, out], cpu=cpu, workgroup=(_ITEMS, 1, 1))
    np.testing.assert_array_equal(out[:_INSIDE], a[:_INSIDE, 1])
    np.testing.assert_array_equal(out[_INSIDE:], 0)


# v_lshlrev_b32 v0, 2, v0; buffer_load_dword v1, v0, s[0:3], 0 (offen or idxen);
# s_waitcnt vmcnt(0); buffer_store_dword v1, v0, s[4:7], 0; ... v0, v0, s[8:11], 0; s_endpgm
_SHIFT, _OFFEN, _IDXEN = 0x24000082, 1 << 12, 1 << 13
_WORDS = ((0xE0500000, 0x80000100), (0xE0700000, 0x80010100), (0xE0700000, 0x80020000))
_GFX9_DATA = 0x27000
"""Word 3 as Triton's AMD back end makes it for gfx9: a format, no other field."""
_BUFFER_VAS = (0x20000, 0x30000, 0x40000)


@pytest.mark.parametrize("cpu", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(
    ("stride", "mode", "records"),
    [(0, _OFFEN, 4 * _INSIDE), (4, _OFFEN, 4 * _INSIDE), (4, _IDXEN, _INSIDE)],
)
def test_bounds_of_gfx9_follow_stride_and_index(
    cpu: str, stride: int, mode: int, records: int
) -> None:
    """src: CDNA3 ISA 9.1.5; Mesa si_state.c: rows are counted with IDXEN and a stride alone."""
    a = np.arange(1, 1 + _ITEMS, dtype=np.uint32)
    loaded, stored = np.full((2, _ITEMS), 0xEE, np.uint32)
    load, keep, put = ((word | mode, more) for word, more in _WORDS)
    code = [*([_SHIFT] if mode == _OFFEN else []), *load, 0xBF8C0F70, *keep, *put, 0xBF810000]
    memory = FlatMemory()
    memory.place(_CODE_VA, np.array([*code, 0, 0, 0], np.uint32))
    user: list[int] = []
    for va, data, count in zip(_BUFFER_VAS, (a, loaded, stored), (records, 4 * _ITEMS, records),
                               strict=True):  # fmt: skip
        memory.place(va, data)
        user += [va, stride << 16, count, _GFX9_DATA]
    dispatch = Dispatch(
        _CODE_VA, (1, 1, 1), (_ITEMS, 1, 1), rsrc1=0, rsrc2=len(user) << 1, user_sgprs=tuple(user),
        lanes=64,
    )  # fmt: skip
    execute(dispatch, memory, LENIENT, FAMILIES[cpu])
    np.testing.assert_array_equal(loaded, np.where(np.arange(_ITEMS) < _INSIDE, a, 0))
    offset = np.arange(_ITEMS) * (4 if mode == _OFFEN else 1)
    np.testing.assert_array_equal(stored, np.where(np.arange(_ITEMS) < _INSIDE, offset, 0xEE))


_ATOMIC = "llvm.amdgcn.raw.ptr.buffer.atomic.add.i32"
_COUNT = kernel(
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    + _resource("ra", "a", 0, 16, _RAW)
    + f"""  %b = and i32 %t, 7
  %o = shl i32 %b, 2
  %n = add i32 %t, 1
  %v = call i32 @{_ATOMIC}(i32 %n, {_RSRC} %ra, i32 %o, i32 0, i32 0)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %p
  ret void""",
    f"{_G} %a, {_G} %out",
    top=IDS + _MAKE + f"declare i32 @{_ATOMIC}(i32, {_RSRC}, i32, i32, i32)\n",
)


@pytest.mark.parametrize("cpu", CHIPS)
def test_buffer_atomics_return_and_stay_inside(cpu: str) -> None:
    a, out = np.arange(100, 108, dtype=np.uint32), np.zeros(32, np.uint32)
    launch(_COUNT, [a, out], cpu=cpu)
    sums = [sum(t + 1 for t in range(32) if t & 7 == i) for i in range(8)]
    np.testing.assert_array_equal(a, [100 + i + (sums[i] if i < 4 else 0) for i in range(8)])
    for i in range(4):
        seen = sorted(out[i::8].tolist())
        check(seen[0] == 100 + i and len(set(seen)) == 4, f"old values {seen}")
    np.testing.assert_array_equal(out.reshape(4, 8)[:, 4:], 0)


_SCALAR_LOAD = "llvm.amdgcn.s.buffer.load.v4i32"
_UNIFORM = kernel(
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    + _resource("ra", "a", 0, 24, _RAW)
    + f"""  %n = ptrtoint {_RSRC} %ra to i128
  %r = bitcast i128 %n to <4 x i32>
  %v = call <4 x i32> @{_SCALAR_LOAD}(<4 x i32> %r, i32 %at, i32 0)
  store <4 x i32> %v, ptr addrspace(1) %out
  ret void""",
    f"{_G} %a, {_G} %out, i32 %at",
    top=IDS + _MAKE + f"declare <4 x i32> @{_SCALAR_LOAD}(<4 x i32>, i32, i32)\n",
)


@pytest.mark.parametrize("cpu", CHIPS)
def test_scalar_loads_through_buffers_are_bounded(cpu: str) -> None:
    a = np.arange(11, 27, dtype=np.uint32)
    for at, expected in ((4, [12, 13, 14, 15]), (16, [15, 16, 0, 0])):
        out = np.zeros(4, np.uint32)
        launch(_UNIFORM, [a, out, at], cpu=cpu, workgroup=(1, 1, 1))
        np.testing.assert_array_equal(out, expected)


_OLDER = [
    (cpu, lanes)
    for cpu in (*CHIPS, "gfx90a")
    if FAMILIES[cpu].own_scratch
    for lanes in FAMILIES[cpu].lane_counts
]


@pytest.mark.parametrize("features", ["", "+enable-flat-scratch"])
@pytest.mark.parametrize(("cpu", "lanes"), _OLDER)
def test_private_memory_of_chips_that_set_it_up_themselves(
    cpu: str, lanes: int, features: str
) -> None:
    wide = "-wavefrontsize32,+wavefrontsize64" if lanes == 64 else ""
    enabled = ",".join(part for part in (features, wide) if part)
    a = np.random.default_rng(3).integers(0, 1 << 20, 256).astype(np.int32)
    out = np.zeros(256, np.int32)
    report = launch(SCRATCH, [a, out], (4, 1, 1), (64, 1, 1), features=enabled, cpu=cpu)
    np.testing.assert_array_equal(out, (a & 31) * np.arange(256))
    check(not report.violations, str(report.violations))


def test_the_scratch_resource_is_what_the_runtime_describes() -> None:
    words = [scratch_resource(0x7F30_1234_5000, 0x40000, 64) >> 32 * i & 0xFFFFFFFF
             for i in range(4)]  # fmt: skip
    # src: ROCr's SQ_BUF_RSRC_WORD1 and WORD3_GFX10: swizzle 31; selects 4 5 6 7, format 20,
    # index stride 3 (64 lanes), add TID, level 1, no bounds.
    selects = 4 | 5 << 3 | 6 << 6 | 7 << 9
    expected = selects | 20 << 12 | 3 << 21 | 1 << 23 | 1 << 24 | 2 << 28
    check(words == [0x1234_5000, 0x7F30 | 1 << 31, 0x40000, expected], str(words))


# buffer_load_dword v1, off, s[0:3], 0; v_mov_b32 v2, v1; s_endpgm; and s_waitcnt vmcnt(0)
_LOAD, _USE, _END, _WAIT = (0xE0300000, 0x80000100), 0x7E040301, 0xBF810000, 0xBF8C3F70
_CODE_VA, _DATA_VA = 0x10000, 0x20000


def _strictly(words: list[int], user: tuple[int, ...]) -> list[tuple[str, str]]:
    memory = FlatMemory()
    memory.place(_CODE_VA, np.array([*words, 0, 0, 0], np.uint32))
    memory.place(_DATA_VA, np.arange(64, dtype=np.uint32))
    dispatch = Dispatch(
        _CODE_VA, (1, 1, 1), (32, 1, 1), rsrc1=0, rsrc2=len(user) << 1, user_sgprs=user
    )
    report = execute(dispatch, memory, Strict(), FAMILIES["gfx1030"])
    return [(violation.kind, violation.what) for violation in report.violations]


def test_a_buffer_load_that_nobody_waited_for_is_reported() -> None:
    bits = scratch_resource(_DATA_VA, 128, 32)
    user = tuple(bits >> 32 * i & 0xFFFFFFFF for i in range(4))
    late = ("wait count", "v1 before vmcnt")
    check(_strictly([*_LOAD, _WAIT, _USE, _END], user) == [], "a violation without a reason")
    check(_strictly([*_LOAD, _USE, _END], user) == [late], "no violation")
    short = _strictly([*_LOAD, _WAIT, _USE, _END], user[:3])
    check(("uninitialised", "s3") in short, str(short))

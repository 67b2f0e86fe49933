"""HIP through COMGR: code, logs, versions, and what is said when the library is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compilers import toolchains
from compilers.amd import code_object as amd_object
from compilers.amd import comgr as amd_comgr
from compilers.amd import comgr_abi as amd_comgr_abi
from compilers.cache import Cache
from drivers.base.contracts import Binary
from drivers.base.errors import CompileError, NotFound, Unsupported
from queues.amd.kernel_code import AmdCode
from tests.amd_toolbox import needs_comgr
from tests.c_compiler import any_compiler
from tests.support import check

NONE: frozenset[str] = frozenset()
ARCH = "gfx1030"
"""Every COMGR since 2.0 compiles for it."""
SOURCE = """
extern "C" __global__ __launch_bounds__(128) void k(const float *a, float *b, double c, int n) {
  __shared__ float tile[128];
  unsigned lane = __builtin_amdgcn_workitem_id_x();
  unsigned i = __builtin_amdgcn_workgroup_id_x() * 128 + lane;
  tile[lane] = a[i];
  __syncthreads();
  if (i < n) b[i] = tile[127 - lane] * (float)c;
}
"""


@pytest.fixture(scope="module")
def relocatable() -> bytes:
    return amd_comgr.compile_object(SOURCE, ARCH, NONE)


def check_kernel(found: Binary) -> None:
    got, about = found.resources, AmdCode.of(found)
    check(got.shared_bytes == 128 * 4, "the shared array")
    check(got.max_block == 128 and about.wave_lanes == 32, "its launch bounds")
    listed = [(arg.offset, arg.nbytes) for arg in got.args or ()]
    check(listed == [(0, 8), (8, 8), (16, 8), (24, 4)], f"C's layout: {listed}")
    check([arg.buffer for arg in got.args or ()] == [True, True, False, False], "kinds")
    s_barrier = (0xBF8A0000).to_bytes(4, "little")  # src: RDNA2 ISA, SOPP op 10
    code = found.image[about.code_offset : about.code_offset + about.code_bytes]
    check(s_barrier in [code[at : at + 4] for at in range(0, len(code), 4)], "the barrier")


@needs_comgr
def test_a_kernel(relocatable: bytes) -> None:
    check_kernel(amd_object.load(relocatable, "k", ARCH))


@needs_comgr
def test_the_same_kernel_linked(relocatable: bytes) -> None:
    linked = amd_comgr.link_object(relocatable, ARCH)
    check(linked[16] == 3 and relocatable[16] == 1, "ET_DYN, ET_REL")
    check_kernel(amd_object.load(linked, "k", ARCH))


@needs_comgr
def test_waves_of_64_lanes() -> None:
    blob = amd_comgr.compile_object(SOURCE, ARCH, frozenset({"wavefrontsize64", "bogus"}))
    check(AmdCode.of(amd_object.load(blob, "k", ARCH)).wave_lanes == 64, "the feature")


@needs_comgr
@pytest.mark.parametrize(
    ("source", "log"),
    [
        (SOURCE.replace("unsigned i ", "unsigned j "), "kernel.hip:8"),
        ("int f(", "kernel.hip:1"),
        (SOURCE + "\0", "NUL"),
    ],
)
def test_errors_carry_log_and_source(source: str, log: str) -> None:
    with pytest.raises(CompileError) as caught:
        amd_comgr.compile_object(source, ARCH, NONE)
    check(caught.value.source == source, "the source")
    check(log in caught.value.log, caught.value.log)


@needs_comgr
def test_multiplication_and_addition_are_not_contracted() -> None:
    source = """
extern "C" __global__ void k(float *a) {
  float *p = a + __builtin_amdgcn_workitem_id_x();
  *p = p[64] * p[128] + p[192];
}"""
    blob = amd_comgr.compile_object(source, ARCH, NONE)
    found = amd_object.load(blob, "k", ARCH)
    code = found.image[: AmdCode.of(found).code_bytes]
    tops = [int.from_bytes(code[at : at + 4], "little") >> 25 for at in range(0, len(code), 4)]
    # src: RDNA2 ISA, VOP2: V_ADD_F32 3, V_MUL_F32 8, V_FMAC_F32 43
    check(3 in tops and 8 in tops and 43 not in tops, f"two roundings were asked for: {tops}")


@needs_comgr
def test_chips_that_the_library_does_not_know() -> None:
    found = amd_comgr_abi.library()
    lacking = next((a for a in ("gfx950", "gfx1201", "gfx1100") if not knows(found, a)), None)
    if lacking is None:
        pytest.skip("this COMGR knows every chip")
    with pytest.raises(Unsupported, match=f"{lacking}.*gfx1030"):
        amd_comgr.compile_object(SOURCE, lacking, NONE)
    with pytest.raises(Unsupported, match="no AMD compiler"):
        amd_comgr.compile_object(SOURCE, "gfx908", NONE)


def knows(found: amd_comgr_abi.Library, arch: str) -> bool:
    return f"amdgcn-amd-amdhsa--{arch}" in found.isas


@needs_comgr
def test_through_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Cache("")
    first = toolchains.compile_source(SOURCE, "k", "HIP", ARCH, NONE, store)
    check_kernel(first)
    monkeypatch.setattr(amd_comgr, "compile_object", None)
    again = toolchains.compile_source(SOURCE, "k", "HIP", ARCH, NONE, store)
    check(again == first, "the second time nothing is compiled")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(amd_comgr_abi, "DIRECTORIES", (str(tmp_path),))
    for ask in (amd_comgr_abi.find, amd_comgr.identity):
        with pytest.raises(NotFound, match="libamd-comgr2"):
            ask()


def test_numbers_of_both_versions() -> None:
    """What amd_comgr.h declares in 2.4 and in 3.x, where enumerators were removed."""
    two, three = amd_comgr_abi.NUMBERS[2], amd_comgr_abi.NUMBERS[3]
    # 2.x: NONE, OPENCL_1_2, OPENCL_2_0, HC, HIP. 3.x: without HC.
    languages = ["NONE", "OPENCL_1_2", "OPENCL_2_0", "HC", "HIP"]
    check(two.language_hip == languages.index("HIP"), "HIP in 2.x")
    languages.remove("HC")
    check(three.language_hip == languages.index("HIP"), "HIP in 3.x")
    actions = [
        "PREPROCESS", "PRECOMPILED_HEADERS", "SOURCE_TO_BC", "ADD_DEVICE_LIBRARIES", "BC_TO_BC",
        "OPTIMIZE_BC", "BC_TO_RELOCATABLE", "BC_TO_ASSEMBLY", "RELOCATABLE_TO_RELOCATABLE",
        "RELOCATABLE_TO_EXECUTABLE",
    ]  # fmt: skip
    for numbers, gone in ((two, ()), (three, ("ADD_DEVICE_LIBRARIES", "OPTIMIZE_BC"))):
        order = [action for action in actions if action not in gone]
        check(numbers.compile_to_bc == order.index("SOURCE_TO_BC"), "compile")
        check(numbers.codegen_to_relocatable == order.index("BC_TO_RELOCATABLE"), "codegen")
        check(numbers.link_to_executable == order.index("RELOCATABLE_TO_EXECUTABLE"), "link")


STUB = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
int sprintf(char *, const char *, ...);
size_t strlen(const char *);
void *memcpy(void *, const void *, size_t);
typedef struct { uint64_t handle; } handle_t;
static char said[512];
void amd_comgr_get_version(size_t *major, size_t *minor) { *major = MAJOR; *minor = 0; }
int amd_comgr_get_isa_count(size_t *count) { *count = 1; return 0; }
int amd_comgr_get_isa_name(size_t i, const char **n)
{ *n = "amdgcn-amd-amdhsa--gfx1201"; return 0; }
int amd_comgr_create_data(int kind, handle_t *d) { said[0] = 0; d->handle = 7; return 0; }
int amd_comgr_release_data(handle_t d) { return 0; }
int amd_comgr_set_data(handle_t d, size_t n, const char *b) { return 0; }
int amd_comgr_set_data_name(handle_t d, const char *n) { return 0; }
int amd_comgr_create_data_set(handle_t *s) { s->handle = 1; return 0; }
int amd_comgr_destroy_data_set(handle_t s) { return 0; }
int amd_comgr_data_set_add(handle_t s, handle_t d) { return 0; }
int amd_comgr_action_data_count(handle_t s, int kind, size_t *n) { *n = 1; return 0; }
int amd_comgr_action_data_get_data(handle_t s, int kind, size_t i, handle_t *d)
{ d->handle = kind; return 0; }
int amd_comgr_get_data(handle_t d, size_t *n, char *b)
{ if (b) memcpy(b, said, *n); else *n = strlen(said); return 0; }
int amd_comgr_create_action_info(handle_t *i) { i->handle = 2; return 0; }
int amd_comgr_destroy_action_info(handle_t i) { return 0; }
int amd_comgr_action_info_set_isa_name(handle_t i, const char *n)
{ sprintf(said + strlen(said), "%s ", n); return 0; }
int amd_comgr_action_info_set_language(handle_t i, int l)
{ sprintf(said + strlen(said), "language %d ", l); return 0; }
int amd_comgr_action_info_set_logging(handle_t i, bool on) { return 0; }
int amd_comgr_action_info_set_option_list(handle_t i, const char *o[], size_t n) { return 0; }
int amd_comgr_do_action(int kind, handle_t i, handle_t in, handle_t out)
{ sprintf(said + strlen(said), "action %d ", kind); return 0; }
int amd_comgr_status_string(int status, const char **t) { *t = "ERROR"; return 0; }
"""


@pytest.fixture
def stub(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A library of interface `request.param`.0 that says what it was asked to do."""
    library = str(tmp_path / "libamd_comgr.so.3")
    options = ["-shared", "-fPIC", "-w", "-O1", "-nostdlib", f"-DMAJOR={request.param}"]
    any_compiler().run(STUB, tmp_path, *options, "-o", library)
    monkeypatch.setattr(amd_comgr_abi, "DIRECTORIES", (str(tmp_path),))
    amd_comgr_abi.library.cache_clear()
    yield
    amd_comgr_abi.library.cache_clear()


@pytest.mark.usefixtures("stub")
@pytest.mark.parametrize(("stub", "language", "codegen"), [(2, 4, 6), (3, 3, 4)], indirect=["stub"])
def test_each_version_is_told_its_own_numbers(language: int, codegen: int) -> None:
    isa = f"amdgcn-amd-amdhsa--gfx1201 language {language}"
    said = amd_comgr.compile_object(SOURCE, "gfx1201", NONE).decode()
    check(said == f"{isa} action 2 {isa} action {codegen} ", said)


@pytest.mark.usefixtures("stub")
@pytest.mark.parametrize("stub", [4], indirect=True)
def test_a_version_that_is_not_known() -> None:
    with pytest.raises(Unsupported, match=r"interface 4\.0"):
        amd_comgr.compile_object(SOURCE, "gfx1201", NONE)

"""The report of NVIDIA's kernels: what is counted in the text of instructions."""

from __future__ import annotations

import pytest

from compilers.nv.rates import is_matrix, matrix_clocks
from compilers.report import __main__ as report
from compilers.report.nv_lines import loaded_bytes
from tests.nv_cubins import needs_nvdisasm, needs_nvrtc
from tests.support import check


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("LDG.E.128.CONSTANT R4, [R2.64]", 16),
        ("@P0 LDG.E R4, desc[UR4][R2.64]", 4),
        ("LDG.E.64 R4, [R2.64+0x10]", 8),
        ("LDG.E.U8 R4, [R2.64]", 1),
        ("LDG.E.U16.CONSTANT R4, [R2.64]", 2),
        ("LDGSTS.E.BYPASS.128 [R4], [R2.64]", 16),
        ("@P1 LDGSTS.E.BYPASS.128.ZFILL [R4+0x800], [R2.64], P2", 16),
        ("LDGDEPBAR", 0),
        ("LDS.128 R4, [R2]", 0),
        ("STG.E.128 [R2.64], R4", 0),
    ],
)
def test_the_width_of_a_load_is_in_its_name(text: str, nbytes: int) -> None:
    check(loaded_bytes(text) == nbytes, f"{text}: {loaded_bytes(text)}")


# src: the same peaks as the table's, the other way: TFLOPS / (2 x multiprocessors x clock)
@pytest.mark.parametrize(
    ("sm", "tflops", "units", "ghz"),
    [(75, 53.8, 68, 1.545), (80, 312, 108, 1.41), (86, 59.5, 68, 1.71), (89, 165.2, 128, 2.52)],
)
def test_clocks_of_matrix_instructions(sm: int, tflops: float, units: int, ghz: float) -> None:
    deep = 16 * 8 * 16
    clocks = matrix_clocks("HMMA.16816.F32 R4, R8, R12, R4", sm)
    want = deep * 4 / (tflops * 1000 / (2 * units * ghz))
    check(clocks is not None and abs(clocks - want) < 0.02 * want, f"{clocks}, {want}")
    check(matrix_clocks("FFMA R4, R8, R12, R4", sm) == 0, "no matrix")
    check(matrix_clocks("HMMA.16816.F32 R4, R8, R12, R4", 100) is None, "not known")


# src: the white papers' peaks in TOPS or TFLOPS, multiprocessors and boost clocks, for types and
# instructions that the table above has not: 16 x 8 of a warp, 64 x 128 of four warps
@pytest.mark.parametrize(
    ("text", "products", "sm", "peak", "units", "ghz"),
    [
        ("IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4", 16 * 8 * 32, 80, 624, 108, 1.41),
        ("IMMA.16832.U8.U8 R4, R8.ROW, R12.COL, R4", 16 * 8 * 32, 86, 238, 68, 1.71),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4", 16 * 8 * 32, 89, 660.6, 128, 2.52),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", 16 * 8 * 8, 80, 156, 108, 1.41),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", 16 * 8 * 8, 86, 29.8, 68, 1.71),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR16], R24", 64 * 128 * 4, 90, 989, 132, 1.83),
        ("IGMMA.64x128x32.S8.S8 R24, gdesc[UR16], R24", 64 * 128 * 8, 90, 1979, 132, 1.83),
    ],
)
def test_clocks_of_other_types(
    text: str, products: int, sm: int, peak: float, units: int, ghz: float
) -> None:
    clocks = matrix_clocks(text, sm)
    want = products * 4 / (peak * 1000 / (2 * units * ghz))
    check(clocks is not None and abs(clocks - want) < 0.02 * want, f"{clocks}, {want}")
    check(is_matrix(text) and not is_matrix("FFMA R4, R8, R12, R4"), text)


@needs_nvrtc
@needs_nvdisasm
def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    text = "f16[1024,1024] @ f16[1024,1024]"
    check(report.main([text, "--chip", "sm_86"]) == 0, "reported")
    printed = capsys.readouterr().out
    for phrase in ("sm_86, compiled by nvrtc", "0 spilled", "a turn of the loop", "matrix instr"):
        check(phrase in printed, printed)

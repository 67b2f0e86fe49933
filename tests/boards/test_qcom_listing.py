"""Listings of the ir3 code generator's kernels against Mesa's disassembler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilers.families import family_of
from drivers.base.errors import MalformedInput
from tests.boards.qcom_kernel_maker import Maker
from tests.boards.qcom_runner import built
from tests.ir3_reference import NO_TINYMESA, disassembled, has_tinymesa, without_index
from tests.support import check

GENERATIONS = {"a630": 6, "x1-85": 7}


@pytest.mark.skipif(not has_tinymesa(), reason=NO_TINYMESA)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arch", GENERATIONS)
def test_kernels_read_as_mesa_reads_them(arch: str, seed: int) -> None:
    binary = built(Maker(seed).kernel(gpu=True), arch)
    lines = list(family_of(arch).instructions(binary))
    words = [int.from_bytes(line.code, "little") for line in lines]
    wanted = disassembled(words, GENERATIONS[arch])
    for line, text in zip(lines, wanted, strict=True):
        mine, theirs = (without_index(one) if arch == "a630" else one for one in (line.text, text))
        check(mine == theirs, f"{line.address:#x}: {line.text!r}, Mesa: {text!r}")
    check(lines[-1].text.endswith("end"), lines[-1].text)
    inside = range(len(lines) * 8)
    check(all(line.target is None or line.target in inside for line in lines))


def test_code_that_is_none() -> None:
    binary = built(Maker(0).kernel(gpu=True), "a630")
    broken = replace(binary, image=b"\xff" * 8 + binary.image[8:])
    with pytest.raises(MalformedInput):
        list(family_of("a630").instructions(broken))

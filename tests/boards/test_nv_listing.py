"""`python -m boards.nv.listing`: a cubin as text, equal to nvdisasm's where that is installed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from boards.nv import listing
from tests.nv_cubins import ARCHES, cubin, needs_nvdisasm, path_of
from tests.nvdisasm import WORD_BYTES
from tests.nvdisasm import listing as told
from tests.support import check

FIRST = 25
"""Columns before the instruction."""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    check(listing.main(arguments) == 0, "exit status")
    return capsys.readouterr().out.splitlines()


def code_of(arch: str, name: str) -> bytes:
    found = ELFFile(io.BytesIO(cubin(arch))).iter_sections()
    return next(one.data() for one in found if one.name == f".text.{name}")


@pytest.mark.parametrize("arch", ARCHES)
def test_every_function_of_a_cubin_is_listed(arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, str(path_of(arch)))
    check(sorted(one for one in lines if ":" in one) == [f"k: {arch}", f"second: {arch}"])
    words = sum(len(code_of(arch, name)) // WORD_BYTES for name in ("k", "second"))
    check(len(lines) == words + 2, f"{len(lines)} lines")
    check(sum("EXIT" in one for one in lines) >= 2, "each ends")


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHES)
def test_the_text_is_the_tools(arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = code_of(arch, "second")
    words = [int.from_bytes(code[at : at + WORD_BYTES], "little") for at in range(0, len(code), 16)]
    own = [line[FIRST:] for line in shown(capsys, str(path_of(arch)), "--kernel", "second")[1:]]
    for place, (line, text) in enumerate(zip(own, told(words, arch), strict=True)):
        moved = text.startswith("BRA")  # the tool's line is that of address 0
        refused = line == f"- {words[place]:032x}"  # a form that the table is known to lack
        check(moved or refused or line == text, f"{place}: {line} | {text}")


def test_code_alone_and_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "code.bin"
    # src: nvdisasm 13.5.37 on a compiled kernel: IMAD R0, R8, c[0x0][0x0], R9
    file.write_bytes(0x001FCA00078E02090000000008007A24.to_bytes(WORD_BYTES, "little") + bytes(16))
    (first, second) = shown(capsys, str(file), "--arch", "sm_86")
    check(first == "0000   5 Y -  -  0.....  IMAD R0, R8, c[0x0][0x0], R9", first)
    check(second.endswith(f"- {0:032x}"), second)
    for arguments in (["--arch", "sm_70"], [], ["--kernel", "none"]):
        check(listing.main([str(file), *arguments]) == 1, f"{arguments}")
    check(listing.main([str(tmp_path / "missing")]) == 1, "no file")
    check(listing.main([str(path_of("sm_86")), "--kernel", "none"]) == 1, "no function")

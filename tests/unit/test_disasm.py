"""The listing: instructions from the processor manuals, names, labels, hot loops, the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilers import cache, disasm
from compilers.objects.listing import disassemble, render
from drivers.base.contracts import Binary, Fixup
from drivers.base.errors import Unsupported
from tests.support import check

PAGE = 4096
# src: Intel 64 SDM volume 2: 31 C0, 48 FF C0, 48 39 F8, 7C rel8, E8 rel32, C3, FF 25 disp32
OUTER = bytes.fromhex(
    "31c0"  # 0: xor eax, eax
    "31c9"  # 2: xor ecx, ecx (the outer loop)
    "48ffc0"  # 4: inc rax (the inner loop)
    "4839f8"  # 7: cmp rax, rdi
    "7cf8"  # a: jl 4
    "48ffc1"  # c: inc rcx
    "4839f1"  # f: cmp rcx, rsi
    "7cee"  # 12: jl 2
    "e807000000"  # 14: call 0x20
    "c3"  # 19: ret
)
STUB = bytes.fromhex("ff25da0f0000cccc")  # 20: jmp [rip + 0xfda], the slot at 0x1000
IMAGE = (OUTER.ljust(0x20, b"\xcc") + STUB).ljust(PAGE, b"\0") + bytes(8)
BINARY = Binary("x86_64", "loops", IMAGE, 0, (Fixup(PAGE, "sinf"),), PAGE)


def test_instructions_labels_and_names() -> None:
    lines = {line.address: line for line in disassemble(BINARY)}
    check(lines[0].text == "xor eax, eax" and lines[0].label == "loops", "entry")
    check(lines[0x19].text == "ret", "ret")
    check(lines[0x14].note == "sinf", "the call through the stub has its name")
    check(lines[0xA].target == 4 and lines[0xA].note == lines[4].label != "", "jump and label")
    check(lines[0x20].label == "sinf (stub)", "the stub")
    check(max(lines) < 0x28, "padding is not shown")


def test_the_hot_loop_is_the_innermost() -> None:
    hot = [line.address for line in disassemble(BINARY) if line.hot]
    check(hot == [4, 7, 0xA], str(hot))
    marked = [text for text in render(disassemble(BINARY)) if text.startswith(" >")]
    check(len(marked) == 3, "marked in the text")


def test_undecodable_bytes_are_shown_as_bytes() -> None:
    lines = disassemble(Binary("x86_64", "k", b"\x06\xc3", 0))  # 06 is invalid in 64-bit mode
    check([line.code for line in lines] == [b"\x06", b"\xc3"], "both bytes")
    check(lines[1].text == "ret", "and it goes on")


def test_data_is_named() -> None:
    code = bytes.fromhex("f30f1005f80f0000c3")  # movss xmm0, [rip + 0xff8]
    image = code.ljust(PAGE, b"\0") + bytes.fromhex("0000404000000000")
    lines = disassemble(Binary("x86_64", "k", image, 0, (), PAGE))
    check(lines[0].note.startswith("data+0x0 = 00 00 40 40"), lines[0].note)


def test_aarch64() -> None:
    # src: Arm ARM: ADD x0, x0, #1; B.NE -4; RET
    words = (0x91000400, 0x54FFFFE1, 0xD65F03C0)
    code = b"".join(word.to_bytes(4, "little") for word in words)
    lines = disassemble(Binary("aarch64", "k", code, 0))
    check([line.text for line in lines] == ["add x0, x0, #1", "b.ne #0", "ret"], str(lines))
    check([line.hot for line in lines] == [True, True, False], "its loop")


def test_no_decoder() -> None:
    with pytest.raises(Unsupported, match="sparc"):
        disassemble(Binary("sparc", "k", b"\0", 0))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(tmp_path / "kernels")
    key = cache.key_of(b"a")
    cache.Cache(directory).put(key, BINARY)
    check(disasm.main(["--cache", "--dir", directory]) == 0, "listing")
    check(f"{key[:12]}  x86_64" in capsys.readouterr().out, "the entry is listed")
    for what in (key[:6], "loops", f"{directory}/{key}{cache.SUFFIX}"):
        check(disasm.main([what, "--dir", directory]) == 0, what)
        check("inc rax" in capsys.readouterr().out, what)
    source = tmp_path / "k.ll"
    source.write_text("define i64 @twice(i64 %a) { %b = shl i64 %a, 1\n ret i64 %b }")
    check(disasm.main([str(source), "--arch", "x86_64", "--features", ""]) == 0, "source")
    check("twice:" in capsys.readouterr().out, "the first function is the entry")


def test_the_command_explains_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.ll"
    source.write_text("define nonsense")
    for what in (str(source), __file__, "no-such-kernel"):
        check(disasm.main([what, "--dir", str(tmp_path / "d")]) == 1, what)
        check(capsys.readouterr().err.startswith("error: "), "says why")
    check(disasm.main([]) == 0, "no arguments: help")
    check("examples:" in capsys.readouterr().out, "with examples")

"""NVIDIA's push buffers and QMDs against words that are put together by hand from the headers.

The bits here are read in open-gpu-doc's headers (classes/host/clc56f.h, classes/compute/cl*.h and
cl*qmd.h, classes/dma-copy/clc7b5.h), not taken from the tables under test.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from drivers.base.errors import BadArgument, MalformedInput, Unsupported
from generators import nv_classes
from generators.source import Source
from queues.decode import decoder, dump, listing
from queues.nv import words as nv_words
from queues.nv.classes import Op, header, methods_of
from queues.nv.generations import CHIPS, KIB, target_of
from queues.nv.kernel_code import NvCode
from queues.nv.launch import Kernel, Launcher
from queues.nv.words import Target
from tests.support import check

CODE = NvCode(
    sm=86, code_offset=0, code_bytes=0x100, registers=40, barriers=1, shared_bytes=3 * KIB,
    local_bytes=0x50, crs_bytes=0, param_offset=0x160, param_bytes=20, bank0_bytes=0x174,
    max_threads=0,
)  # fmt: skip
CODE_VA, BLOCK_VA, PROGRESS_VA = 0x12_3456_7800, 0x98_7654_3200, 0x45_0000_0040
PARAM_OFFSETS = {75: 0x160, 80: 0x160, 86: 0x160, 89: 0x160, 90: 0x210, 100: 0x380, 120: 0x380}
INC, NON_INC = 1 << 29, 3 << 29


def target(chip: str) -> Target:
    version, generation = CHIPS[chip]
    return target_of(generation, version)


def launcher(chip: str, progress_va: int = PROGRESS_VA) -> Launcher:
    aim = target(chip)
    at = PARAM_OFFSETS[aim.sm]
    code = replace(CODE, sm=aim.sm, param_offset=at, bank0_bytes=at + 20)
    kernel = Kernel(
        name="k", code_va=CODE_VA, code=code, args=((0, 8), (8, 8), (16, 4)), block=(64, 2, 1),
        max_block=1024, shared_bytes=code.shared_bytes,
    )  # fmt: skip
    return Launcher(aim, kernel, (64, 2, 1), progress_va)


def packed(chip: str) -> tuple[Launcher, bytes]:
    made = launcher(chip)
    memory = bytearray(made.nbytes)
    args = (0x1111_2222_3333, 0x4444_5555_6666, 77)
    made.pack_into(memory, 0, *made.values(args, BLOCK_VA, (1000, 20, 3), (7 << 32) + 9))
    return made, bytes(memory)


def bits(data: bytes, high: int, low: int) -> int:
    """MW(high:low), as the headers write it."""
    return int.from_bytes(data, "little") >> low & (1 << high - low + 1) - 1


def test_the_header_of_methods() -> None:
    # DMA_SEC_OP 31:29, DMA_METHOD_COUNT 28:16, DMA_METHOD_SUBCHANNEL 15:13, ADDRESS 11:0
    check(header(Op.INC, 1, 0x2B4, 1) == 0x2001_20AD, "SEND_PCAS_A on subchannel 1")
    check(header(Op.IMMD, 4, 0x300, 0x182) == 4 << 29 | 0x182 << 16 | 4 << 13 | 0xC0)
    with pytest.raises(BadArgument):
        header(Op.INC, 1, 0, 1 << 13)


def test_an_entry_of_the_gpfifo() -> None:
    # ENTRY0_GET 31:2; ENTRY1_GET_HI 7:0, LEVEL 9:9 SUBROUTINE, LENGTH 30:10
    entry = nv_words.gp_entry(0xAB_1234_5678, 0x1234)
    check(entry & 0xFFFFFFFF == 0x1234_5678, hex(entry))
    check(entry >> 32 == 0xAB | 1 << 9 | 0x1234 << 10, hex(entry))
    check(nv_words.parse_entry(entry) == (0xAB_1234_5678, 0x1234))
    for va, count in ((1 << 40, 1), (4, 1), (0, 1), (0x1000, 0), (0x1000, 1 << 21)):
        with pytest.raises(BadArgument):
            nv_words.gp_entry(va, count)


def test_host_semaphores() -> None:
    aim, head = target("ga102"), INC | 5 << 16 | 1 << 13 | 0x5C >> 2
    va, value = 0xCD_0000_1230, (5 << 32) + 6
    written = nv_words.release(aim, 1, va=va, value=value, timestamp=True)
    # OPERATION RELEASE 1, RELEASE_WFI 20, PAYLOAD_SIZE 24 (64 bits), RELEASE_TIMESTAMP 25
    check(written == [head, 0x1230, 0xCD, 6, 5, 1 | 1 << 20 | 1 << 24 | 1 << 25], str(written))
    waits = nv_words.acquire(aim, 1, va=va, value=value)
    # OPERATION ACQ_CIRC_GEQ 3, ACQUIRE_SWITCH_TSG 12
    check(waits == [head, 0x1230, 0xCD, 6, 5, 3 | 1 << 12 | 1 << 24], str(waits))
    with pytest.raises(BadArgument):
        nv_words.release(aim, 1, va=1 << 40, value=0)
    wide = nv_words.release(target("gh100"), 1, va=1 << 40, value=0)
    check(wide[2] == 1 << 8, "Hopper's semaphores have 57-bit addresses")


def test_a_copy() -> None:
    aim = target("ga102")
    made = nv_words.copy(aim, dst=0x12_0000_1000, src=0x34_0000_2000, nbytes=0x5000)
    # OFFSET_IN_UPPER 0x400 ... LINE_COUNT 0x41c; LAUNCH_DMA 0x300: NON_PIPELINED 2, FLUSH 2:2,
    # SRC_MEMORY_LAYOUT 7:7 and DST_MEMORY_LAYOUT 8:8 PITCH
    expected = [
        INC | 8 << 16 | 4 << 13 | 0x400 >> 2, 0x34, 0x2000, 0x12, 0x1000, 0x5000, 0x5000, 0x5000, 1,
        INC | 1 << 16 | 4 << 13 | 0x300 >> 2, 2 | 1 << 2 | 1 << 7 | 1 << 8,
    ]  # fmt: skip
    check(made == expected, str([hex(word) for word in made]))
    large = nv_words.copies(aim, dst=0x1000, src=0x2000, nbytes=(5 << 30) // 2)
    lines = [large[at + 7] for at in range(0, len(large), 11)]
    check(lines == [1 << 30, 1 << 30, 1 << 29], str(lines))


def test_an_inline_upload() -> None:
    made = nv_words.inline_upload(target("ga102"), va=0x56_0000_0000, data=bytes(range(8)))
    # LINE_LENGTH_IN 0x180, LINE_COUNT, OFFSET_OUT_UPPER, OFFSET_OUT; LAUNCH_DMA 0x1b0:
    # DST_MEMORY_LAYOUT PITCH 0:0, COMPLETION_TYPE FLUSH_ONLY 5:4; LOAD_INLINE_DATA 0x1b4
    expected = [
        INC | 4 << 16 | 1 << 13 | 0x180 >> 2, 8, 1, 0x56, 0,
        INC | 1 << 16 | 1 << 13 | 0x1B0 >> 2, 1 | 1 << 4,
        NON_INC | 2 << 16 | 1 << 13 | 0x1B4 >> 2, 0x03020100, 0x07060504,
    ]  # fmt: skip
    check(made == expected, str([hex(word) for word in made]))


def test_the_push_buffer_of_a_launch() -> None:
    made, memory = packed("ga102")
    words = struct.unpack_from(f"<{made.nwords}I", memory)
    # SEND_PCAS_A 0x2b4: the QMD's address >> 8; SEND_SIGNALING_PCAS2_B 0x2c0:
    # INVALIDATE_COPY_SCHEDULE 3; then the release of the progress
    expected = (
        INC | 1 << 16 | 1 << 13 | 0x2B4 >> 2, BLOCK_VA + 256 >> 8,
        INC | 1 << 16 | 1 << 13 | 0x2C0 >> 2, 3,
        INC | 5 << 16 | 1 << 13 | 0x5C >> 2, 0x40, 0x45, 9, 7, 1 | 1 << 20 | 1 << 24,
    )  # fmt: skip
    check(words == expected, str([hex(word) for word in words]))


def test_turing_schedules_otherwise() -> None:
    made, memory = packed("tu102")
    words = struct.unpack_from(f"<{made.nwords}I", memory)
    # SEND_SIGNALING_PCAS_B 0x2bc: INVALIDATE 0:0, SCHEDULE 1:1
    check(words[2:4] == (INC | 1 << 16 | 1 << 13 | 0x2BC >> 2, 3), str(words))


def test_a_qmd_of_ampere() -> None:
    """Twelve workgroups of four warps fill an SM: 36 of its 100 KiB, so 64 are wanted."""
    _, memory = packed("ga102")
    qmd = memory[256:512]
    bank_va = BLOCK_VA + 512
    expected = {
        (583, 580): 3, (579, 576): 0, (415, 384): 1000, (431, 416): 20, (463, 448): 3,
        (607, 592): 64, (623, 608): 2, (639, 624): 1, (656, 648): 40, (767, 763): 1,
        (1567, 1536): CODE_VA & 0xFFFFFFFF, (1584, 1568): CODE_VA >> 32,
        (561, 544): 3 * KIB, (567, 562): 8 // 4 + 1, (662, 657): 64 // 4 + 1,
        (574, 569): 100 // 4 + 1, (1623, 1600): 0x2A0, (759, 736): 0, (640, 640): 1, (641, 641): 0,
        (1055, 1024): bank_va & 0xFFFFFFFF, (1072, 1056): bank_va >> 32, (1074, 1074): 1,
        (1087, 1075): 0x180 >> 4, (1663, 1656): 0x86, (378, 378): 1, (369, 368): 1,
        (189, 189): 1, (191, 191): 1, (133, 128): 0x3F,
    }  # fmt: skip
    wrong = {place: bits(qmd, *place) for place, value in expected.items()
             if bits(qmd, *place) != value}  # fmt: skip
    check(not wrong, str(wrong))


def test_a_qmd_of_hopper() -> None:
    _, memory = packed("gh100")
    qmd, bank_va = memory[256:640], BLOCK_VA + 768
    expected = {
        (583, 580): 4, (25, 23): 2, (21, 16): 0x3F, (1055, 1024): 1000, (1071, 1056): 20,
        (1103, 1088): 3, (1167, 1152): 64, (1208, 1200): 40, (1215, 1211): 1,
        (1247, 1216): CODE_VA & 0xFFFFFFFF, (1272, 1248): CODE_VA >> 32,
        (1567, 1536): bank_va >> 6 & 0xFFFFFFFF, (1586, 1568): bank_va >> 38, (416, 416): 1,
        (419, 419): 1, (1599, 1587): 0x230 >> 4, (601, 584): 3 * KIB, (543, 536): 0x90,
        (567, 544): 0x2A0, (613, 608): 3, (619, 614): 228 // 4 + 1,
    }  # fmt: skip
    wrong = {place: bits(qmd, *place) for place, value in expected.items()
             if bits(qmd, *place) != value}  # fmt: skip
    check(not wrong, str(wrong))


def test_a_qmd_of_blackwell() -> None:
    _, memory = packed("gb202")
    qmd, bank_va = memory[256:640], BLOCK_VA + 768
    expected = {
        (471, 468): 5, (467, 464): 0, (153, 151): 2, (149, 144): 0x1F, (1279, 1248): 1000,
        (1295, 1280): 20, (1327, 1312): 3, (1103, 1088): 64, (1136, 1128): 40, (1141, 1137): 1,
        (1055, 1024): CODE_VA >> 4 & 0xFFFFFFFF, (1076, 1056): CODE_VA >> 36,
        (1162, 1152): 3 * KIB >> 7, (1215, 1200): 0x2A0 >> 4, (455, 448): 0xA4,
        (1375, 1344): bank_va >> 6 & 0xFFFFFFFF, (1394, 1376): bank_va >> 38, (1856, 1856): 1,
        (1407, 1395): 0x3A0 >> 4,
    }  # fmt: skip
    wrong = {place: bits(qmd, *place) for place, value in expected.items()
             if bits(qmd, *place) != value}  # fmt: skip
    check(not wrong, str(wrong))


BANKS = {
    "ga102": (512, 0x00, 0x0C, 0x28, 0x160, {0x18: 0xFE << 32, 0x20: 0xFF << 32}),
    "gh100": (768, 0x00, 0x0C, 0x28, 0x210, {0x20: 0xFF << 32, 0x198: BLOCK_VA + 768 + 0x210}),
    "gb202": (768, 0x360, 0x370, 0x37C, 0x380, {0x2F0: 0xFE << 32, 0x348: BLOCK_VA + 768 + 0x380}),
}


@pytest.mark.parametrize("chip", BANKS)
def test_constant_bank_0(chip: str) -> None:
    off, block, grid, stack, params, quads = BANKS[chip]
    _, memory = packed(chip)
    bank = memory[off:]
    check(struct.unpack_from("<3I", bank, block) == (64, 2, 1), "block")
    check(struct.unpack_from("<3I", bank, grid) == (1000, 20, 3), "grid")
    check(struct.unpack_from("<I", bank, stack) == (0xFFFDC0,), "stack")
    args = struct.unpack_from("<QQI", bank, params)
    check(args == (0x1111_2222_3333, 0x4444_5555_6666, 77), str(args))
    for at, value in quads.items():
        check(struct.unpack_from("<Q", bank, at) == (value,), hex(at))


@pytest.mark.parametrize("chip", CHIPS)
def test_what_is_written_is_read_back(chip: str) -> None:
    aim = target(chip)
    words = [
        *nv_words.compute_setup(aim), *nv_words.acquire(aim, 1, va=0x1000, value=3),
        *nv_words.copy(aim, dst=0x1000, src=0x2000, nbytes=16),
        *nv_words.local_memory(aim, va=0x2_0000_0000, tpc_bytes=1 << 33, sms=84),
        *nv_words.inline_upload(aim, va=0x3000, data=bytes(16)),
    ]  # fmt: skip
    text = "\n".join(listing(decoder("nv", chip), words))
    for part in (
        f"NVCLASS={aim.compute:#x}", "LINE_LENGTH_IN = 0x10", "reserved", "OPERATION=0x3",
        "SET_SHADER_LOCAL_MEMORY_A = 0x2", "MAX_SM_COUNT=0x54", "LOAD_INLINE_DATA",
    ):  # fmt: skip
        check((part in text) is (part != "reserved"), f"{part}\n{text}")
    made, memory = packed(chip)
    qmd = memory[made.qmd_off : made.bank_off]
    words = list(struct.unpack(f"<{len(qmd) // 4}I", qmd))
    nwords = 96 if aim.sm >= 90 else 64
    text = "\n".join(listing(decoder("qmd", chip), words[:nwords]))
    check("REGISTER_COUNT" in text and "= 0x28" in text, text)
    check("CONSTANT_BUFFER_VALID(0) = 0x1" in text, text)


@pytest.mark.parametrize("word", [0x4000_0000, 0xE000_0000, 0x2001_2003, 0x2001_A040, 0x3FFF_0040])
def test_what_is_no_method(word: int) -> None:
    with pytest.raises(MalformedInput):
        list(listing(decoder("nv"), [word, 0]))
    check("!!" in dump(decoder("nv"), [word, 0]))


def test_a_qmd_of_another_version() -> None:
    with pytest.raises(MalformedInput, match=r"version 0\.0"):
        list(listing(decoder("qmd"), [0] * 64))
    with pytest.raises(MalformedInput, match="ends after"):
        list(listing(decoder("qmd"), [0] * 63))
    with pytest.raises(Unsupported, match="known: tu102"):
        decoder("qmd", "nv50")
    with pytest.raises(Unsupported):
        methods_of(0x1234)


def test_too_much_is_refused() -> None:
    made = launcher("ga102")
    kernel = replace(made.kernel, shared_bytes=101 * KIB)
    with pytest.raises(BadArgument, match="shared memory"):
        Launcher(target("ga102"), kernel, (64, 1, 1), PROGRESS_VA)
    with pytest.raises(BadArgument, match="lanes"):
        Launcher(target("ga102"), made.kernel, (1024, 2, 1), PROGRESS_VA)
    kernel = replace(made.kernel, code_va=1 << 50)
    with pytest.raises(BadArgument):
        Launcher(target("ga102"), kernel, (64, 1, 1), PROGRESS_VA)


HEADER = """
#define NV1234_SEND_IT                                   0x02b4
#define NV1234_SEND_IT_ADDRESS                             31:0
#define NV1234_SEND_IT_NOW                               0x02b8
#define NV1234_SEND_IT_NOW_MODE                             3:0
#define NV1234_SEND_IT_NOW_MODE_FAST                 0x00000001
#define NV1234_ROW(i)                          (0x0320+(i)*4)
#define NV1234_ROW_V                                       31:0
"""


def test_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cl1234.h").write_text(HEADER)
    monkeypatch.setitem(nv_classes._CLASSES, "made_up", "./cl1234.h")
    monkeypatch.setitem(nv_classes.OUTPUTS, "out.py", "made_up")
    text = nv_classes.make(Source(tmp_path), "out.py")
    rows = ["02b4 SEND_IT ADDRESS 31:0", "02b8 SEND_IT_NOW MODE 3:0", "0320 ROW x4 V 31:0"]
    check("\n".join(rows) in text, text)
    check("sha256" in text and "python -m generators.nv_classes DOC out.py" in text, text)

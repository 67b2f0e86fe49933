"""What `--trace FILE` writes of a boot is what happened, and a board plays it back."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from boards.amd.pci.firmware_set import world_files
from boards.front import Setup, power_on
from drivers import replay
from drivers.base.errors import BadArgument, BadChoice
from drivers.choice import choose
from tests.support import check

MIB = 1 << 20


def traced(chip: str, file: Path) -> tuple[list[dict[str, object]], list[tuple[str, str, int]]]:
    """A boot and a leave: the trace, and what the board's register file saw."""
    front = power_on(Setup(chip, iface="PCI", dma="vram", trace=str(file), vram_bytes=512 * MIB))
    seen: list[tuple[str, str, int]] = []
    registers = front.board.gpus[0].board.registers
    registers.watch = lambda op, name, value: seen.append((op, name, value))
    front.open().close()
    return [json.loads(line) for line in file.read_text().splitlines()], seen


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201", "gfx942"])
def test_a_boot_is_played_back_without_a_difference(
    chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.jsonl"
    lines, _ = traced(chip, file)
    command = [str(file), "--board", chip, "--vram-mib", "512"]
    check(replay.main(command) == 0, capsys.readouterr().out)
    number = next(n for n, line in enumerate(lines) if line.get("register") == "MP0.C2PMSG_33")
    lines[number]["value"] = 0x1234
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    check(replay.main(command) == 1, "one read was another one")
    reported = capsys.readouterr().out
    check(f"line {number + 1} (read the discovery table): MP0.C2PMSG_33" in reported, reported)


def test_the_trace_has_every_access_by_name(tmp_path: Path) -> None:
    lines, seen = traced("gfx1100", tmp_path / "trace.jsonl")
    reads = [(line["register"], line["value"]) for line in lines if line["op"] == "R"]
    window = "NBIF[0].BIF_BX_PF0_RSMU_DATA"  # the board tells of the register behind it, too
    of_board = [(name, value) for op, name, value in seen if op == "read" and name != window]
    check([value for _, value in reads] == [value for _, value in of_board], "every value")
    check(("MP0.C2PMSG_33", of_board[0][1]) == reads[0], reads[0])
    steps = {line.get("step") for line in lines}
    check({"load firmware", "graphics core", "leave"} <= steps, steps)
    memory = b"".join(b64decode(str(line["data"])) for line in lines if "data" in line)
    mec = world_files(["gfx1100"])["/lib/firmware/amdgpu/gc_11_0_0_mec.bin"]
    lost = [at for at in range(64, len(mec), 32) if mec[at : at + 32] not in memory]
    check(not lost, f"pieces of firmware that never went through VRAM: {lost}")


def test_a_trace_that_cannot_be_written_is_told_before_the_gpu_is_touched(tmp_path: Path) -> None:
    front = power_on(Setup("gfx1100", iface="PCI", trace=str(tmp_path / "no" / "trace")))
    accesses = front.board.panel.count
    with pytest.raises(BadArgument, match="No such file"):
        front.open()
    check(front.board.panel.count == accesses, "nothing was asked of the GPU")
    with pytest.raises(BadChoice, match="AMD_TRACE"):
        choose({"AMD_TRACE": "trace.jsonl"})

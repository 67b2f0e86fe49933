"""A guest that reads one register again and again is reported by the register's name."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from boards.vfio_user.journal import SPIN
from tests.boards.vfu_toy import Client
from tests.support import check
from tests.vm.lab import Lab, LabError
from tests.vm.machine import Places

ROOT = Path(__file__).parents[2]
SIGN_OF_LIFE = 4 * 0x16091
"""src: mp_13_0_2_offset.h regMP0_SMN_C2PMSG_81; the segment begins at dword 0x16000"""
CONFIG, REGISTERS, COMMAND = 7, 5, 4
LIMIT_S = 60.0


def connected(path: Path, board: subprocess.Popen[bytes]) -> Client:
    """A client of a board, once its socket is there and it listens."""
    deadline = time.monotonic() + LIMIT_S
    while board.poll() is None and time.monotonic() < deadline:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(0.01)
        else:
            return Client(connection)
    raise AssertionError(f"no board at {path}: {board.poll()}")


def test_a_time_out_names_the_register(tmp_path: Path) -> None:
    """The lab's own message, of a guest whose shell never answers."""
    lab = Lab(Places(tmp_path, tmp_path, tmp_path), tmp_path)
    lab._log = tmp_path / "gfx1100.log"
    words = [sys.executable, "-m", "boards", "vfio-user", "gfx1100", "--once", "--vram-mib", "64"]
    words += ["--socket", str(tmp_path / "board"), "--journal", str(tmp_path / "gfx1100.txt")]
    with lab._log.open("wb") as log, socket.socket(socket.AF_UNIX) as shell:
        shell.bind(str(tmp_path / "shell"))
        shell.listen(3)
        board = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            client = connected(tmp_path / "board", board)
            client.hello()
            client.write(CONFIG, COMMAND, b"\x06\x00")
            for _ in range(SPIN - 1):
                client.read(REGISTERS, SIGN_OF_LIFE, 4)
            check(lab.waits() == "", "not often enough yet")
            client.read(REGISTERS, SIGN_OF_LIFE, 4)
            with pytest.raises(LabError) as late:
                lab.run("insmod", 0.01)
            wanted = "the guest waits for MP0[0].MP0_SMN_C2PMSG_81"
            check(str(late.value).endswith(wanted), f"{late.value}")
            client.read(REGISTERS, SIGN_OF_LIFE + 4, 4)
            check(lab.waits() == "", "it goes on")
            client.socket.close()
            board.wait(LIMIT_S)
        finally:
            board.kill()
            board.wait()
    said = lab._log.read_text()
    check(f"waited for: MP0[0].MP0_SMN_C2PMSG_81: {SPIN} equal reads in a row" in said, said)

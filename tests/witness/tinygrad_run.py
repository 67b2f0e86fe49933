"""One run of stock tinygrad on one board: the client as a process, the board's server here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from boards.access_log import AccessLog, Spin
from boards.amd.hardware import Hardware, Options
from boards.amd.pci.firmware_set import named
from boards.amd.pci.gpu import PciGpu, open_function
from boards.amd.pci.left_over import leave_as_amdgpu
from boards.amd.pci.options import PciOptions
from boards.amd.pci.watched import watch
from boards.machine.chassis import Violation
from tests.witness.tinygrad_server import Server
from tests.witness.tinygrad_wheel import Wheel

CLIENT = Path(__file__).with_name("tinygrad_client.py")
VRAM_BYTES = 4 << 30
LIMIT_S, _CONNECT_S = 900.0, 120.0
_DELAYS = PciOptions(psp_s=0.005, smu_s=0.002, reset_s=0.3)
"""A security processor, a power controller and a reset that take their time."""


@dataclass(slots=True)
class Outcome:
    """What one client did."""

    name: str
    seconds: float = 0.0
    said: list[dict[str, object]] = field(default_factory=list)
    """Its lines: the boot, then each program."""
    violations: list[Violation] = field(default_factory=list)
    not_modelled: list[str] = field(default_factory=list)
    reads: int = 0
    writes: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)


class Machine:
    """One GPU that one client after another opens.

    `foreign`: the kernel's driver had it. `scattered`, `slow`: pages and firmware as on silicon.
    """

    def __init__(
        self, chip: str, *, foreign: bool = False, scattered: bool = False, slow: bool = False
    ) -> None:
        self.chip = chip
        hardware, options = Hardware([], Options()), _DELAYS if slow else PciOptions()
        self.gpu: PciGpu = open_function(hardware, chip, vram_bytes=VRAM_BYTES, options=options)
        if foreign:
            leave_as_amdgpu(self.gpu)
        self._server = Server(self.gpu, scattered=scattered)

    def run(
        self, name: str, wheel: Wheel, programs: Sequence[str], *, trace: Path | None = None,
        status: int = 0,
    ) -> Outcome:  # fmt: skip
        """Start a client and serve it until it ends, as it should with a certain status."""
        outcome, began = Outcome(name), time.monotonic()
        self.gpu.hardware.forget_violations()
        with (
            TemporaryDirectory() as folder, TemporaryFile("w+") as said, TemporaryFile() as noise,
            open(trace or os.devnull, "w") as out, socket.create_server(("127.0.0.1", 0)) as door,
        ):  # fmt: skip
            log = AccessLog(self.chip, out if trace else None)
            watch(self.gpu, log)
            words = [sys.executable, "-P", str(CLIENT), self._firmware(Path(folder)), *programs]
            address = f"127.0.0.1:{door.getsockname()[1]}"
            client = subprocess.Popen(
                words, env=_environ(wheel, Path(folder), address), stdin=subprocess.DEVNULL,
                stdout=said, stderr=noise,
            )  # fmt: skip
            try:
                self._serve(door, client, log, outcome)
                if not outcome.trouble:
                    _ended(client, status, outcome)
            finally:
                client.kill()
                client.wait()
            _listen(said, noise, outcome)
        outcome.seconds = time.monotonic() - began
        outcome.violations = list(self.gpu.violations)
        outcome.not_modelled, outcome.requests = log.report(), dict(self._server.counts)
        outcome.reads, outcome.writes = log.reads, log.writes
        return outcome

    def _firmware(self, folder: Path) -> str:
        for name, (_, data) in named(self.chip).items():
            (folder / name).write_bytes(data)
        return str(folder)

    def _serve(
        self, door: socket.socket, client: subprocess.Popen[bytes], log: AccessLog, outcome: Outcome
    ) -> None:
        door.settimeout(0.5)
        deadline = time.monotonic() + _CONNECT_S
        connection = None
        while connection is None and client.poll() is None and time.monotonic() < deadline:
            try:
                connection, _ = door.accept()
            except TimeoutError:
                continue
        if connection is None:
            outcome.trouble.append("the client did not connect")
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                self._server.serve(connection, log, LIMIT_S)
            except Spin as spin:
                outcome.trouble.append(f"the client spins on {spin}")
                return
            except TimeoutError as error:
                outcome.trouble.append(str(error))
                return


def _ended(client: subprocess.Popen[bytes], status: int, outcome: Outcome) -> None:
    """The client has left the board: it ends now, with the status that is expected."""
    try:
        found = client.wait(_CONNECT_S)
    except subprocess.TimeoutExpired:
        outcome.trouble.append("the client left the board and does not end")
        return
    if found != status:
        outcome.trouble.append(f"the client ended with status {found}")


def _environ(wheel: Wheel, folder: Path, address: str) -> dict[str, str]:
    """tinygrad's own driver with its LLVM renderer, and nothing of the user's."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept, "PYTHONPATH": str(wheel.packages), "PYTHONDONTWRITEBYTECODE": "1",
        "DEV": "PCI+AMD:LLVM", "REMOTE": address, "LLVM_PATH": str(wheel.llvm),
        "HOME": str(folder), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache"),
    }  # fmt: skip


def _listen(said: IO[str], noise: IO[bytes], outcome: Outcome) -> None:
    """The client's lines, and where it failed the end of what it wrote besides."""
    said.seek(0)
    for line in said.read().splitlines():
        try:
            outcome.said.append(json.loads(line))
        except ValueError:
            outcome.trouble.append(f"the client said {line!r}")
    bad = [facts for facts in outcome.said if facts.get("wrong")]
    outcome.trouble += [f"{facts['program']}: {facts['wrong']}" for facts in bad]
    if outcome.trouble:
        noise.seek(0)
        outcome.trouble += noise.read().decode(errors="replace").splitlines()[-12:]

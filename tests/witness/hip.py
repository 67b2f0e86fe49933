"""AMD's HIP runtime and its compiler, from Debian, in front of the KFD board, chip by chip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.witness import build
from tests.witness.expected import Expected
from tests.witness.rocr import Result, checked
from tests.witness.roots import cache_folder, open_root
from tests.witness.session import Setup, run

SUITE: Final = "experimental"
"""The first Debian with HIP 7."""
CHIPS: Final = ("gfx1100", "gfx1151", "gfx1200", "gfx1201", "gfx90a", "gfx942")
CHECKS, PEER_CHECKS = 23, 5
"""Results that the client prints, of which each has to be right."""
_PACKAGES = ("libamdhip64-7", "libamdhip64-dev")
_RUNTIME, _COMPILER, _BELOW = "libamdhip64-7", "libamd-comgr3", "libhsa-runtime64-1"
OWN: Final = (
    Expected(
        "violation", r"unreleased: queue \d+, KERNEL_DISPATCH at 0x",
        "HIP takes a dispatch's signal for its end alone. Before the host or another engine reads "
        "what it wrote, a barrier packet releases in system scope.",
        "clr rocclr/device/rocm/rocvirtual.cpp VirtualGPU::releaseGpuMemoryFence()",
    ),
    Expected(
        "queue left", r"QueueSpec",
        "HIP keeps its queues until the process ends, also after hipDeviceReset().",
        "measured: 2026-11-28 with HIP 7.2.4",
    ),
)  # fmt: skip
_KERNELS = Path(__file__).with_name("hip_kernels.hip")
_LIMIT_S = 900


@dataclass(frozen=True)
class Client:
    """What runs in front of one chip."""

    setup: Setup
    program: Path

    @property
    def words(self) -> str:
        """Versions, for the report."""
        root = self.setup.root
        runtime, compiler, below = map(root.version, (_RUNTIME, _COMPILER, _BELOW))
        return f"{self.setup.chip}: HIP {runtime}, COMGR {compiler}, ROCr {below} of Debian {SUITE}"


def prepare(chip: str, *, refresh: bool = False) -> Client:
    """Fetch and build what a chip needs. Raises: CannotRun."""
    root = open_root("hip", SUITE, _PACKAGES, refresh=refresh)
    folder = cache_folder() / "build"
    folder.mkdir(parents=True, exist_ok=True)
    libraries = next(path for path in root.libraries if (path / "libamdhip64.so.7").exists())
    setup = Setup(root, chip, build.shim(folder), cache_folder() / f"run-{chip}")
    return Client(setup, build.hip_client(folder, root.folder, libraries))


def results(client: Client) -> Iterator[Result]:
    """One GPU, two GPUs."""
    yield _one(client, "one GPU", "all", 1, CHECKS)
    yield _one(client, "two GPUs", "peers", 2, PEER_CHECKS)


def _one(client: Client, name: str, mode: str, gpus: int, wanted: int) -> Result:
    words = mode, str(_KERNELS)
    done = run(client.setup, client.program, *words, gpus=gpus, limit_s=_LIMIT_S)
    return checked(name, done, wanted, OWN)

"""The GPUs that amdgpu offers through /dev/kfd, best first, and the reason for each other one.

Best is memory of its own before none (a card before a processor's GPU), then the most compute
units, then the most memory, then the lowest number. The numbers are those of `AMD:N`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from drivers.amd.tools.look import KFD_PATH, Gpu, Look, access, look_briefly
from drivers.base.contracts import World
from drivers.base.offer import Offer, Passed
from drivers.choice import VisibleList, visible_lists

_WAY: Final = "AMD KFD"
_GIB: Final = 1 << 30
UNMASK: Final = "list it there, or unset the variable, where this process may use it"
"""What to do about a GPU that a variable hides."""


def offered(world: World, environ: Mapping[str, str]) -> Iterator[Offer | Passed]:
    """What may be the default device, of a machine and an environment."""
    return kfd_offers(world, visible_lists(environ, "AMD"))


def kfd_offers(world: World, visible: Sequence[VisibleList] = ()) -> Iterator[Offer | Passed]:
    """Every GPU of KFD's topology. Without a usable /dev/kfd nothing more is read."""
    kfd = access(world, KFD_PATH)
    if not kfd.ok:
        yield Passed(_WAY, kfd.reason, kfd.advice)
        return
    yield from offers_of(look_briefly(world, visible))


def offers_of(found: Look) -> Iterator[Offer | Passed]:
    """The same of a topology that was read."""
    if found.problem is not None:
        yield Passed(_WAY, found.problem.message, found.problem.hint)
        return
    for index in found.hidden:
        yield Passed(f"KFD node {index}", "hidden from this process by the device cgroup")
    for node in found.broken:
        yield Passed(f"KFD node {node.index}", node.error.message, node.error.hint)
    named = list(zip(found.names(), found.gpus, strict=True))
    for gpu in found.gpus:
        yield from _obstacles(gpu)
    usable = [(name, gpu) for name, gpu in named if gpu.numbered]
    for name, gpu in sorted(usable, key=_order):
        yield Offer("AMD", _number(name), _title(gpu))
    if not found.gpus and not found.hidden and not any(node.gpu_id for node in found.broken):
        yield Passed(_WAY, "KFD manages no GPU that this process may see", "see `lspci -d 1002:`")


def _obstacles(gpu: Gpu) -> Iterator[Passed]:
    """Why a GPU is passed over, if it is."""
    where = f"the AMD GPU at {gpu.node.pci_address}"
    if gpu.masked:
        yield Passed(where, gpu.masked, UNMASK)
        return
    for problem in gpu.problems:
        yield Passed(where, problem.message, problem.hint)
    if gpu.supported and not gpu.render.ok:
        yield Passed(where, gpu.render.reason, gpu.render.advice)


def _number(name: str) -> int:
    return int(name.rpartition(":")[2])


def _order(named: tuple[str, Gpu]) -> tuple[bool, int, int, int]:
    name, gpu = named
    node = gpu.node
    shared = not node.vram_bytes or (gpu.chip is not None and gpu.chip.integrated)
    return shared, -node.cus, -node.memory_bytes, _number(name)


def _title(gpu: Gpu) -> str:
    node = gpu.node
    chip = f"{gpu.chip.name} {gpu.chip.product}" if gpu.chip else node.name
    vram = f"{node.memory_bytes / _GIB:.0f} GiB" if node.vram_bytes else "no memory of its own"
    if gpu.chip is not None and gpu.chip.integrated:
        vram += " of the machine's memory"
    return f"{chip}, {node.cus} compute units, {vram}, at {node.pci_address}, through KFD"

"""Opening one GPU of many reads what opening needs: counted in files of a made-up machine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from drivers.amd.kfd.iface import chosen
from drivers.amd.kfd.offers import kfd_offers
from drivers.amd.tools.look import look
from drivers.base.errors import NotFound, Unsupported
from drivers.base.offer import Offer
from tests.amd_trees import GFX942_PARTITION, IP, ROOT, Files, ip_files, link, machine
from tests.fake_machine import FakeMachine
from tests.support import check

CARDS, PARTITIONS = 8, 8
NODES = CARDS * PARTITIONS
XGMI = 11
"""HSA_IOLINK_TYPE_XGMI."""


class Counting(FakeMachine):
    """Counts what is read and listed; looks paths up, for there are many."""

    def __init__(self, files: Mapping[str, bytes | str]) -> None:
        super().__init__(files)
        self.reads = self.lists = 0
        self._children: dict[str, set[str]] = {}
        for path in self.files:
            parts = path.split("/")
            for depth in range(1, len(parts)):
                self._children.setdefault("/".join(parts[:depth]), set()).add(parts[depth])

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        self.reads += 1
        return super().read(path, limit_bytes)

    def listdir(self, path: str) -> list[str]:
        self.lists += 1
        names = self._children.get(path.rstrip("/"))
        return sorted(names) if names else super().listdir(path)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self._children


def mi300x_in_cpx() -> Files:
    """Eight MI300X of eight partitions: 64 nodes, each with an XGMI link to every other one.

    All partitions of a card share its discovery table, at PCI function 0.
    """
    nodes = []
    for number in range(NODES):
        card, partition = divmod(number, PARTITIONS)
        nodes.append(GFX942_PARTITION | {
            "location_id": (0x10 + card << 8) + partition, "drm_render_minor": 128 + number,
            "unique_id": 0x1000 + number,
        })  # fmt: skip
    files = machine(*nodes)
    for minor in range(128, 128 + NODES):
        device = f"/sys/class/drm/renderD{minor}/device"
        for path in [path for path in files if path.startswith(f"{device}/ip_discovery/")]:
            del files[path]
    for card in range(CARDS):
        whole = f"/sys/bus/pci/devices/0000:{0x10 + card:02x}:00.0"
        files |= ip_files(whole, IP[90402])
    for start in range(1, NODES + 1):
        for number, end in enumerate(end for end in range(1, NODES + 1) if end != start):
            path = f"{ROOT}/nodes/{start}/io_links/{number + 1}/properties"
            files[path] = link(XGMI, start, end)
    return files


def test_opening_reads_what_it_needs() -> None:
    whole = Counting(mi300x_in_cpx())
    check(len(look(whole).gpus) == NODES)
    for index in (0, 5):
        world = Counting(whole.files)
        check(chosen(world, index).node.index == index + 1)
        # gpu_id, name, properties and a bank of each node; of the chosen one's table GC and SDMA
        blocks = (8 + 16) * 6
        most = 4 * (NODES + 1) + 4 + blocks * (1 if index < PARTITIONS else 2)
        check(world.reads <= most, f"{world.reads} reads, {most} are needed; {whole.reads} to look")
        check(world.lists < 3 * NODES, f"{world.lists} folders were listed")
        check(10 * world.reads < whole.reads, f"{world.reads} of {whole.reads}")


def test_the_default_choice_reads_no_links_and_each_table_once() -> None:
    world = Counting(mi300x_in_cpx())
    offers = [one for one in kfd_offers(world) if isinstance(one, Offer)]
    check(len(offers) == NODES)
    most = 4 * (NODES + 1) + 4 + CARDS * (8 + 16) * 6
    check(world.reads <= most, f"{world.reads} reads, {most} are needed")


def test_a_contradiction_still_takes_the_number_away() -> None:
    """AMD:N is the same whoever numbers: the probe, which reads everything, and opening."""
    files = mi300x_in_cpx()
    path = "/sys/bus/pci/devices/0000:10:00.0/ip_discovery/die/0/11/0/minor"
    check(path in files)
    files[path] = b"9\n"
    named = [gpu for gpu in look(Counting(files)).gpus if gpu.numbered]
    check(len(named) == NODES - PARTITIONS)
    for index in (0, PARTITIONS, NODES - PARTITIONS - 1):
        found = chosen(Counting(files), index)
        check(found.node.gpu_id == named[index].node.gpu_id, f"AMD:{index}")
    with pytest.raises((NotFound, Unsupported)):
        chosen(Counting(files), NODES - PARTITIONS)

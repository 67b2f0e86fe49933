"""NV:0, NV:1, ...: the GPUs that open here, by PCI address, for the driver as for the tools."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from typing import Any

import pytest

from boards.machine.file_tree import FileTree
from boards.nv import files
from boards.nv.machine import another_nv_process, open_nv_board
from drivers.base.errors import Denied, DeviceError, NotFound
from drivers.choice import choose, visible_lists
from drivers.listing import openable
from drivers.nv import doctor, smi
from drivers.nv.nvk.escapes import CARD_INFO, CardInfo, CardInfos, cards
from drivers.nv.nvk.iface import open_nvk
from drivers.nv.probe import probe
from drivers.nv.recorded import NvIdentifiers
from drivers.nv.tools.look import look
from drivers.world.foreign import ForeignWorld
from tests.support import check

BUSES = (0x81, 0x07, 0x41)
"""Of /dev/nvidia0, 1 and 2: the kernel driver finds GPUs in no order."""
BY_ADDRESS = ["/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia0"]
UUIDS = [bytes([0xA0 + n, 0x11 * n, *range(14)]) for n in range(3)]
NO_DEVICE = 9


class Host:
    """A machine of three GPUs, some of whose nodes this process does not have."""

    def __init__(self, missing: tuple[str, ...] = (), forbidden: tuple[str, ...] = ()) -> None:
        board: Any = open_nv_board("ga102", gpus=3)
        for gpu, bus, uuid in zip(board.gpus, BUSES, UUIDS, strict=True):
            gpu.bus, gpu.uuid = bus, uuid
            gpu.gpu_id, gpu.address = bus << 8, f"0000:{bus:02x}:00.0"
        self.board: Any = another_nv_process(board)
        tree: FileTree = files.tree(self.board.hardware)
        real, known = self.board.open, tree.exists

        def opened(path: str, flags: int) -> int:
            if path in missing or path in forbidden:
                raise OSError(errno.ENOENT if path in missing else errno.EPERM, path)
            return int(real(path, flags))

        self.board.open = opened
        self.board.exists = lambda path: path not in missing and known(path)
        self.world = ForeignWorld(self.board)

    def opens(self, environ: Mapping[str, str] | None = None) -> list[str]:
        """The nodes behind NV:0, NV:1, ... in that order."""
        found: list[str] = []
        for index in range(NO_DEVICE):
            choice = choose(environ or {}, f"NV:{index}")
            try:
                iface = open_nvk(self.world, choice.index, choice.visible, briefly=True)
            except DeviceError as error:
                check(isinstance(error, NotFound | Denied) and bool(error.hint), repr(error))
                return found
            found.append(iface.path)
            iface.close()
        return found

    def shows(self, environ: Mapping[str, str] | None = None) -> list[str]:
        """The numbers of the cards, as files alone show them."""
        gpus = look(self.world, visible_lists(environ or {}, "NV")).gpus
        numbered = {gpu.number: gpu.node.path for gpu in gpus if gpu.number is not None}
        check(sorted(numbered) == list(range(len(numbered))), str(numbered))
        return [numbered[number] for number in sorted(numbered)]

    def left(self) -> int:
        """Descriptors that nobody closed."""
        return int(self.board.baseline().fds)


def uuid(number: int, digits: int = 36) -> str:
    text = UUIDS[number].hex()
    parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
    return f"GPU-{'-'.join(parts)}"[: 4 + digits]


def test_gpus_are_counted_by_their_address() -> None:
    host = Host()
    check(host.opens() == BY_ADDRESS, str(host.opens()))
    check(host.shows() == BY_ADDRESS and host.left() == 0, str(host.shows()))


@pytest.mark.parametrize("way", ["missing", "forbidden"])
def test_a_container_has_the_nodes_of_some(way: str) -> None:
    """docker run --gpus device=1: the kernel driver lists every GPU of the host all the same."""
    host = Host(**{way: ("/dev/nvidia1", "/dev/nvidia0")})
    check(host.opens() == ["/dev/nvidia2"], str(host.opens()))
    check(host.left() == 0, "nodes that were tried are closed")
    if way == "missing":
        check(host.shows() == ["/dev/nvidia2"], str(host.shows()))


@pytest.mark.parametrize(("way", "kind"), [("missing", NotFound), ("forbidden", Denied)])
def test_a_container_without_any_says_so(way: str, kind: type[DeviceError]) -> None:
    host = Host(**{way: tuple(BY_ADDRESS)})
    with pytest.raises(kind, match="/dev/nvidia1") as caught:
        open_nvk(host.world, 0)
    check("can be opened here" in str(caught.value) and host.left() == 0, str(caught.value))


@pytest.mark.parametrize(
    ("listed", "places"),
    [("0,1,2", (0, 1, 2)), ("2,0", (2, 0)), ("1", (1,)), ("", ()), ("-1", ()), ("NoDevFiles", ()),
     ("0,9,1", (0,)), ("1,1", (1,)), (" 2 , 1 ", (2, 1)), ("MIG-GPU-a/1/0", ()),
     (f"{uuid(0)},{uuid(2)}", (2, 1)), (uuid(1, 6), (0,)), ("GPU-", ()), ("GPU-f", ()),
     (f"{uuid(1).lower()}", (0,))],
)  # fmt: skip
def test_cuda_visible_devices(listed: str, places: tuple[int, ...]) -> None:
    host, environ = Host(), {"CUDA_VISIBLE_DEVICES": listed}
    wanted = [BY_ADDRESS[place] for place in places]
    check(host.opens(environ) == wanted, f"{listed}: {host.opens(environ)}")
    check(host.shows(environ) == wanted, f"{listed}: {host.shows(environ)}")
    names = [name for name in openable(host.world, environ) if name.startswith("NV")]
    check(len(names) == len(places) and host.left() == 0, str(names))


@pytest.mark.parametrize(
    ("listed", "places"),
    [("all", (0, 1, 2)), ("void", (0, 1, 2)), ("none", (0, 1, 2)), ("", (0, 1, 2)), ("1", (1,)),
     ("2,0", (0, 2)), ("0:0,2:1", (0, 2)), (uuid(2), (1,)), ("nvidia.com/gpu=0", (0, 1, 2)),
     ("/var/run/nvidia-container-devices", (0, 1, 2)), ("7", (0, 1, 2))],
)  # fmt: skip
def test_nvidia_visible_devices(listed: str, places: tuple[int, ...]) -> None:
    host, environ = Host(), {"NVIDIA_VISIBLE_DEVICES": listed}
    wanted = [BY_ADDRESS[place] for place in places]
    check(host.opens(environ) == wanted, f"{listed}: {host.opens(environ)}")
    check(host.shows(environ) == wanted, f"{listed}: {host.shows(environ)}")


def test_both_lists_count_what_the_one_before_leaves() -> None:
    host = Host(missing=("/dev/nvidia2",))
    environ = {"NVIDIA_VISIBLE_DEVICES": "0,1,2", "CUDA_VISIBLE_DEVICES": "1,0"}
    check(host.opens(environ) == ["/dev/nvidia0", "/dev/nvidia1"], str(host.opens(environ)))
    check(host.shows(environ) == ["/dev/nvidia0", "/dev/nvidia1"], str(host.shows(environ)))


def test_the_error_names_the_variable() -> None:
    with pytest.raises(NotFound, match=r"0 GPUs .*CUDA_VISIBLE_DEVICES is empty"):
        open_nvk(Host().world, 0, visible_lists({"CUDA_VISIBLE_DEVICES": ""}, "NV"))
    with pytest.raises(NotFound, match="MIG instances are not opened"):
        open_nvk(Host().world, 0, visible_lists({"CUDA_VISIBLE_DEVICES": "MIG-1"}, "NV"))


def test_the_tools_show_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    host, environ = Host(), {"CUDA_VISIBLE_DEVICES": "1"}
    text, _ = probe(["--json", "--ask"], host.world, environ)
    shown = {gpu["node"]["path"]: gpu for gpu in json.loads(text)["gpus"]}
    names = {path: gpu["name"] for path, gpu in shown.items()}
    check(names == {"/dev/nvidia1": "-", "/dev/nvidia2": "NV:0", "/dev/nvidia0": "-"}, str(names))
    check("does not list it" in shown["/dev/nvidia0"]["hidden"], str(shown["/dev/nvidia0"]))
    lines = [row.text for row in doctor.rows(host.world, environ) if "hidden" in row.text]
    check(len(lines) == 2, str(lines))
    smi.command(["--json"], host.world)
    gpus = json.loads(capsys.readouterr().out)["gpus"]
    addresses = [gpu["address"] for gpu in gpus]
    check(addresses == sorted(addresses), str(addresses))
    check(all(gpu["readings"] for gpu in gpus) and host.left() == 0, str(gpus))


def test_a_recording_keeps_the_order_of_the_addresses() -> None:
    host = Host()
    fd = host.world.open("/dev/nvidiactl", 2)
    answer = CARD_INFO(host.world, fd, CardInfos())
    host.world.close(fd)
    raw = bytearray(answer.raw)
    NvIdentifiers().hide(CARD_INFO.request, raw, memoryview(b""))
    shown = cards(CardInfos.of(bytes(raw)))
    minors = [card.minor_number for card in sorted(shown, key=lambda one: one.bus)]
    check(minors == [1, 2, 0], str(minors))
    check(not {card.bus for card in shown} & set(BUSES), "a place on the bus")
    check(len(raw) % CardInfo.SIZE == 0)

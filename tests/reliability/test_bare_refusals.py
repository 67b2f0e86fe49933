"""AMD_IFACE=PCI on machines where the GPU may not be taken, and where others want it too."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from boards.amd.pci.firmware_set import MANIFEST, world_files
from drivers.amd.claim_chips import known
from drivers.amd.opening import open_amd
from drivers.base.errors import Busy, DeviceError, NotFound
from drivers.choice import choose
from drivers.claim.claim import claim
from drivers.claim.refusal import Reason, Refused
from drivers.world.state import LinuxState
from tests.pci_tree import GPU, PciTree, TreeWorld, desktop
from tests.reliability.test_claim_rules import FOLDER, REFUSED
from tests.share import part
from tests.support import check

PROCESSES = 8
ROUNDS = int(os.environ.get("UNBOUND_CLAIM_ROUNDS", part(1000, 100)))
SLOW_S = 0.1
AMD = "0x1002"
NOT_OURS = (Reason.UNKNOWN_CHIP, Reason.NOT_A_GPU)
"""What is no GPU that is booted, or another vendor's, is not found: there is nothing to refuse."""


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory of this test, in memory where there is such."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


def with_firmware(root: Path, **more: Any) -> PciTree:
    """A machine with a free gfx1100 and its firmware."""
    tree = desktop(root, **more)
    tree.put(f"{FOLDER}/revision", "0xc8")
    for path, data in world_files(["gfx1100"]).items():
        file = tree.at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tree


def environment(**more: str) -> dict[str, str]:
    return {"DEV": "AMD", "AMD_IFACE": "PCI", "UNBOUND_FIRMWARE_MANIFEST": MANIFEST, **more}


@pytest.mark.parametrize("dma", ["", "vram", "physical"])
@pytest.mark.parametrize("name", REFUSED)
def test_opening_refuses_with_the_reason(name: str, dma: str, room: Path) -> None:
    """Nothing is written, opened or remembered, whatever the environment says."""
    change, reason, evidence = REFUSED[name]
    tree = with_firmware(room / "machine")
    change(tree)
    before, world = tree.bound(), TreeWorld(tree.root)
    state = LinuxState.open(str(room))
    choice = choose(environment(AMD_DMA=dma) if dma else environment())
    with pytest.raises(DeviceError) as caught:
        open_amd(world, choice, state=state)
    error = caught.value
    if reason in NOT_OURS or tree.text(f"{FOLDER}/vendor") != AMD:
        check(isinstance(error, NotFound) and "0 GPUs" in str(error), repr(error))
    elif not isinstance(error, Refused):
        pytest.fail(repr(error))
    else:
        check(reason in error.reasons, f"{error.reasons}: {error}")
        check(any(evidence in str(one) for one in error.refusals), str(error))
        check(error.hint and str(error).endswith(error.hint), "what to do comes last")
    check(not world.writes and not world.opened and tree.bound() == before, "it was touched")
    check(not any(one.endswith(".claim") for one in state.names()), "there is nothing to give back")
    state.close()


def test_the_same_machine_without_a_reason_is_taken(room: Path) -> None:
    """The trees above are refused for what is in them: this one gets as far as VFIO's files."""
    tree = with_firmware(room / "machine")
    world, state = TreeWorld(tree.root), LinuxState.open(str(room))
    with pytest.raises(NotFound):
        open_amd(world, choose(environment()), state=state)
    check(len(world.writes) > 3, "it was claimed, and given back")
    check(tree.bound() == "amdgpu" and tree.text(f"{FOLDER}/driver_override") == "(null)")
    check(not any(one.endswith(".claim") for one in state.names()), "it was given back")


def racer(tree: PciTree, base: Path, control: socket.socket) -> None:
    """One process: "g" starts a round, the answer is who has the GPU and how long it took."""
    state = LinuxState.open(str(base))
    while control.recv(1) == b"g":
        held, started = None, time.monotonic()
        try:
            held, owner = claim(TreeWorld(tree.root), state, GPU, known), os.getpid()
        except Busy as error:
            owner = error.pid or 0
        control.send(f"{int(held is not None)} {owner} {time.monotonic() - started}".encode())
        control.recv(1)
        if held is not None:
            held.close()
        control.send(b"done")


def start(run: Callable[[socket.socket], None], others: list[socket.socket]) -> tuple[int, Any]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for mine in (ours, *others):
                mine.close()
            run(theirs)
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    ours.settimeout(20)
    return child, ours


def test_a_thousand_rounds_of_claims(room: Path) -> None:
    """Two to eight processes want the GPU: one has it, the others are told which, and soon."""
    tree = with_firmware(room / "machine")
    LinuxState.open(str(room)).close()
    racers: list[tuple[int, Any]] = []
    for _ in range(PROCESSES):
        others = [one for _, one in racers]
        racers.append(start(lambda control: racer(tree, room, control), others))
    winners, losing_s = set(), []
    for number in range(ROUNDS):
        count = 2 + number % (PROCESSES - 1)
        these = [racers[(number + turn) % PROCESSES] for turn in range(count)]
        for _, ours in these:
            ours.send(b"g")
        answers = [(pid, ours.recv(100).split()) for pid, ours in these]
        owners = {pid for pid, answer in answers if answer[0] == b"1"}
        check(len(owners) == 1 and tree.bound() == "vfio-pci", f"round {number}: {owners}")
        named = {int(answer[1]) for _, answer in answers}
        check(named == owners, f"round {number}: losers were told {named}, not {owners}")
        losing_s += [float(answer[2]) for _, answer in answers if answer[0] == b"0"]
        winners |= owners
        for _, ours in these:
            ours.send(b"r")
        for _, ours in these:
            ours.recv(100)
        check(tree.bound() == "amdgpu", f"round {number}: it was not given back")
    for pid, ours in racers:
        ours.close()
        check(os.waitpid(pid, 0)[1] == 0, "a racer failed")
    check(len(winners) > 1, "it was a race")
    late = sum(taken > SLOW_S for taken in losing_s)
    check(late <= len(losing_s) // 100, f"{late} of {len(losing_s)} took over {SLOW_S} s")

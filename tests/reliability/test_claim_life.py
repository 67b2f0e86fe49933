"""Claims that are cut short: every operation fails once, the owner is killed, the disk lies."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drivers.base.errors import Busy, DeviceError, DeviceGone, MalformedInput
from drivers.base.pci import Lock
from drivers.claim.claim import claim
from drivers.claim.record import Method, load
from drivers.claim.refusal import Refused
from drivers.claim.restoring import restore_all
from drivers.doctor.__main__ import main as doctor
from drivers.world.faulty import Fault, FaultyWorld
from drivers.world.state import LinuxState
from tests.pci_tree import BOOT_ID, BUS, GPU, PciTree, TreeWorld, desktop
from tests.support import check

FOLDER = f"{BUS}/devices/{GPU}"
RECORD = f"pci-{GPU}.claim"
GROUPS = {Method.VFIO: "14", Method.BARS: ""}
MOST_OPERATIONS = 400


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory of this test, in memory where there is such: hundreds of machines live in it."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


def known(function: object) -> bool:
    return True


class CountedState:
    """A LinuxState whose operations are operations of a FaultyWorld."""

    def __init__(self, inner: LinuxState, world: FaultyWorld) -> None:
        self.inner, self.world, self.path = inner, world, inner.path

    def _pass(self, operation: str) -> None:
        if self.world.meets(operation):
            raise self.world.fault.error(operation)

    def lock(self, name: str) -> Lock:
        self._pass(f"lock {name}")
        return self.inner.lock(name)

    def names(self) -> list[str]:
        self._pass("names")
        return self.inner.names()

    def read(self, name: str) -> bytes | None:
        self._pass(f"read {name}")
        return self.inner.read(name)

    def write(self, name: str, data: bytes) -> None:
        self._pass(f"write {name}")
        self.inner.write(name, data)

    def remove(self, name: str) -> None:
        self._pass(f"remove {name}")
        self.inner.remove(name)


class DeadlyWorld(FaultyWorld):
    """The process is killed in front of operation `fail_at`."""

    def meets(self, operation: str) -> bool:
        if super().meets(operation):
            os.kill(os.getpid(), signal.SIGKILL)
        return False


def untouched(tree: PciTree) -> None:
    """The machine as it was."""
    check(tree.bound() == "amdgpu", f"bound to {tree.bound()!r}")
    check(tree.text(f"{FOLDER}/driver_override") == "(null)")
    check(tree.text(f"{FOLDER}/power/control") == "auto")


def rebuilt(tree: PciTree, method: Method) -> None:
    """Whatever a run left, the machine is new again."""
    link = tree.at(f"{FOLDER}/driver")
    link.unlink(missing_ok=True)
    link.symlink_to("../../../bus/pci/drivers/amdgpu")
    tree.put(f"{FOLDER}/driver_override", "(null)")
    tree.put(f"{FOLDER}/power/control", "auto")
    tree.put(f"{FOLDER}/enable", "1")


def run(world: FaultyWorld, base: Path) -> None:
    """Take the GPU and give it back."""
    state = CountedState(LinuxState.open(str(base)), world)
    claim(world, state, GPU, known).close()


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("number", [errno.EIO, errno.EBUSY, errno.ENODEV])
def test_every_operation_fails_once(method: Method, number: int, room: Path) -> None:
    tree = desktop(room / "machine", group=GROUPS[method])
    swept = stuck = 0
    for fail_at in range(MOST_OPERATIONS):
        world = FaultyWorld(TreeWorld(tree.root), fail_at, Fault.of_errno(number))
        try:
            run(world, room)
        except DeviceError as error:
            check(str(error), "an error says something")
        if not world.failed:
            break
        swept += 1
        state = LinuxState.open(str(room))
        if state.read(RECORD) is not None:  # giving back failed: the next try does it
            stuck += 1
            check(all(outcome.ok for outcome in restore_all(TreeWorld(tree.root), state)))
        untouched(tree)
        check(state.read(RECORD) is None)
        claim(TreeWorld(tree.root), state, GPU, known).close()
        state.close()
        rebuilt(tree, method)
    check(60 < swept < MOST_OPERATIONS, f"{swept} operations")
    check(0 < stuck < swept // 2, f"{stuck} of {swept} runs could not give it back at once")


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("restore_with", ["next open", "doctor"])
def test_killed_at_every_operation(method: Method, restore_with: str, room: Path) -> None:
    tree = desktop(room / "machine", group=GROUPS[method])
    kills = left = 0
    for fail_at in range(MOST_OPERATIONS):
        child = os.fork()
        if child == 0:
            try:
                run(DeadlyWorld(TreeWorld(tree.root), fail_at, Fault("errno")), room)
            finally:
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            break
        kills += 1
        left += tree.bound() != "amdgpu"
        state, world = LinuxState.open(str(room)), TreeWorld(tree.root)
        if restore_with == "doctor":
            check(all(outcome.ok for outcome in restore_all(world, state)))
        else:
            claim(world, state, GPU, known).close()
        untouched(tree)
        check(state.read(RECORD) is None)
        state.close()
        rebuilt(tree, method)
    check(60 < kills < MOST_OPERATIONS, f"{kills} kills")
    check(left > 3, f"only {left} kills found the GPU away from its driver")


def killed_owner(tree: PciTree, base: Path, then: Callable[[], object] = lambda: None) -> None:
    """A process claims the GPU and is killed."""
    child = os.fork()
    if child == 0:
        try:
            claim(TreeWorld(tree.root), LinuxState.open(str(base)), GPU, known)
            then()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    check(os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the owner was killed")
    check(tree.bound() == "vfio-pci")


def test_a_refusal_after_a_kill_gives_the_gpu_back(room: Path) -> None:
    tree = desktop(room / "machine")
    killed_owner(tree, room)
    tree.put(f"{FOLDER}/sriov_numvfs", "1")
    with pytest.raises(Refused):
        claim(TreeWorld(tree.root), LinuxState.open(str(room)), GPU, known)
    untouched(tree)


def test_another_method_after_a_kill(room: Path) -> None:
    tree = desktop(room / "machine")
    killed_owner(tree, room)
    state = LinuxState.open(str(room))
    with claim(TreeWorld(tree.root), state, GPU, known, Method.BARS) as claimed:
        check(claimed.record.driver == "amdgpu" and tree.bound() == "")
    untouched(tree)


def test_a_restart_makes_a_record_void(room: Path) -> None:
    tree = desktop(room / "machine")
    killed_owner(tree, room)
    tree.put("/proc/sys/kernel/random/boot_id", BOOT_ID.replace("6", "7"))
    world, state = TreeWorld(tree.root), LinuxState.open(str(room))
    found = restore_all(world, state)
    check(len(found) == 1 and found[0].ok and "earlier boot" in found[0].text, str(found))
    check(not world.writes and state.read(RECORD) is None)
    check(restore_all(world, state) == [], "once")


def test_an_owner_that_lives_is_left_alone(room: Path) -> None:
    tree = desktop(room / "machine")
    state = LinuxState.open(str(room))
    with claim(TreeWorld(tree.root), state, GPU, known):
        other = LinuxState.open(str(room))
        found = restore_all(TreeWorld(tree.root), other)
        check(len(found) == 1 and not found[0].ok and str(os.getpid()) in found[0].text, str(found))
        with pytest.raises(Busy) as caught:
            claim(TreeWorld(tree.root), other, GPU, known)
        check(caught.value.pid == os.getpid())
        check(tree.bound() == "vfio-pci", "the owner still has it")
    untouched(tree)


def test_a_device_that_is_still_open_is_not_unbound(room: Path) -> None:
    tree = desktop(room / "machine")
    world, state = TreeWorld(tree.root), LinuxState.open(str(room))
    claimed = claim(world, state, GPU, known)
    tree.process(77, "python3", ["/dev/vfio/14"])
    with pytest.raises(Refused) as caught:
        claimed.close()
    check(caught.value.pid == 77 and "--restore" in caught.value.hint)
    tree.at("/proc/77/fd/0").unlink()
    check([outcome.ok for outcome in restore_all(world, state)] == [True])
    untouched(tree)


def test_somebody_else_bound_it_meanwhile(room: Path) -> None:
    tree = desktop(room / "machine")
    world, state = TreeWorld(tree.root), LinuxState.open(str(room))
    claimed = claim(world, state, GPU, known)
    tree.at(f"{FOLDER}/driver").unlink()
    tree.link(f"{FOLDER}/driver", "../../../bus/pci/drivers/nvidia")
    with pytest.raises(Busy, match="bound to nvidia"):
        claimed.close()
    check(tree.bound() == "nvidia", "it is theirs")


def test_the_device_was_exchanged_or_unplugged(room: Path) -> None:
    tree = desktop(room / "machine")
    world, state = TreeWorld(tree.root), LinuxState.open(str(room))
    claimed = claim(world, state, GPU, known)
    tree.put(f"{FOLDER}/device", "0x73bf")
    with pytest.raises(MalformedInput, match="1002:73bf"):
        claimed.close()
    tree.at(f"{FOLDER}/class").unlink()
    found = restore_all(world, state)
    check(not found[0].ok and "not on the bus" in found[0].text, str(found))
    record = load(state, GPU)
    check(record is not None and record.driver == "amdgpu", "what it was is still known")


def test_the_original_driver_is_gone(room: Path) -> None:
    tree = desktop(room / "machine")
    world, state = TreeWorld(tree.root), LinuxState.open(str(room))
    claimed = claim(world, state, GPU, known)
    tree.at(f"{BUS}/drivers/amdgpu/bind").unlink()
    with pytest.raises(DeviceError, match="bind it to amdgpu"):
        claimed.close()
    tree.put(f"{BUS}/drivers/amdgpu/bind", "")
    check([outcome.ok for outcome in restore_all(world, state)] == [True])
    untouched(tree)


def test_a_fork_of_the_owner_gives_nothing_back(room: Path) -> None:
    tree = desktop(room / "machine")
    with claim(TreeWorld(tree.root), LinuxState.open(str(room)), GPU, known) as claimed:
        child = os.fork()
        if child == 0:
            claimed.close()
            os._exit(0)
        os.waitpid(child, 0)
        check(tree.bound() == "vfio-pci")
    untouched(tree)


def test_a_driver_that_binds_nothing(room: Path) -> None:
    class Refusing(TreeWorld):
        def write(self, path: str, data: bytes) -> None:
            if not path.endswith("drivers_probe"):
                super().write(path, data)

    tree = desktop(room / "machine")
    with pytest.raises(Busy, match="not to vfio-pci"):
        claim(Refusing(tree.root), LinuxState.open(str(room)), GPU, known)
    untouched(tree)


def test_what_was_set_by_hand_comes_back(room: Path) -> None:
    tree = desktop(room / "machine")
    tree.put(f"{FOLDER}/driver_override", "amdgpu")
    claim(TreeWorld(tree.root), LinuxState.open(str(room)), GPU, known).close()
    check(tree.bound() == "amdgpu" and tree.text(f"{FOLDER}/driver_override") == "amdgpu")


@pytest.mark.parametrize("enabled", ["0", "1"])
@pytest.mark.parametrize("power", ["on", "auto"])
def test_a_function_without_a_driver_stays_as_it_was(enabled: str, power: str, room: Path) -> None:
    tree = desktop(room / "machine", group="")
    tree.at(f"{FOLDER}/driver").unlink()
    tree.put(f"{FOLDER}/enable", enabled)
    tree.put(f"{FOLDER}/power/control", power)
    with claim(TreeWorld(tree.root), LinuxState.open(str(room)), GPU, known):
        check((tree.text(f"{FOLDER}/enable"), tree.text(f"{FOLDER}/power/control")) == ("1", "on"))
    check(tree.text(f"{FOLDER}/enable") == enabled and tree.bound() == "")
    check(tree.text(f"{FOLDER}/power/control") == power)


def test_how_often_it_was_enabled_comes_back(room: Path) -> None:
    tree = desktop(room / "machine", group="")
    with claim(TreeWorld(tree.root), LinuxState.open(str(room)), GPU, known):
        check(tree.text(f"{FOLDER}/enable") == "1" and tree.bound() == "")
    check(tree.bound() == "amdgpu" and tree.text(f"{FOLDER}/enable") == "1", "the driver's own")


def test_rights_are_asked_before_the_first_step(room: Path) -> None:
    tree = desktop(room / "machine")
    world = TreeWorld(tree.root, denied=(f"{BUS}/drivers_probe",))
    with pytest.raises(DeviceError, match="may not be written"):
        claim(world, LinuxState.open(str(room)), GPU, known)
    check(not world.writes)


GOOD = {
    "version": 1, "boot_id": BOOT_ID, "address": GPU, "vendor": 0x1002, "device": 0x744C,
    "method": "vfio", "driver": "amdgpu", "override": "", "power": "", "enabled": False, "pid": 9,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"boot_id": "x"}, {"address": "0000:04:00.0"}, {"address": "../.."},
        {"vendor": 1 << 16}, {"vendor": True}, {"device": "0x744c"}, {"method": "direct"},
        {"driver": "../../../etc"}, {"driver": "a/b"}, {"driver": ".."}, {"driver": None},
        {"override": "a\nb"}, {"power": "off"}, {"enabled": 1}, {"pid": 0}, {"more": 1},
    ],
)  # fmt: skip
def test_records_that_we_never_write(change: dict[str, object], room: Path) -> None:
    tree = desktop(room / "machine")
    state, world = LinuxState.open(str(room)), TreeWorld(tree.root)
    state.write(RECORD, json.dumps(GOOD | change).encode())
    with pytest.raises(MalformedInput):
        claim(world, state, GPU, known)
    found = restore_all(world, state)
    check(len(found) == 1 and not found[0].ok and RECORD in found[0].text + found[0].advice)
    check(not world.writes and state.read(RECORD) is not None)


def test_mutated_records(room: Path) -> None:
    state = LinuxState.open(str(room))
    good = json.dumps(GOOD).encode()
    accepted = 0
    for at in range(len(good)):
        for flip in (0x01, 0x20, 0x80):
            bad = bytearray(good)
            bad[at] ^= flip
            (room / "unbound" / RECORD).write_bytes(bad)
            (room / "unbound" / RECORD).chmod(0o600)
            try:
                accepted += load(state, GPU) is not None
            except MalformedInput as error:
                check(RECORD in str(error))
    check(0 < accepted < len(good), f"{accepted} accepted")


def test_unplugged_while_it_is_looked_at(room: Path) -> None:
    tree = desktop(room / "machine")
    world = FaultyWorld(TreeWorld(tree.root), 0, Fault.of_errno(errno.ENODEV))
    with pytest.raises(DeviceGone):
        claim(world, LinuxState.open(str(room)), GPU, known)


def test_the_doctor_gives_back_what_a_killed_owner_had(room: Path) -> None:
    tree = desktop(room / "machine")
    world, state = TreeWorld(tree.root), LinuxState.open(str(room))
    text, status = doctor(["--restore"], world, {}, state)
    check(status == 0 and "nothing to give back" in text and not world.writes, text)
    killed_owner(tree, room)
    text, status = doctor(["--restore"], world, {}, state)
    check(status == 0 and GPU in text and "given back to amdgpu" in text, text)
    untouched(tree)


def test_the_doctor_says_what_it_could_not_give_back(room: Path) -> None:
    tree = desktop(room / "machine")
    killed_owner(tree, room)
    tree.process(77, "qemu", ["/dev/vfio/14"])
    text, status = doctor(["--restore"], TreeWorld(tree.root), {}, LinuxState.open(str(room)))
    check(status == 1 and "process 77" in text and "->" in text, text)
    check(tree.bound() == "vfio-pci")

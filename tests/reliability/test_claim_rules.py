"""Machines in which a GPU may not be taken, each with its reason, and ones in which it may.

Each tree is a machine in which the GPU could be taken, but for one thing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drivers.base.errors import Busy, DeviceError, MalformedInput, NotFound
from drivers.claim.claim import claim, plan
from drivers.claim.record import Method
from drivers.claim.refusal import Reason, Refused
from drivers.pci.functions import PciFunction
from drivers.world.state import LinuxState
from tests.pci_tree import AUDIO, BUS, GPU, PciTree, TreeWorld, desktop
from tests.support import check

Change = Callable[[PciTree], object]
FOLDER = f"{BUS}/devices/{GPU}"
OTHER = "0000:03:00.2"
GROUP = "/sys/kernel/iommu_groups/14/devices"
IOMEM = (
    "00000000-0009ffff : System RAM\n"
    "f00000000-fffffffff : PCI Bus 0000:00\n"
    "  800000000-83fffffff : {owner}\n"
    "    800000000-8007fffff : {name}\n"
    "  840000000-84fffffff : 0000:04:00.0\n"
    "    840000000-8407fffff : efifb\n"
)
UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"


def known(function: PciFunction) -> bool:
    return (function.vendor, function.device) in {(0x1002, 0x744C), (0x10DE, 0x2204)}


def holding(*files: str, maps: str = "") -> Change:
    return lambda tree: tree.process(4711, "python3", list(files), maps)


def mapping(target: str) -> Change:
    return holding(maps=f"7f12e0000000-7f12e0001000 rw-s 100000000 00:06 512      {target}")


def connector(name: str, status: str, enabled: str) -> Change:
    return lambda tree: tree.connector(GPU, name, status, enabled)


def putting(*files: tuple[str, str]) -> Change:
    def change(tree: PciTree) -> None:
        for path, text in files:
            tree.put(path, text)

    return change


def sibling(driver: str, kind: str = "040300", group: str = "14") -> Change:
    return lambda tree: tree.function(OTHER, "1002:73a6", kind, driver, group)


def platform_device(driver: str) -> Change:
    """A member of the group that is not on PCI."""

    def change(tree: PciTree) -> None:
        tree.link(f"{GROUP}/AMDI0030:00/driver", f"../../../bus/platform/drivers/{driver}")

    return change


def nvidia(*more: Change) -> Change:
    """The same machine with a GPU of NVIDIA and its own driver."""

    def change(tree: PciTree) -> None:
        tree.put(f"{FOLDER}/vendor", "0x10de")
        tree.put(f"{FOLDER}/device", "0x2204")
        tree.at(f"{FOLDER}/driver").unlink()
        tree.link(f"{FOLDER}/driver", "../../../bus/pci/drivers/nvidia")
        for one in more:
            one(tree)

    return change


def vfio(*more: Change) -> Change:
    """The same machine after somebody bound the GPU to vfio-pci."""

    def change(tree: PciTree) -> None:
        TreeWorld(tree.root).write(f"{BUS}/drivers/amdgpu/unbind", GPU.encode())
        tree.link(f"{FOLDER}/driver", "../../../bus/pci/drivers/vfio-pci")
        for one in more:
            one(tree)

    return change


CONSOLE = (
    (f"{FOLDER}/graphics/fb1/name", "amdgpudrmfb"),
    ("/sys/class/vtconsole/vtcon0/name", "(S) dummy device"),
    ("/sys/class/vtconsole/vtcon0/bind", "0"),
    ("/sys/class/vtconsole/vtcon1/name", "(M) frame buffer device"),
)

REFUSED: dict[str, tuple[Change, Reason, str]] = {
    "the boot display": (putting((f"{FOLDER}/boot_vga", "1")), Reason.BOOT_DISPLAY, "boot_vga"),
    "a display": (connector("card1-DP-1", "connected", "enabled"), Reason.DISPLAY, "card1-DP-1"),
    "a second display": (
        connector("card1-HDMI-A-1", "connected", "enabled"), Reason.DISPLAY, "card1-HDMI-A-1",
    ),
    "a display nobody can sense": (
        connector("card1-VGA-1", "unknown", "enabled"), Reason.DISPLAY, "unknown",
    ),
    "a panel": (connector("card1-eDP-1", "connected", "enabled"), Reason.DISPLAY, "eDP-1"),
    "a display of another state": (
        connector("card1-DP-2", "connected", "on"), Reason.DISPLAY, "DP-2",
    ),
    "the console": (
        putting(*CONSOLE, ("/sys/class/vtconsole/vtcon1/bind", "1")), Reason.CONSOLE, "vtcon1/bind",
    ),
    "a framebuffer of the firmware": (
        putting(("/proc/iomem", IOMEM.format(owner=GPU, name="BOOTFB"))),
        Reason.FIRMWARE_FRAMEBUFFER, "BOOTFB",
    ),
    "efifb": (
        putting(("/proc/iomem", IOMEM.format(owner=GPU, name="efifb"))),
        Reason.FIRMWARE_FRAMEBUFFER, "/proc/iomem",
    ),
    "simpledrm": (
        putting(("/proc/iomem", IOMEM.format(owner=GPU, name="simpledrm"))),
        Reason.FIRMWARE_FRAMEBUFFER, "simpledrm",
    ),
    "a render client": (holding("/dev/dri/renderD129"), Reason.HELD, "/proc/4711/fd/0"),
    "a desktop": (holding("socket:[1]", "/dev/dri/card1"), Reason.HELD, "/proc/4711/fd/1"),
    "a node elsewhere": (holding("/run/pod/dri/renderD129"), Reason.HELD, "/run/pod"),
    "a node that was removed": (
        holding("/dev/dri/renderD129 (deleted)"), Reason.HELD, "renderD129",
    ),
    "its node, made elsewhere": (
        lambda t: (t.node("/elsewhere/mygpu", "226:129"), holding("/elsewhere/mygpu")(t)),
        Reason.HELD, "/elsewhere/mygpu",
    ),
    "KFD, made elsewhere": (
        lambda t: (
            t.put("/sys/class/kfd/kfd/dev", "234:0"),
            t.node("/rootfs/devices/kfd", "234:0"),
            holding("socket:[1]", "/rootfs/devices/kfd")(t),
        ),
        Reason.HELD, "/proc/4711/fd/1",
    ),
    "VFIO's group, made elsewhere": (
        vfio(
            putting(("/sys/class/vfio/14/dev", "242:3"), ("/rdev/jail/group", "242:3")),
            holding("/jail/group"),
        ),
        Reason.HELD, "/jail/group",
    ),
    "KFD": (holding("/dev/kfd"), Reason.HELD, "/dev/kfd"),
    "a mapping alone": (mapping("/dev/dri/renderD129"), Reason.HELD, "/proc/4711/maps"),
    "KFD's doorbells alone": (mapping("/dev/kfd"), Reason.HELD, "/proc/4711/maps"),
    "a mapped BAR": (
        mapping(f"/sys/devices/pci0000:00/0000:00:01.1/{GPU}/resource0_wc"), Reason.HELD, "maps",
    ),
    "an open BAR": (
        holding(f"/sys/devices/pci0000:00/0000:00:01.1/{GPU}/resource5"), Reason.HELD, "resource5",
    ),
    "its I2C bus": (
        lambda t: (t.put(f"{FOLDER}/i2c-7/name", "AMDGPU DM"), holding("/dev/i2c-7")(t)),
        Reason.HELD, "/dev/i2c-7",
    ),
    "a framebuffer's user": (
        lambda t: (t.put(f"{FOLDER}/graphics/fb1/name", "x"), holding("/dev/fb1")(t)),
        Reason.HELD, "/dev/fb1",
    ),
    "a DisplayPort channel": (
        lambda t: (
            t.put(f"{FOLDER}/drm/card1/card1-DP-1/drm_dp_aux3/name", "x"),
            holding("/dev/drm_dp_aux3")(t),
        ),
        Reason.HELD, "drm_dp_aux3",
    ),
    "a node of NVIDIA": (nvidia(holding("/dev/nvidia0")), Reason.HELD, "/dev/nvidia0"),
    "NVIDIA's control node": (nvidia(holding("/dev/nvidiactl")), Reason.HELD, "nvidiactl"),
    "NVIDIA's memory node": (nvidia(holding("/dev/nvidia-uvm")), Reason.HELD, "nvidia-uvm"),
    "a virtual machine": (vfio(holding("/dev/vfio/14")), Reason.HELD, "/dev/vfio/14"),
    "VFIO without an IOMMU": (
        vfio(holding("/dev/vfio/noiommu-14")), Reason.HELD, "/dev/vfio/noiommu-14",
    ),
    "a VFIO character device": (
        vfio(putting((f"{FOLDER}/vfio-dev/vfio0/dev", "1:0")), holding("/dev/vfio/devices/vfio0")),
        Reason.HELD, "vfio0",
    ),
    "sound": (sibling("snd_hda_intel"), Reason.GROUP, OTHER),
    "USB": (sibling("xhci_hcd", "0c0330"), Reason.GROUP, "xhci_hcd"),
    "sound in a group of its own": (
        sibling("snd_hda_intel", group="15"), Reason.GROUP, "reset together",
    ),
    "USB in a group of its own": (
        sibling("xhci_hcd", "0c0330", "16"), Reason.GROUP, "xhci_hcd",
    ),
    "sound without a group": (sibling("snd_hda_intel", group=""), Reason.GROUP, OTHER),
    "another GPU": (sibling("amdgpu", "030000"), Reason.GROUP, OTHER),
    "a bridge that does more": (sibling("shpchp", "060400"), Reason.GROUP, "shpchp"),
    "pcieport on what is no bridge": (sibling("pcieport", "0c0330"), Reason.GROUP, "pcieport"),
    "a platform device": (platform_device("i2c_designware"), Reason.GROUP, "AMDI0030:00"),
    "virtual functions": (
        putting((f"{FOLDER}/sriov_numvfs", "2")), Reason.VIRTUAL_FUNCTIONS, "sriov_numvfs",
    ),
    "being one": (
        lambda t: t.link(f"{FOLDER}/physfn", "../0000:03:00.7"), Reason.IS_VIRTUAL, "physfn",
    ),
    "a mediated device": (
        putting((f"{FOLDER}/{UUID}/mdev_type", "x")), Reason.PARTITIONED, UUID,
    ),
    "MIG": (
        nvidia(putting(("/proc/driver/nvidia/capabilities/gpu0/mig/gi3/access", "x"))),
        Reason.PARTITIONED, "gi3",
    ),
    "an unknown chip": (putting((f"{FOLDER}/device", "0x1636")), Reason.UNKNOWN_CHIP, "/device"),
    "another vendor": (putting((f"{FOLDER}/vendor", "0x8086")), Reason.UNKNOWN_CHIP, "8086"),
    "no GPU": (putting((f"{FOLDER}/class", "0x010802")), Reason.NOT_A_GPU, "010802"),
}  # fmt: skip

ACCEPTED: dict[str, Change] = {
    "an idle GPU": lambda tree: None,
    "a display behind a dark connector": connector("card1-DP-1", "connected", "disabled"),
    "nothing connected, driven all the same": connector("card1-DP-1", "disconnected", "enabled"),
    "a console elsewhere": putting(
        ("/sys/class/vtconsole/vtcon1/name", "(M) frame buffer device"),
        ("/sys/class/vtconsole/vtcon1/bind", "1"),
    ),
    "a framebuffer without a console": putting(*CONSOLE, ("/sys/class/vtconsole/vtcon1/bind", "0")),
    "a firmware's framebuffer elsewhere": putting(
        ("/proc/iomem", IOMEM.format(owner="0000:05:00.0", name="efifb"))
    ),
    "other memory in its BAR": putting(("/proc/iomem", IOMEM.format(owner=GPU, name="amdgpu"))),
    "another GPU's nodes": holding("/dev/dri/card10", "/dev/dri/renderD1290", "/dev/nvidia0"),
    "another function's BAR": holding("/sys/devices/pci0000:00/0000:04:00.0/resource0"),
    "files that only look like nodes": holding("card1", "/dev/i2c-7", "/home/me/card1"),
    "another GPU's node, made elsewhere": lambda t: (
        t.node("/elsewhere/other", "226:0"),
        holding("/elsewhere/other")(t),
    ),
    "siblings that VFIO has": sibling("vfio-pci"),
    "siblings without a driver": sibling(""),
    "a bridge": sibling("pcieport", "060400"),
    "sound of another card": lambda t: t.function(
        "0000:04:00.1", "1002:73a6", "040300", "snd_hda_intel", "15"
    ),
    "siblings in groups of their own that VFIO has": sibling("vfio-pci", group="15"),
    "a process that is gone": lambda t: (t.at("/proc/99").mkdir(), None)[1],
    "NVIDIA's": nvidia(),
    "VFIO's, free": vfio(),
    "no driver": lambda t: TreeWorld(t.root).write(f"{BUS}/drivers/amdgpu/unbind", GPU.encode()),
}


def test_there_are_enough_trees() -> None:
    check(len(REFUSED) >= 30 and {reason for _, reason, _ in REFUSED.values()} >= set(Reason) - {
        Reason.UNSEEN
    })  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    change, reason, evidence = REFUSED[name]
    tree = desktop(tmp_path / "machine")
    change(tree)
    before, world = tree.bound(), TreeWorld(tree.root)
    with pytest.raises(Refused) as caught:
        claim(world, LinuxState.open(str(tmp_path)), GPU, known)
    error = caught.value
    check(error.reasons == (reason,), f"{error.reasons}: {error}")
    check(evidence in str(error.refusals[0]), str(error.refusals[0]))
    check(error.hint and str(error).endswith(error.hint), "what to do comes last")
    check(error.pid == (4711 if reason is Reason.HELD else None), str(error.pid))
    check(not world.writes and tree.bound() == before, "nothing was touched")
    check(LinuxState.open(str(tmp_path)).read(f"pci-{GPU}.claim") is None, "nothing to give back")


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str, tmp_path: Path) -> None:
    tree = desktop(tmp_path / "machine")
    ACCEPTED[name](tree)
    before, world = tree.bound(), TreeWorld(tree.root)
    with claim(world, LinuxState.open(str(tmp_path)), GPU, known):
        check(tree.bound() == "vfio-pci", tree.bound())
    check(tree.bound() == before, tree.bound())
    check(tree.text(f"{FOLDER}/driver_override") == "(null)")
    named = {path for path, _ in world.writes if "/devices/" in path}
    check(all(path.startswith(f"{FOLDER}/") for path in named), f"siblings: {named}")
    check(not any(path.endswith(("remove", "rescan", "reset")) for path, _ in world.writes))
    check(all(OTHER not in text and AUDIO not in text for _, text in world.writes))


def test_every_reason_is_told(tmp_path: Path) -> None:
    tree = desktop(tmp_path / "machine", audio="snd_hda_intel")
    tree.put(f"{FOLDER}/boot_vga", "1")
    tree.connector(GPU, "card1-DP-1", "connected", "enabled")
    holding("/dev/dri/card1")(tree)
    found = plan(TreeWorld(tree.root), GPU, known).refusals
    reasons = [refusal.reason for refusal in found]
    check(reasons == [Reason.BOOT_DISPLAY, Reason.DISPLAY, Reason.GROUP, Reason.HELD], str(reasons))
    error = Refused(GPU, found)
    check("and 3 more" in str(error) and len(error.__notes__) == 3 and isinstance(error, Busy))


def test_no_setting_overrides_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = desktop(tmp_path / "machine")
    tree.put(f"{FOLDER}/boot_vga", "1")
    for name in (
        "AMD_IFACE=PCI",
        "AMD=1",
        "FORCE=1",
        "AMD_FORCE=1",
        "UNSAFE=1",
        "AMD_DMA=physical",
    ):
        monkeypatch.setenv(*name.split("="))
    check(plan(TreeWorld(tree.root), GPU, known).refusals != ())


def test_without_an_iommu(tmp_path: Path) -> None:
    tree = desktop(tmp_path / "machine", group="", audio="snd_hda_intel")
    world = TreeWorld(tree.root)
    found = plan(world, GPU, known)
    check([refusal.reason for refusal in found.refusals] == [Reason.GROUP], str(found))
    tree.at(f"{BUS}/devices/{AUDIO}/driver").unlink()
    check(plan(world, GPU, known).method is Method.BARS)
    state = LinuxState.open(str(tmp_path))
    with pytest.raises(NotFound, match="IOMMU"):
        claim(world, state, GPU, known, Method.VFIO)
    with claim(world, state, GPU, known):
        check(tree.bound() == "" and tree.text(f"{FOLDER}/driver_override") == "none")
        check(tree.text(f"{FOLDER}/enable") == "1" and tree.text(f"{FOLDER}/power/control") == "on")
    check(tree.bound() == "amdgpu" and tree.text(f"{FOLDER}/power/control") == "auto")
    check(tree.text(f"{FOLDER}/driver_override") == "(null)")


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        (f"{FOLDER}/boot_vga", "yes", MalformedInput),
        (f"{FOLDER}/sriov_numvfs", "-1", MalformedInput),
        (f"{FOLDER}/class", "display", MalformedInput),
        (f"{FOLDER}/resource", "0x0 0x0", MalformedInput),
        (f"{FOLDER}/resource", "0x0000000000000001 0x0000000000000000 0x0000000000000200",
         MalformedInput),
        ("/proc/sys/kernel/random/boot_id", "", MalformedInput),
        (f"{FOLDER}/drm/card1/dev", "many", MalformedInput),
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_no_consent(
    path: str, text: str, kind: type[DeviceError], tmp_path: Path
) -> None:
    tree = desktop(tmp_path / "machine")
    tree.put(path, text)
    world = TreeWorld(tree.root)
    with pytest.raises(kind):
        claim(world, LinuxState.open(str(tmp_path)), GPU, known)
    check(not world.writes)


def test_vfio_pci_is_not_loaded(tmp_path: Path) -> None:
    tree = desktop(tmp_path / "machine")
    for name in os.listdir(tree.at(f"{BUS}/drivers/vfio-pci")):
        tree.at(f"{BUS}/drivers/vfio-pci/{name}").unlink()
    tree.at(f"{BUS}/drivers/vfio-pci").rmdir()
    world = TreeWorld(tree.root)
    with pytest.raises(NotFound, match="modprobe vfio-pci"):
        claim(world, LinuxState.open(str(tmp_path)), GPU, known)
    check(not world.writes)


def test_the_plan_is_what_is_done(tmp_path: Path) -> None:
    tree = desktop(tmp_path / "machine")
    world = TreeWorld(tree.root)
    steps = plan(world, GPU, known).steps
    check(not world.writes, "planning only looks")
    claimed = claim(world, LinuxState.open(str(tmp_path)), GPU, known)
    check(world.writes == [(step.path, step.text) for step in steps])
    check(world.writes == [
        (f"{BUS}/drivers/amdgpu/unbind", GPU),
        (f"{FOLDER}/driver_override", "vfio-pci"),
        (f"{BUS}/drivers_probe", GPU),
    ])  # fmt: skip
    claimed.close()
    check(world.writes[3:] == [
        (f"{BUS}/drivers/vfio-pci/unbind", GPU),
        (f"{FOLDER}/driver_override", "\n"),
        (f"{BUS}/drivers/amdgpu/bind", GPU),
    ])  # fmt: skip

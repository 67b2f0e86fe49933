"""Opening an Adreno, over KGSL or over msm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from drivers.base.contracts import Firmware, World
from drivers.base.errors import Denied, DeviceError, NotFound, Unsupported
from drivers.base.undo import Undo, whole
from drivers.choice import Choice
from drivers.qcom.device import HANG_S, QcomDevice
from drivers.qcom.iface import QcomIface
from drivers.qcom.kgsl.iface import open_kgsl
from drivers.qcom.msm.iface import open_msm
from queues.qcom.kernel_code import FLUSH16, OPENCL
from queues.qcom.textures import IMAGES

COMPILERS: Final = ("IR3", "CL")
Open = Callable[[World, int], QcomIface]
WAYS: Final[Mapping[str, Open]] = {"KGSL": open_kgsl, "MSM": open_msm}
"""In the order in which they are tried."""


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> QcomDevice:
    """As `drivers.kinds` names it; the kernel driver loads the GPU's firmware."""
    return open_qcom(world, choice)


def open_qcom(world: World, choice: Choice) -> QcomDevice:
    """Open the GPU that `choice` names; when that fails halfway, what was done is undone.

    Raises: NotFound, Denied, Unsupported, OutOfMemory, and what the kernel driver refuses.
    """
    return whole(partial(_open, world, choice), QcomDevice.close)


def _open(world: World, choice: Choice) -> QcomDevice:
    compilers = tuple(sorted(COMPILERS, key=lambda name: name != choice.compiler))
    with Undo() as undo:
        iface = open_iface(world, choice)
        undo.add(iface.close)
        hang_s = HANG_S if choice.hang_s is None else choice.hang_s
        opencl = compilers[0] == "CL"
        asked = {IMAGES: choice.images, FLUSH16: choice.flush16, OPENCL: opencl}
        features = frozenset(name for name, wanted in asked.items() if wanted)
        device = QcomDevice(f"QCOM:{choice.index}", iface, compilers, hang_s, features=features)
        device.open_queues()
        undo.hand_over(device.close)
        device.awake.match()
    return device


def open_iface(world: World, choice: Choice) -> QcomIface:
    """The way that `choice` names, or the first that is there. Raises: all reasons together."""
    if choice.iface is not None:
        if choice.iface not in WAYS:
            raise Unsupported(
                f"QCOM_IFACE={choice.iface}: no driver is written yet for it",
                hint=f"Use {' or '.join(WAYS)}",
            )
        return _way(choice.iface, choice)(world, choice.index)
    reasons: list[tuple[str, DeviceError]] = []
    for name in WAYS:
        try:
            return _way(name, choice)(world, choice.index)
        except (NotFound, Denied, Unsupported) as error:
            reasons.append((name, error))
    told = "; ".join(f"{name}: {error.message}" for name, error in reasons)
    chief = next((error for _, error in reasons if not isinstance(error, NotFound)), reasons[0][1])
    raise type(chief)(told, hint=chief.hint) from chief


def _way(name: str, choice: Choice) -> Open:
    """What opens over an interface, as the choice wants it."""
    return partial(open_msm, bind=True) if name == "MSM" and choice.vm_bind else WAYS[name]

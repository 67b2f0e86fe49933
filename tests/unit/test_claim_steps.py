"""A write of a claim that the kernel refuses: which step it was, and where the reason is."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from drivers.base.errors import DeviceGone
from drivers.claim import steps
from drivers.claim.record import Method
from drivers.pci.functions import look_at
from tests.pci_tree import GPU, TreeWorld, desktop
from tests.support import check


class Refusing(TreeWorld):
    """No driver takes the function. src: drivers/base/bus.c bind_store(): ENODEV for any reason"""

    def _bind(self, driver: str, address: str) -> None:
        raise OSError(errno.ENODEV, "no driver takes it")


def test_a_driver_that_does_not_take_the_function(tmp_path: Path) -> None:
    desktop(tmp_path)
    world = Refusing(tmp_path)
    todo = steps.take(world, look_at(world, GPU), Method.VFIO)
    with pytest.raises(DeviceGone, match=r"step 3 of 3, bind it to vfio-pci: .*ENODEV") as caught:
        steps.run(world, todo)
    check("dmesg" in caught.value.hint, caught.value.hint)
    check(str(caught.value).endswith(caught.value.hint), str(caught.value))

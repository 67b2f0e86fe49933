"""METAL=1 on another system than macOS, and libraries that are not there, by place."""

from __future__ import annotations

import pytest

import drivers
from drivers.base.errors import BadChoice, NotFound
from drivers.choice import choose
from drivers.world.libraries import load
from drivers.world.linux import LinuxWorld
from tests.support import check


def test_metal_on_linux_says_so() -> None:
    with pytest.raises(NotFound) as caught:
        drivers.open("METAL", world=LinuxWorld(), environ={})
    check(str(caught.value) == (
        "this is Linux; Metal is macOS. use a Mac, or another device here"
    ), str(caught.value))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/System/Library/Frameworks/Metal.framework/Metal", "framework of macOS"),
        ("/nowhere/libx.so", "name another file"),
        ("libnothing-of-this-name.so.1", "install the package"),
        (__file__, "name another file"),
    ],
)
def test_a_library_that_cannot_be_loaded(name: str, says: str) -> None:
    with pytest.raises(NotFound) as caught:
        load(name)
    check(says in caught.value.hint and name in caught.value.message, str(caught.value))


def test_the_values_of_dma_are_those_of_the_docs() -> None:
    with pytest.raises(BadChoice, match="Set UNBOUND_DMA to iommu or vram") as caught:
        choose({"UNBOUND_DMA": "yes"})
    check("IOMMU" not in str(caught.value) and "anywhere" in str(caught.value))
    for value in ("iommu", "VRAM", "Physical"):
        check(choose({"UNBOUND_DMA": value}).dma == value.upper())

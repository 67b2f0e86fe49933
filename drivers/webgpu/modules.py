"""Shader modules from WGSL, and the open devices that compilers ask for them by architecture."""

from __future__ import annotations

from typing import Final

from drivers.hosted.offers import Offers, closed
from drivers.webgpu import abi
from drivers.webgpu.api import view
from drivers.webgpu.errors import rejected
from drivers.webgpu.layout import Text
from drivers.webgpu.link import Link

_offers: Final[Offers[Builder]] = Offers("WebGPU")


def make_module(link: Link, source: str) -> int:
    """A WGPUShaderModule. Raises: CompileError with the library's log and the line."""
    api, text = link.api, Text(source)
    chained = api.record("ShaderSourceWGSL")
    chained["chain.sType"] = abi.SHADER_SOURCE_WGSL
    view(chained, "code", text)
    record = api.record("ShaderModuleDescriptor", next=chained.at)
    if api.flavour.native:
        checks = abi.BOUNDS_CHECKS  # and no count of a loop's turns: our loops end
        made = link.do["wgpuDeviceCreateShaderModuleTrusted"](link.device, record.at, checks)
    else:
        made = link.do["wgpuDeviceCreateShaderModule"](link.device, record.at)
    if link.errors or not made:
        if made:
            link.do["wgpuShaderModuleRelease"](made)
        if link.gone is not None:
            raise link.gone
        reports = link.taken()
        raise rejected(reports[0][1] if reports else "no module", source)
    return made


def builder(arch: str) -> Builder:
    """The builder of an open device. Raises: Unsupported; UseAfterFree once it was closed."""
    return _offers.find(arch)


class Builder:
    """Checks kernels with one device's library."""

    def __init__(self, link: Link, arch: str) -> None:
        self.link, self.arch = link, arch

    def offer(self) -> None:
        """From now on `builder` finds it."""
        _offers.offer(self.arch, self)

    def withdraw(self) -> None:
        """No longer."""
        _offers.withdraw(self.arch, self)

    def check(self, source: str) -> None:
        """Raises: CompileError; UseAfterFree where the device was closed meanwhile."""
        with self.link.alone():
            if not _offers.has(self.arch, self):
                raise closed(self.arch)
            self.link.do["wgpuShaderModuleRelease"](make_module(self.link, source))

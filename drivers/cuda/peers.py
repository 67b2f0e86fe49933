"""Several CUDA devices of one process: access to each other's memory, and copies between them."""

from __future__ import annotations

import weakref
from typing import Protocol

from drivers.base.contracts import Device, Limits
from drivers.base.errors import DeviceGone
from drivers.cuda import abi
from drivers.cuda.api import Api
from drivers.cuda.context import Context, Working
from drivers.cuda.facts import Facts
from drivers.cuda.memory import WRAPPED, CudaBuffer, no_peer
from drivers.cuda.ring import Ring
from drivers.hosted.owned import not_its
from drivers.hosted.pending import waiting


class PeerOwner(Protocol):
    """A device, as far as another one needs it."""

    name: str
    api: Api
    facts: Facts
    context: Context
    limits: Limits
    rings: tuple[Ring, Ring]
    peers: Peers

    def check_open(self) -> None:
        """Raises: UseAfterFree; DeviceGone."""

    def working(self) -> Working:
        """The lock, with the context current."""


class Peers:
    """Which memory of others a device uses, and who uses its own."""

    def __init__(self, device: PeerOwner) -> None:
        self._device = weakref.ref(device)
        self._reached: set[int] = set()
        """Contexts whose memory this device's kernels reach."""
        self.closed = False

    def quiet(self) -> bool:
        """Whether no queue of the device has work. Called with another device's lock held."""
        device = self._device()
        if self.closed or device is None or device.api.lost:
            return True
        api = device.api
        if waiting(device.rings):
            return False
        device.context.push()
        try:
            return all(api.ready("cuStreamQuery", ring.stream) for ring in device.rings)
        except DeviceGone:
            return True  # its own next call says so
        finally:
            device.context.pop()

    def close(self) -> None:
        """The device is closed: nothing of it runs."""
        self.closed = True

    def reach(self, buffer: CudaBuffer, other: Device) -> int:
        """Let another device's kernels use memory of this one; its address there."""
        owner, peer = self._device(), getattr(other, "peers", None)
        block = buffer.block
        target = peer._device() if isinstance(peer, Peers) else None
        if owner is None or target is None or target.api.world is not owner.api.world:
            raise no_peer(buffer.device.name, other)
        owner.check_open()
        target.check_open()
        if block.kind == WRAPPED:
            target.peers.check_host(buffer)
        else:
            target.peers.enable(owner)
        if target.peers not in block.peers:
            block.peers.append(target.peers)
        return block.gpu_va

    def check_host(self, buffer: CudaBuffer) -> None:
        """Pages of the host: no access of peers is asked for. Raises: Unsupported.

        # src: CUDA driver API, "Unified Addressing": registered memory has the same address in all
        # src: contexts, or another one where a GPU does not use host pointers of it
        """
        device, block = self._device(), buffer.block
        if device is None:
            return
        with device.working():
            there = device.api.make("cuMemHostGetDevicePointer_v2", block.cpu_va, 0)
        if there != block.gpu_va:
            raise no_peer(buffer.device.name, device)

    def enable(self, owner: PeerOwner) -> None:
        """Let kernels of this device reach memory of another one. Raises: Unsupported."""
        device = self._device()
        if device is None or owner.context.handle in self._reached:
            return
        with device.working():
            ends = device.facts.ordinal, owner.facts.ordinal
            if not device.api.number("cuDeviceCanAccessPeer", *ends):
                raise no_peer(owner.name, device)
            call = "cuCtxEnablePeerAccess"
            code = device.api.functions[call](owner.context.handle, 0)
            if code not in (abi.SUCCESS, abi.PEER_ALREADY):  # another library may have done it
                device.api.fail(call, code)
        self._reached.add(owner.context.handle)

    def check_reached(self, buffer: CudaBuffer) -> None:
        """Raises: BadArgument for memory of a device that this one does not reach."""
        device, owner = self._device(), getattr(buffer.device, "peers", None)
        if owner is not self and self not in buffer.block.peers:
            name = "a closed device" if device is None else device.name
            raise not_its("buffer", buffer, name, "copy it there, or map_to() it first")

    def copied(self, buffer: CudaBuffer) -> CudaBuffer:
        """A buffer of any device as a side of a copy by this one, kept until that is done."""
        theirs, block = getattr(buffer.device, "peers", None), buffer.block
        if theirs is not self:
            if not isinstance(theirs, Peers) or theirs.closed:
                raise not_its("buffer", buffer, repr(self._device()), "open its device again")
            if self not in block.peers:
                block.peers.append(self)
        return buffer

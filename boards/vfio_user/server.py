"""Answers a client's commands for one function; what it does wrong is an error of the reply."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from typing import TypeAlias

from boards.machine.pci.function import PciFunction
from boards.machine.pool import Pool
from boards.vfio_user import wire
from boards.vfio_user.interrupts import Interrupts
from boards.vfio_user.link import Link
from boards.vfio_user.memory import ClientMemory
from boards.vfio_user.regions import PIN, Regions, msi_vectors
from boards.vfio_user.stream import BrokenLink, close_all
from boards.vfio_user.wire import Command, Message, refusal

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1e-3, 20e-3
"""Engines that wait for memory are pumped this often while the client asks for nothing."""
MOST_IN_A_ROW = 64
"""Commands of a client that sends without end, after which the engines are pumped all the same."""
_MAX_VERSION_BYTES = 4096
Answer: TypeAlias = tuple[bytes, list[int]]
_NOTHING: Answer = b"", []


class Server:
    """One function for one client at a time; also the bus that the function masters."""

    def __init__(self, function: PciFunction) -> None:
        self.function = function
        self.regions = Regions(function)
        self.memory = ClientMemory(self.regions.pools())
        line = function.config.read(PIN, 1) != b"\0"
        self.interrupts = Interrupts(msi_vectors(function.config), line=line)
        self.counts: dict[str, int] = {}
        """Commands answered, refusals among them, by name."""
        self._negotiated = False
        self._handlers: dict[int, Callable[[Message], Answer]] = {
            Command.VERSION: self._version,
            Command.DMA_MAP: self._dma_map,
            Command.DMA_UNMAP: self._dma_unmap,
            Command.DEVICE_GET_INFO: self._device_info,
            Command.DEVICE_GET_REGION_INFO: self._region_info,
            Command.DEVICE_GET_IRQ_INFO: self._irq_info,
            Command.DEVICE_SET_IRQS: self._set_irqs,
            Command.REGION_READ: self._region_read,
            Command.REGION_WRITE: self._region_write,
            Command.REGION_WRITE_MULTI: self._region_write_multi,
            Command.DEVICE_RESET: self._reset,
        }
        function.connect(self)

    # The bus that the function masters.

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """Where the client's memory is behind a bus address, or None."""
        return self.memory.decode(address, nbytes, write)

    def message(self, vector: int) -> None:
        """An MSI of the function."""
        self.interrupts.message(vector)

    # The client's side.

    def serve(self, link: Link) -> str:
        """Answer until the client leaves; why it did. The function keeps its state."""
        pause_s, in_a_row = SHORTEST_PAUSE_S, 0
        reason = ""
        try:
            while not reason:  # for as long as the client lives
                link.wait(pause_s)
                message = link.next()
                if message is not None:
                    self.answer(link, message)
                    pause_s, in_a_row = 0.0, in_a_row + 1
                    if in_a_row < MOST_IN_A_ROW and link.waiting():
                        continue
                elif link.gone:
                    reason = "the client left"
                    continue
                else:
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                in_a_row = 0
                pause_s = 0.0 if self.function.pump() else max(pause_s, SHORTEST_PAUSE_S)
        except BrokenLink as error:
            reason = str(error)
        finally:
            self._disconnect()
        return reason

    def _disconnect(self) -> None:
        self._negotiated = False
        self.interrupts.clear()
        self.memory.remove_all()

    def answer(self, link: Link, message: Message) -> None:
        """One command, one reply. Raises: BrokenLink."""
        name = Command(message.command).name if message.command in self._handlers else "unknown"
        self.counts[name] = self.counts.get(name, 0) + 1
        try:
            payload, descriptors = self._dispatch(message)
        except OSError as error:
            self.counts["refused"] = self.counts.get("refused", 0) + 1
            link.reply_error(message, error.errno or errno.EINVAL)
        else:
            link.reply(message, payload, descriptors)
        finally:
            close_all(message.descriptors)

    def _dispatch(self, message: Message) -> Answer:
        handler = self._handlers.get(message.command)
        if handler is None:
            raise refusal(f"command {message.command}", errno.ENOTSUP)
        if not self._negotiated and message.command != Command.VERSION:
            raise refusal("a command before the version")
        return handler(message)

    def _version(self, message: Message) -> Answer:
        major, minor = message.fields(wire.VERSION)
        if major != wire.MAJOR:
            raise BrokenLink(f"the client speaks version {major}.{minor}, this is {wire.MAJOR}")
        _check_capabilities(message.body[wire.VERSION.size :])
        self._negotiated = True
        offered = {
            "max_msg_fds": wire.MAX_DESCRIPTORS,
            "max_data_xfer_size": wire.MAX_DATA_BYTES,
            "max_dma_maps": wire.MAX_DMA_MAPS,
            "pgsizes": wire.PAGE_BYTES,
            "write_multiple": True,
        }
        text = json.dumps({"capabilities": offered}).encode() + b"\0"
        return wire.VERSION.pack(major, min(minor, wire.MINOR)) + text, []

    def _dma_map(self, message: Message) -> Answer:
        _, flags, offset, address, nbytes = message.fields(wire.DMA_MAP)
        if len(message.descriptors) > 1:
            raise refusal(f"{len(message.descriptors)} descriptors for one window")
        descriptor = message.descriptors[0] if message.descriptors else None
        self.memory.add(address, nbytes, flags, descriptor, offset)
        return _NOTHING

    def _dma_unmap(self, message: Message) -> Answer:
        _, flags, address, nbytes = message.fields(wire.DMA_UNMAP)
        if flags & ~wire.UNMAP_ALL:
            raise refusal(f"unmapping with flags {flags:#x}")
        if not flags:
            self.memory.remove(address, nbytes)
        elif address or nbytes:
            raise refusal("all windows, and one of them")
        else:
            self.memory.remove_all()
        return message.body[: wire.DMA_UNMAP.size], []

    def _device_info(self, message: Message) -> Answer:
        message.fields(wire.DEVICE_INFO)
        flags = wire.DEVICE_RESETS | wire.DEVICE_IS_PCI
        size = wire.DEVICE_INFO.size
        return wire.DEVICE_INFO.pack(size, flags, wire.REGIONS, wire.IRQS), []

    def _region_info(self, message: Message) -> Answer:
        argsz, _, index, *_ = message.fields(wire.REGION_INFO)
        return self.regions.info(argsz, index)

    def _irq_info(self, message: Message) -> Answer:
        _, _, index, _ = message.fields(wire.IRQ_INFO)
        return self.interrupts.info(index), []

    def _set_irqs(self, message: Message) -> Answer:
        self.interrupts.set(message)
        return _NOTHING

    def _region_read(self, message: Message) -> Answer:
        off, index, nbytes = message.fields(wire.REGION_ACCESS)
        head = wire.REGION_ACCESS.pack(off, index, nbytes)
        return head + self.regions.read(index, off, nbytes), []

    def _region_write(self, message: Message) -> Answer:
        off, index, nbytes = message.fields(wire.REGION_ACCESS)
        data = message.body[wire.REGION_ACCESS.size :]
        if len(data) != nbytes:
            raise refusal(f"{len(data)} bytes of data where {nbytes} are said")
        self.regions.write(index, off, data)
        return wire.REGION_ACCESS.pack(off, index, nbytes), []

    def _region_write_multi(self, message: Message) -> Answer:
        (count,) = message.fields(wire.WRITE_COUNT)
        entries = message.body[wire.WRITE_COUNT.size :]
        if len(entries) != count * wire.WRITE_ENTRY.size:
            raise refusal(f"{len(entries)} bytes for {count} writes")
        for off, index, nbytes, data in wire.WRITE_ENTRY.iter_unpack(entries):
            if not 0 < nbytes <= len(data):
                raise refusal(f"a write of {nbytes} bytes among others")
            self.regions.write(index, off, data[:nbytes])
        return wire.WRITE_COUNT.pack(count), []

    def _reset(self, message: Message) -> Answer:
        self.function.reset()
        return _NOTHING


def _check_capabilities(text: bytes) -> None:
    """What a client says of itself is optional, and has to be JSON. Raises: OSError EINVAL."""
    if not text:
        return
    if len(text) > _MAX_VERSION_BYTES:
        raise refusal(f"{len(text)} bytes of capabilities")
    try:
        said = json.loads(text.rstrip(b"\0").decode())
    except (ValueError, RecursionError) as error:
        raise refusal("capabilities that are no JSON") from error
    if not isinstance(said, dict):
        raise refusal("capabilities that are no object")

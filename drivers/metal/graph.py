"""Graphs: launches in a row are commands of an indirect command buffer, encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drivers.base.contracts import Buffer
from drivers.base.undo import Undo
from drivers.metal import commands
from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Api, Owned, retained
from drivers.metal.commands import Launch
from drivers.metal.memory import SHARED, Block
from drivers.metal.owner import MetalOwner
from drivers.metal.ring import COMPUTE, Ring, Work
from queues.builder import Built
from queues.graph import Recording

LEAST: Final = 2
"""Launches in a row that are worth an indirect command buffer."""
MOST: Final = 1024
"""Of one; Metal allows 16,384.
# src: Apple, "Metal Feature Set Tables": commands in an indirect command buffer"""
_DISPATCH: Final = CONSTANTS["MTL::IndirectCommandTypeConcurrentDispatch"]
_BOTH: Final = CONSTANTS["MTL::ResourceUsageRead"] | CONSTANTS["MTL::ResourceUsageWrite"]


class Indirect:
    """Launches in a row, encoded once. Use it with the device's lock held."""

    def __init__(self, api: Api, device: int, launches: Sequence[Launch]) -> None:
        send = api.send
        self._api, self.count = api, len(launches)
        self._known: list[tuple[Block, ...]] = []
        self._commands: list[Owned] = []
        self.last: Work | None = None
        """The command buffer that used it last."""
        with Undo() as undo, api.pool():
            shape = api.new("MTLIndirectCommandBufferDescriptor")
            undo.add(shape.release)
            send["setCommandTypes:"](shape.handle, _DISPATCH)
            send["setInheritBuffers:"](shape.handle, 0)
            send["setInheritPipelineState:"](shape.handle, 0)
            most = max(len(launch.blocks) for launch in launches)
            send["setMaxKernelBufferBindCount:"](shape.handle, most)
            make = send["newIndirectCommandBufferWithDescriptor:maxCommandCount:options:"]
            self._buffer = Owned(api, make(device, shape.handle, self.count, SHARED))
            undo.add(self.drop_now)
            for place, launch in enumerate(launches):
                self._encode(place, launch)
        shape.release()

    def _encode(self, place: int, launch: Launch) -> None:
        api, send = self._api, self._api.send
        made = retained(api, send["indirectComputeCommandAtIndex:"](self._buffer.handle, place))
        self._commands.append(made)
        send["setComputePipelineState:"](made.handle, launch.pipeline)
        for number, block in enumerate(launch.blocks):
            send["setKernelBuffer:offset:atIndex:"](made.handle, block.handle, 0, number)
        self._known.append(launch.blocks)
        if place:
            send["setBarrier"](made.handle)
        send["concurrentDispatchThreadgroups:threadsPerThreadgroup:"](
            made.handle, launch.grid, launch.block
        )

    def differs(self, launches: Sequence[Launch]) -> bool:
        """Whether launches name other memory than it has."""
        return any(
            one is not other
            for launch, known in zip(launches, self._known, strict=True)
            for one, other in zip(launch.blocks, known, strict=True)
        )

    def fill(self, launches: Sequence[Launch]) -> None:
        """Name other memory. No queue may be using it."""
        for place, (launch, known) in enumerate(zip(launches, self._known, strict=True)):
            for number, block in enumerate(launch.blocks):
                if block is not known[number]:
                    self._api.send["setKernelBuffer:offset:atIndex:"](
                        self._commands[place].handle, block.handle, 0, number
                    )
            self._known[place] = launch.blocks

    def run(self, ring: Ring) -> None:
        """Encode all of them. Memory that an indirect command names is made resident by hand."""
        send, encoder = self._api.send, ring.encoder(COMPUTE)
        for block in {id(one): one for known in self._known for one in known}.values():
            send["useResource:usage:"](encoder, block.handle, _BOTH)
        send["executeCommandsInBuffer:withRange:"](encoder, self._buffer.handle, (0, self.count))
        self.last = ring.work()
        ring.pipeline, ring.bound = 0, {}

    def held(self) -> list[Owned]:
        """What it holds, to be released when no queue uses it."""
        return [*self._commands, self._buffer]

    def drop_now(self) -> None:
        """Release everything of one that never ran."""
        for owned in self.held():
            owned.release()


class MetalGraph(Recording[Any]):
    """Steps recorded once."""

    def __init__(self, device: MetalOwner, ring: Ring, built: Built[Any]) -> None:
        super().__init__(built)
        self._device, self._ring, self._steps = device, ring, built.steps
        self._mark = built.mark
        self._indirect: dict[int, Indirect] | None = None
        """By the first step that each stands for; None before the first replay."""
        with device.lock:
            device.check_open()
            device.register(self)

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Run it; `values[i]` fills `Param(i)`. Raises: BadArgument, UseAfterFree."""
        device, ring = self._device, self._ring
        with device.lock, device.alone():
            given = self._counted(values)
            device.check_open()
            steps = list(self._steps)
            for patches, value in zip(self._params, given, strict=True):
                for patch in patches:
                    word = patch.resolve(value)
                    steps[patch.step] = commands.filled(steps[patch.step], patch.number, word)
            mark = device.freed_mark  # before the look: what another thread frees meanwhile counts
            if mark is not self._mark:
                device.check_alive(self._keep)
                self._mark = mark
            device.pump()
            if ring.pending:
                device.push(ring, steps)
            else:
                device.push(ring, self._started(steps))

    def _started(self, steps: list[Any]) -> list[Any]:
        """Encode everything before the first wait that is not met; the rest."""
        if self._indirect is None:
            self._indirect = self._made(steps)
        place = 0
        for _ in range(len(steps)):
            if place == len(steps):
                break
            found = self._indirect.get(place)
            if found is None:
                if not steps[place]():
                    break
                place += 1
                continue
            launches = steps[place : place + found.count]
            if found.differs(launches):
                self._device.reach(self._ring, found.last)
                found.fill(launches)
            found.run(self._ring)
            place += found.count
        self._ring.flush()
        return steps[place:]

    def _made(self, steps: list[Any]) -> dict[int, Indirect]:
        """Indirect command buffers for launches in a row."""
        made: dict[int, Indirect] = {}
        begin, device = 0, self._device
        with Undo() as undo:
            for place in range(len(steps) + 1):
                same = place < len(steps) and isinstance(steps[place], Launch)
                if same and place - begin < MOST:
                    continue
                if place - begin >= LEAST:
                    one = Indirect(device.api, device.handle, steps[begin:place])
                    undo.add(one.drop_now)
                    made[begin] = one
                begin = place if same else place + 1
        return made

    def close(self) -> None:
        """Drop what it names. A second close does nothing."""
        super().close()
        indirect, self._indirect, self._steps = self._indirect or {}, None, []
        for one in indirect.values():
            for owned in one.held():
                self._device.drop(owned)

    def __del__(self) -> None:
        self.close()

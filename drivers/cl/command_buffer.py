"""Launches of a graph in a row as one cl_khr_command_buffer: a replay is one call.

Arguments that change between replays are replaced in it (mutable dispatch); where the device cannot
do that, launches with open Params stay outside. A device that allows one use at a time gets single
launches while an earlier run may not be over.

# measured: Intel's runtime 2026.22.10 for processors, 2 loaded cores, 23.11.2026, 100 kernels, by
# pairs: a replay takes 0.76 to 0.98 of the time of single launches, its call 0.70 to 0.90, with
# none, two, half or all launches changed, in each kind of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from drivers.base.errors import DeviceError, DeviceGone, OutOfMemory, Unsupported
from drivers.base.undo import Step as Release
from drivers.base.undo import Undo
from drivers.cl import abi
from drivers.cl.api import Text, Words
from drivers.cl.commands import Launch
from drivers.cl.owner import ClOwner
from drivers.cl.program import DIMENSIONS, Kernel
from drivers.cl.recorder import Recorder
from drivers.cl.ring import Ring
from queues.cl.kernel_code import ENTRY

LEAST: Final = 2
"""Launches in a row that are recorded: enqueueing a command buffer costs as much as a launch."""
_HIGH: Final = 32
_HANDLE_BYTES: Final = 8


class CommandBuffer:
    """One run of a graph. It is a command: under the device's lock."""

    def __init__(
        self, device: ClOwner, recorder: Recorder, ring: Ring, launches: Sequence[Launch],
        changing: Sequence[bool],
    ) -> None:  # fmt: skip
        """`changing`: which launches have open Params.

        Raises: OutOfMemory, DeviceGone; Unsupported where the driver does not record them.
        """
        self._device, self._recorder, self._ring = device, recorder, ring
        self._launches, self._recorded = [*launches], [*launches]
        """As the next run needs them, and as they are in the command buffer."""
        self._others: list[int] = []
        """Which of them are not the same."""
        self._used = 0
        """How many commands the ring had when it was last enqueued."""
        self._releases: list[Release] = []
        self._changes: dict[int, Change] = {}
        with Undo() as undo:
            try:
                self.handle = self._create(any(changing))
                release = partial(recorder.do, "clReleaseCommandBufferKHR", self.handle)
                self._releases.append(release)
                undo.add(self.drop)
                for number, launch in enumerate(launches):
                    command = self._record(launch, changing[number])
                    if changing[number]:
                        self._changes[number] = Change(command, launch)
                recorder.do("clFinalizeCommandBufferKHR", self.handle)
            except (OutOfMemory, DeviceGone):
                raise
            except DeviceError as error:
                raise Unsupported(
                    f"{device.name} does not record {len(launches)} kernels: {error.message}",
                    hint="they run by themselves",
                ) from error

    def _create(self, mutable: bool) -> int:
        flags = abi.COMMAND_BUFFER_SIMULTANEOUS_USE * self._recorder.simultaneous
        flags |= abi.COMMAND_BUFFER_MUTABLE * mutable
        queues = Words([self._ring.handle])
        properties = Words([abi.COMMAND_BUFFER_FLAGS, flags, 0])
        return self._recorder.make("clCreateCommandBufferKHR", 1, queues.at, properties.at)

    def _own(self, launch: Launch) -> Kernel:
        """A kernel object that no other command uses."""
        api, program = self._device.api, launch.program
        name = Text((ENTRY + program.name).encode())
        handle = api.make("clCreateKernel", program.program, name.at)
        kernel = Kernel(api, handle, program.nargs + self._device.hidden_args)
        self._releases.append(partial(api.do, "clReleaseKernel", handle))
        return kernel

    def _record(self, launch: Launch, change: bool) -> int:
        """Add a launch; its handle, of one whose arguments change."""
        kernel, command = replace(launch, kernel=self._own(launch)).prepare(), Words([0])
        arguments = abi.MUTABLE_DISPATCH_ARGUMENTS * change
        properties = Words([abi.MUTABLE_DISPATCH_UPDATABLE_FIELDS, arguments, 0])
        self._recorder.do(
            "clCommandNDRangeKernelKHR", self.handle, 0, properties.at * change, kernel.handle,
            DIMENSIONS, 0, kernel.whole, kernel.local, 0, 0, 0, command.at * change,
        )  # fmt: skip
        return command.words[0]

    def fill(self, launches: Sequence[Launch]) -> None:
        """What the next run computes."""
        self._launches = [*launches]
        pairs = zip(self._launches, self._recorded, strict=True)
        self._others = [number for number, (one, other) in enumerate(pairs) if one is not other]

    def __call__(self) -> bool:
        if not self._recorder.simultaneous and self._used > self._ring.done:
            for launch in self._launches:
                launch()
            return True
        if self._others:
            self._update()
        self._recorder.do("clEnqueueCommandBufferKHR", 0, 0, self.handle, 0, 0, 0)
        self._ring.enqueued += 1
        self._used = self._ring.enqueued
        return True

    def _update(self) -> None:
        """Replace the arguments of launches that name other memory than the recorded ones."""
        places = [self._changes[number].at(self._launches[number]) for number in self._others]
        kinds, configs = Words([0] * len(places)), Words(places)
        args = self.handle, len(places), kinds.at, configs.at
        self._recorder.do("clUpdateMutableCommandsKHR", *args)
        self._recorded, self._others = self._launches, []

    def drop(self) -> None:
        """Finalisers call this at any moment: release it later."""
        self._device.drop(self._releases)


class Change:
    """The arguments of one recorded launch, as clUpdateMutableCommandsKHR reads them.

    An empty list is no list: Intel's runtime rejects the address of one.
    """

    __slots__ = ("_addresses", "_config", "_handles", "_values")

    def __init__(self, command: int, launch: Launch) -> None:
        entries = [0, _HANDLE_BYTES, 0] * len(launch.blocks)
        self._values = Words([0] * len(launch.blocks))
        """cl_mem handles; shared virtual memory is named by its address in the list itself."""
        self._handles, self._addresses = Words([*entries]), Words([*entries])
        self._config = Words([command] + [0] * (abi.MUTABLE_DISPATCH_CONFIG_WORDS - 1))

    def at(self, launch: Launch) -> int:
        """Where the structure is, with the memory of this launch."""
        values, handles, addresses = self._values, self._handles.words, self._addresses.words
        named = shared = 0
        for number, block in enumerate(launch.blocks):
            if block.handle:
                values.words[number] = block.handle
                handles[named] = number
                handles[named + 2] = values.at + number * _HANDLE_BYTES
                named += abi.MUTABLE_DISPATCH_ARG_WORDS
            else:
                addresses[shared], addresses[shared + 2] = number, block.gpu_va
                shared += abi.MUTABLE_DISPATCH_ARG_WORDS
        count, svm = (n // abi.MUTABLE_DISPATCH_ARG_WORDS for n in (named, shared))
        config = self._config.words
        config[1] = svm << _HIGH | count
        config[3], config[4] = self._handles.at * bool(count), self._addresses.at * bool(svm)
        return self._config.at

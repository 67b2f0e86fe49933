"""Events: what a marker in a queue says of the work before it."""

from __future__ import annotations

from drivers.base.errors import DeviceFault
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.cl.errors import name_of, signed


class Event:
    """A marker in a queue; its clReleaseEvent is called once it is done."""

    __slots__ = ("_api", "handle")

    def __init__(self, api: Api, handle: int) -> None:
        self._api, self.handle = api, handle

    def done(self) -> bool:
        """Whether everything before it has ended. Raises: DeviceFault where that failed."""
        status = signed(
            self._api.number("clGetEventInfo", self.handle, abi.EVENT_COMMAND_EXECUTION_STATUS)
        )
        if status < 0:
            raise DeviceFault(
                f"work of an OpenCL queue failed: {name_of(status)}",
                kind=name_of(status), hint="see what the kernels before it access",
            )  # fmt: skip
        return status == abi.COMPLETE

    def time_ns(self) -> int:
        """When it ended, by the device's clock."""
        return self._api.number("clGetEventProfilingInfo", self.handle, abi.PROFILING_COMMAND_END)

    def release(self) -> None:
        """Once."""
        self._api.do("clReleaseEvent", self.handle)

"""A GPU's power: what is idle is switched off, and its always-on counter begins again.

src: Linux, drivers/gpu/drm/msm/msm_gpu.h DRM_MSM_INACTIVE_PERIOD, adreno/a6xx_gpu.c
a6xx_gmu_pm_suspend(); KGSL: kgsl_pwrctrl.c; Mesa 25.0.7, tu_perfetto.cc (the counter is reset)
"""

from __future__ import annotations

from boards.machine.clock import Clock

_NS_PER_S, _NS_PER_MS = 1_000_000_000, 1_000_000
ALWAYS_ON_HZ = 19_200_000
IDLE_MS = 66


class Power:
    """Of one GPU."""

    def __init__(self, clock: Clock, *, suspends: bool) -> None:
        self._clock, self._suspends = clock, suspends
        self._count, self._since_ns = 0, 0
        """How often it was switched off; when it was last switched on."""
        self._idle_ns: int | None = None
        """Since when it has had nothing to do."""

    @property
    def suspended(self) -> int:
        """How often it has been switched off."""
        self._look()
        return self._count

    def _look(self) -> bool:
        """Whether it is off, which is noticed when somebody asks."""
        idle = self._idle_ns
        if not self._suspends or idle is None:
            return False
        if self._clock.now_ns() - idle < IDLE_MS * _NS_PER_MS:
            return False
        self._idle_ns, self._count, self._since_ns = None, self._count + 1, 0
        return True

    def wake(self) -> None:
        """Something is to be done."""
        self._look()
        if self._suspends and not self._since_ns:
            self._since_ns = self._clock.now_ns()
        self._idle_ns = None

    def rest(self) -> None:
        """Nothing is to be done any more."""
        self._idle_ns = self._clock.now_ns()

    def always_on(self) -> int:
        """CP_ALWAYS_ON_COUNTER, of a GPU that is on."""
        return (self._clock.now_ns() - self._since_ns) * ALWAYS_ON_HZ // _NS_PER_S

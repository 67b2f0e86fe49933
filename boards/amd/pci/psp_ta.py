"""Trusted applications: the security processor loads them, gives sessions, and takes commands.

Modelled from the driver's side: what an application does is not known here, so a command to one
that is loaded succeeds and changes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from boards.amd.pci import psp_names as n
from boards.amd.pci.board import Board

Image = Callable[..., str]
"""(low, high, bytes, kinds...) -> what is wrong with an image in memory; "" when nothing is."""
Answer = tuple[int, int, int]
# src: amdgpu_ucode.h enum ta_fw_type
KINDS = ("XGMI", "RAS", "HDCP", "DTM", "RAP", "SECUREDISPLAY")
ASD = "ASD"


class TrustedApplications:
    """LOAD_TA, LOAD_ASD, UNLOAD_TA, INVOKE_CMD."""

    def __init__(self, board: Board, image: Image) -> None:
        self._board, self._image = board, image
        self._sessions: set[int] = set()
        self._next = 1
        self.session = 0
        """What the answer of the last command names."""
        board.on_reset(self._sessions.clear)

    def load(self, arguments: bytes) -> Answer:
        """src: psp_gfx_if.h struct psp_gfx_cmd_load_ta"""
        return self._load(arguments, *KINDS)

    def load_asd(self, arguments: bytes) -> Answer:
        """src: amdgpu_psp.c psp_asd_initialize(): the same structure, without a command buffer"""
        return self._load(arguments, ASD)

    def _load(self, arguments: bytes, *kinds: str) -> Answer:
        low, high, nbytes = struct.unpack_from("<III", arguments)
        why = self._image(low, high, nbytes, *kinds)
        if why:
            self._board.find("PSP refused", "trusted application", why)
            return n.SECURITY, 0, 0
        self.session = self._next
        self._sessions.add(self._next)
        self._next += 1
        return 0, 0, 0

    def unload(self, arguments: bytes) -> Answer:
        """src: psp_gfx_if.h struct psp_gfx_cmd_unload_ta"""
        session = int.from_bytes(arguments[:4], "little")
        if session not in self._sessions:
            self._board.find("PSP refused", "UNLOAD_TA", f"there is no session {session}")
            return n.BAD_PARAMETERS, 0, 0
        self._sessions.discard(session)
        return 0, 0, 0

    def invoke(self, arguments: bytes) -> Answer:
        """src: psp_gfx_if.h struct psp_gfx_cmd_invoke_cmd: session, then the application's own"""
        session = int.from_bytes(arguments[:4], "little")
        if session not in self._sessions:
            self._board.find("PSP refused", "INVOKE_CMD", f"there is no session {session}")
            return n.BAD_PARAMETERS, 0, 0
        return 0, 0, 0

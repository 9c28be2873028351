"""Critical GPU errors (XIDs) from the driver's events."""

import ctypes
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pynvml

from agent.gpu.cards import decode_text

log = logging.getLogger("tessera.agent")

USABLE_AFTER = frozenset({13, 31, 43, 45, 63, 68, 94, 109})
"""XIDs of a program, or of memory errors that the driver handled: the card stays usable. Sources: NVIDIA's device
plugin (internal/rm/health.go); its Xid catalogue for 63 (row remapped) and 94 (contained)."""
WORDS = "The driver told the critical error XID {xid} of it. Reset the card or restart the machine."
SLICE_S = 1.0
"""Longest wait inside the driver, since Python handles signals only afterwards."""


class XidListener:
    """Listens for XIDs; without a driver it only waits.

    note: called with a card's uuid and a sentence; returns whether it is the card's first.
    """

    def __init__(self, note: Callable[[str, str], bool]):
        self.note = note
        self.uuids: dict[int | None, str] = {}
        self.events: Any = None
        self.open = False

    @property
    def is_listening(self) -> bool:
        return self.events is not None

    def listen(self) -> None:
        self.close()
        try:
            pynvml.nvmlInit()
            self.open = True
            self.events = pynvml.nvmlEventSetCreate()
            for index in range(pynvml.nvmlDeviceGetCount()):
                self._listen_to(index)
        except pynvml.NVMLError as error:
            log.debug("no errors of cards are heard: %s", error)
        if not self.uuids:
            self.close()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait until the time is over, `stop` is set or a card has its first error; return whether one had."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop.is_set():
            if self.events is None:
                stop.wait(left)
            elif self._heard(min(left, SLICE_S)):
                return True
        return False

    def close(self) -> None:
        self.uuids = {}
        if self.events is not None:
            _quietly(lambda: pynvml.nvmlEventSetFree(self.events))
        if self.open:
            _quietly(pynvml.nvmlShutdown)
        self.events, self.open = None, False

    def _listen_to(self, index: int) -> None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = decode_text(pynvml.nvmlDeviceGetUUID(handle))
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self.events)
        except pynvml.NVMLError as error:
            log.info("GPU %s tells no errors: %s", index, error)
        else:
            self.uuids[_address(handle)] = uuid

    def _heard(self, seconds: float) -> bool:
        try:
            event = pynvml.nvmlEventSetWait_v2(self.events, round(1000 * seconds))
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_TIMEOUT:  # the next report shows what was lost
                log.warning("the driver tells no more errors: %s", error)
                self.close()
            return False
        xid, uuid = event.eventData, self.uuids.get(_address(event.device), "")
        if event.eventType != pynvml.nvmlEventTypeXidCriticalError or xid in USABLE_AFTER or not uuid:
            log.info("card %s had error %s", uuid or "unknown", xid)
            return False
        return self.note(uuid, WORDS.format(xid=xid))


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except pynvml.NVMLError as error:
        log.debug("closing: %s", error)

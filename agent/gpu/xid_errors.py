"""Critical GPU errors (XIDs) from the driver's events, and what NVIDIA's catalogue of them says to do at once.

Source: the column of immediate actions in NVIDIA's Xid catalogue, for Ampere and newer. What is not in it is taken as a
fault of the card.
"""

import ctypes
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pynvml

from agent.gpu.cards import decode_text

log = logging.getLogger("tessera.agent")


class Action(StrEnum):
    """What the catalogue says to do at once."""

    IGNORE = "ignore"
    FOLLOW_OTHER = "follow the error that came with it"
    RESTART_APP = "restart the program"
    RESET_GPU = "reset the card"
    RESTART_BM = "restart the machine"
    RESTART_VM = "restart the virtual machine"
    CHECK_NVLINK = "look at the card's NVLinks, then reset the card or restart the machine"
    CONTACT_SUPPORT = "reset the card or restart the machine, and ask NVIDIA's support if it comes again"


ACTIONS: dict[Action, tuple[int, ...]] = {
    Action.IGNORE: (43, 63, 92, 137, 157),
    Action.FOLLOW_OTHER: (45, 154, 171, 172),
    Action.RESTART_APP: (8, 11, 13, 25, 31, 32, 68, 69, 94),
    Action.RESET_GPU: (46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    Action.RESTART_BM: (79,),
    Action.RESTART_VM: (151,),
    Action.CHECK_NVLINK: (74, 144, 145, 146, 147, 148, 149, 150),
}
BY_XID = {xid: action for action, xids in ACTIONS.items() for xid in xids}
HARMLESS = frozenset({Action.IGNORE, Action.FOLLOW_OTHER, Action.RESTART_APP})
"""The card stays usable: errors of a program, and of memory that the driver handled. What comes with another error is
judged by that one."""
WORDS = "The driver told the critical error XID {xid} of it: {action}."
SLICE_S = 1.0
"""Longest wait inside the driver, since Python handles signals only afterwards."""


def find_action(xid: int) -> Action:
    return BY_XID.get(xid, Action.CONTACT_SUPPORT)


def is_harmless(xid: int) -> bool:
    """Return whether the card stays usable after it."""
    return find_action(xid) in HARMLESS


class XidListener:
    """Listens for XIDs; without a driver it only waits.

    note: called with a card's uuid and a sentence; returns whether it is the card's first.
    """

    def __init__(self, note: Callable[[str, str], bool]):
        self.note = note
        self.uuids: dict[int | None, str] = {}
        self.last: dict[str, int] = {}
        """The last XID of each card, also of those that stay usable."""
        self.counts: dict[str, Counter[int]] = {}
        """How often each XID was heard of each card."""
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
        if uuid and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
            self.last[uuid] = int(xid)
            self.counts.setdefault(uuid, Counter())[int(xid)] += 1
        if event.eventType != pynvml.nvmlEventTypeXidCriticalError or is_harmless(xid) or not uuid:
            log.info("card %s had error %s", uuid or "unknown", xid)
            return False
        return self.note(uuid, WORDS.format(xid=xid, action=find_action(xid)))


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except pynvml.NVMLError as error:
        log.debug("closing: %s", error)

"""What NVIDIA's dcgm-exporter tells of this machine's cards, in place of GPM: also of cards before Hopper.

Sources: dcgm-exporter's README and default-counters.csv, and the field identifiers in NVIDIA's DCGM API reference. Not
run on hardware yet. Its thread asks again and again; whoever looks takes what was told last, and waits for nothing.
"""

import logging
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import pynvml

from agent.gpu.cards import decode_text
from agent.gpu.counters.gpm import METRICS, MOST, RATIOS, Means
from agent.periodic_thread import PeriodicThread

log = logging.getLogger("tessera.agent")

EVERY_S, WITHIN_S = 10.0, 5.0
STALE_S = 35.0
"""Older readings count no more: three were missed."""
MOST_BYTES = 8 << 20
PREFIX = "DCGM_FI_PROF_"
PROFILED = {
    "GR_ENGINE_ACTIVE": "graphics",
    "SM_ACTIVE": "sm",
    "PIPE_TENSOR_ACTIVE": "tensor",
    "DRAM_ACTIVE": "dram",
    "PCIE_TX_BYTES": "pcie_tx",
    "PCIE_RX_BYTES": "pcie_rx",
    "NVLINK_TX_BYTES": "nvlink_tx",
    "NVLINK_RX_BYTES": "nvlink_rx",
}
"""{its field: our name of the metric, as of GPM}. Ratios are 0 to 1 there, traffic is in bytes a second."""
ECC, XID = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_XID_ERRORS"
SCALES = {name: 100.0 if name in RATIOS else 2.0**-20 for name in METRICS}
MOST_COUNT = 2**31 - 17
"""What is larger is blank: DCGM's word for that is a number near 2^31 or 2^63."""
LINE = re.compile(r"(DCGM_FI_\w+)\{(.*)\}\s+(\S+)(?:\s+\d+)?\s*")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Part = tuple[str, str]
"""A card's uuid, and the number of its instance of MIG; "" for the card."""


@dataclass(frozen=True)
class Reading:
    """means: {part: {metric: percent or MiB a second}}. ecc: memory errors that could not be corrected, by card. xids:
    the last error of each card that had one.
    """

    means: Mapping[Part, Mapping[str, float]] = field(default_factory=dict)
    ecc: Mapping[str, int] = field(default_factory=dict)
    xids: Mapping[str, int] = field(default_factory=dict)


class DcgmWatch(PeriodicThread):
    """Asks the exporter each EVERY_S. url: of its metrics."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic):
        super().__init__("dcgm")
        self.url, self._clock = url, clock
        self._began = clock()
        self._newest: tuple[float, Reading] | None = None
        self._trouble = ""

    def run_once(self) -> float:
        try:
            reading = read_text(fetch_text(self.url, WITHIN_S))
        except (OSError, HTTPException, ValueError) as error:
            self._tell(f"{error or type(error).__name__}")
            return EVERY_S
        self._newest = self._clock(), reading
        self._tell("" if reading.means else "it tells no DCGM_FI_PROF_ field of any card")
        return EVERY_S

    def read_newest(self) -> Reading:
        """Return what was told last; nothing once that is too old."""
        return self._newest[1] if self._newest and self._clock() - self._newest[0] <= STALE_S else Reading()

    @property
    def trouble(self) -> str:
        """Why nothing of it counts, "" if something does, or may still come at the beginning."""
        is_young = self._newest is None and self._clock() - self._began <= STALE_S
        return "" if is_young or self.read_newest().means else self._trouble or "it does not answer"

    def list_xids(self) -> dict[str, Counter[int]]:
        return {uuid: Counter([xid]) for uuid, xid in self.read_newest().xids.items()}

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("the exporter at %s: %s", self.url, trouble or "it answers again")
        self._trouble = trouble


class DcgmReader:
    """Tells means as GpmReader does: what was told last counts for the time since the look before."""

    def __init__(self, watch: DcgmWatch, clock: Callable[[], float] = time.monotonic):
        self._watch, self._clock = watch, clock
        self._looked: dict[str, float] = {}

    def read(self, uuid: str, card: Any, instance: Any = None) -> Means | None:
        """As MeansReader."""
        now, before = self._clock(), self._looked.get(uuid)
        self._looked[uuid] = now
        try:
            part = (uuid, "") if instance is None else _name_part(card, instance)
        except pynvml.NVMLError:
            return None
        means = self._watch.read_newest().means.get(part)
        return None if before is None or means is None else Means(now - before, means)


def read_text(text: str) -> Reading:
    """Read the text format of Prometheus; what is blank or out of range is absent."""
    means: dict[Part, dict[str, float]] = {}
    ecc: dict[str, int] = {}
    xids: dict[str, int] = {}
    for line in text.splitlines():
        if (found := LINE.fullmatch(line)) is None or (value := _read_number(found[3])) is None:
            continue
        labels, name = dict(LABEL.findall(found[2])), found[1]
        uuid, metric = labels.get("UUID", ""), PROFILED.get(name.removeprefix(PREFIX), "")
        if name.startswith(PREFIX) and metric and 0 <= value * SCALES[metric] <= MOST[metric]:
            means.setdefault((uuid, labels.get("GPU_I_ID", "")), {})[metric] = value * SCALES[metric]
        elif name == ECC and 0 <= value < MOST_COUNT:
            ecc[uuid] = int(value)
        elif name == XID and 0 < value < MOST_COUNT:
            xids[uuid] = int(value)
    return Reading(means, ecc, xids)


def fetch_text(url: str, within_s: float) -> str:
    """Return what is told at an address. Raises OSError, HTTPException, ValueError. No redirects, no proxy.

    A timer bounds it, as an answer that comes byte by byte never meets a timeout of the socket.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection, began = kind(parts.hostname or "", parts.port, timeout=within_s), time.monotonic()
    connection.connect()
    timer = threading.Timer(within_s, _shut, [connection.sock])  # which the answer holds without the connection, too
    timer.daemon = True
    timer.start()
    try:
        connection.request("GET", f"{parts.path or '/metrics'}{f'?{parts.query}' if parts.query else ''}")
        answer = connection.getresponse()
        body = answer.read(MOST_BYTES + 1)
    finally:
        timer.cancel()
        connection.close()
    if time.monotonic() - began >= within_s:
        raise TimeoutError(f"it did not answer within {within_s:.0f} s")
    if answer.status != 200:
        raise OSError(f"it answered with {answer.status}")
    if len(body) > MOST_BYTES:
        raise OSError(f"it told more than {MOST_BYTES >> 20} MiB")
    return body.decode(errors="replace")


def _name_part(card: Any, instance: Any) -> Part:
    return decode_text(pynvml.nvmlDeviceGetUUID(card)), str(pynvml.nvmlDeviceGetGpuInstanceId(instance))


def _read_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already

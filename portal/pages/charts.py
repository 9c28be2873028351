"""What the charts of a page show; static/js/charts.js gets their numbers from the API and the live socket."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

HOUR_S = 3600
HOURS = {1: gettext_lazy("1 h"), 6: gettext_lazy("6 h"), 24: gettext_lazy("24 h")}
LONGER = {7 * 24: gettext_lazy("7 d"), 30 * 24: gettext_lazy("30 d"), 365 * 24: gettext_lazy("1 y")}
"""Of what is there for ever, such as a machine."""


@dataclass(frozen=True)
class Chart:
    """One small chart. metrics: its lines, as the API names them. names: of several. says: its sentence.

    says_many: of several cards or tasks. limit: how the dashed line is called. limit_metric: where its
    numbers are a line of their own. top: of the axis, 0 for what is needed. sparse: where it has no value, there was
    nothing to measure.
    """

    metrics: tuple[str, ...]
    title: Promise
    says: Promise
    says_many: Promise | str = ""
    names: tuple[Promise, ...] = ()
    limit: Promise | str = ""
    limit_metric: str = ""
    top: int = 0
    height: int = 76
    sparse: bool = False


@dataclass(frozen=True)
class Range:
    seconds: int
    words: Promise
    chosen: bool = False


@dataclass(frozen=True)
class Mark:
    """A moment that is drawn as a dotted line."""

    at: datetime
    words: str

    def as_json(self) -> dict:
        return {"at": self.at.isoformat(), "words": self.words}


@dataclass(frozen=True)
class ChartSet:
    """The charts of one subject. urls: where its numbers are. watch: how the live socket calls it, "" for never.

    begin, end: since and until when there is something to see, None for ever and for now. version: what makes the
    charts begin anew where the page is drawn again. sums: whether series are added up.
    """

    urls: Sequence[str]
    charts: Sequence[Chart]
    ranges: Sequence[Range]
    watch: str = ""
    begin: datetime | None = None
    end: datetime | None = None
    marks: Sequence[Mark] = ()
    apart: Sequence[str] = ()
    version: str = ""
    sums: bool = False

    @property
    def mark_rows(self) -> list[dict]:
        return [mark.as_json() for mark in self.marks]

    @property
    def keep(self) -> str:
        """A name for as long as the drawn charts stay."""
        return f"charts-{self.watch or self.urls[0]}-{self.version}-{'ended' if self.end else 'open'}"


GPU_ACTIVITY = Chart(
    ("gpu_busy_percent",),
    gettext_lazy("GPU activity"),
    gettext_lazy("Mean {mean}, busiest {max}, measured {seen} of the time."),
    gettext_lazy("Mean of {count}: {mean}, busiest {max}, measured {seen} of the time."),
    top=100,
    height=112,
)
GPU_MEMORY = Chart(
    ("gpu_memory_mib",),
    gettext_lazy("GPU memory"),
    gettext_lazy("Peak {max} of {limit}, mean {mean}."),
    gettext_lazy("Peak of {count}: {max} of {limit}, mean {mean}."),
    limit=gettext_lazy("slice {limit}"),
)
CPU = Chart(
    ("cpu_cores",),
    gettext_lazy("CPU cores"),
    gettext_lazy("Mean {mean} of {limit}, peak {max}."),
    gettext_lazy("Mean of {count} tasks: {mean} of {limit}, peak {max}."),
    limit=gettext_lazy("held {limit}"),
)
MEMORY = Chart(
    ("memory_mib",),
    gettext_lazy("Memory"),
    gettext_lazy("Peak {max} of {limit}, mean {mean}."),
    gettext_lazy("Peak of {count} tasks: {max} of {limit}, mean {mean}."),
    limit=gettext_lazy("held {limit}"),
)
NETWORK = Chart(
    ("net_rx_kib_s", "net_tx_kib_s"),
    gettext_lazy("Network"),
    gettext_lazy("Received: mean {mean}, peak {max}."),
    gettext_lazy("Received by each of {count} tasks: mean {mean}, peak {max}."),
    names=(gettext_lazy("received"), gettext_lazy("sent")),
)
JOB_CHARTS = (
    GPU_ACTIVITY,
    GPU_MEMORY,
    CPU,
    MEMORY,
    Chart(
        ("read_kib_s", "write_kib_s"),
        gettext_lazy("Disk"),
        gettext_lazy("Read: mean {mean}, peak {max}."),
        gettext_lazy("Read by each of {count} tasks: mean {mean}, peak {max}."),
        names=(gettext_lazy("read"), gettext_lazy("written")),
    ),
    NETWORK,
)
CARD_CHARTS = (
    GPU_ACTIVITY,
    replace(GPU_MEMORY, limit=gettext_lazy("card {limit}")),
    Chart(
        ("temperature_c",),
        gettext_lazy("Temperature"),
        gettext_lazy("Mean {mean}, hottest {max}."),
        gettext_lazy("Mean of {count}: {mean}, hottest {max}."),
    ),
    Chart(
        ("power_w",),
        gettext_lazy("Power"),
        gettext_lazy("Mean {mean}, peak {max}."),
        gettext_lazy("Mean of {count}: {mean}, peak {max}."),
    ),
)
CARD_COUNTER_CHARTS = (
    Chart(
        ("sm_percent", "tensor_percent", "dram_percent"),
        gettext_lazy("At work in the card"),
        gettext_lazy("Multiprocessors: mean {mean}, busiest {max}, measured {seen} of the time."),
        gettext_lazy("Multiprocessors of {count}: mean {mean}, busiest {max}."),
        names=(gettext_lazy("multiprocessors"), gettext_lazy("tensor cores"), gettext_lazy("memory bandwidth")),
        top=100,
    ),
    Chart(
        ("pcie_rx_kib_s", "pcie_tx_kib_s"),
        gettext_lazy("PCIe"),
        gettext_lazy("Received: mean {mean}, peak {max}."),
        gettext_lazy("Received by each of {count}: mean {mean}, peak {max}."),
        names=(gettext_lazy("received"), gettext_lazy("sent")),
    ),
    Chart(
        ("nvlink_rx_kib_s", "nvlink_tx_kib_s"),
        gettext_lazy("NVLink"),
        gettext_lazy("Received: mean {mean}, peak {max}."),
        gettext_lazy("Received by each of {count}: mean {mean}, peak {max}."),
        names=(gettext_lazy("received"), gettext_lazy("sent")),
    ),
    Chart(
        ("throttle_power_percent", "throttle_heat_percent", "throttle_brake_percent"),
        gettext_lazy("Clocks held down"),
        gettext_lazy("By the power limit: {mean} of the time, at most {max}."),
        gettext_lazy("By the power limit, of {count}: {mean} of the time, at most {max}."),
        names=(gettext_lazy("power limit"), gettext_lazy("heat"), gettext_lazy("power brake")),
        top=100,
    ),
)
"""A chart is there only where something of it is known."""
MACHINE_CHARTS = (
    *CARD_CHARTS,
    replace(CPU, limit=gettext_lazy("machine {limit}")),
    replace(MEMORY, limit=gettext_lazy("machine {limit}")),
    NETWORK,
)
POOL_CHARTS = (
    Chart(
        ("held_gpus", "active_gpus"),
        gettext_lazy("Cards held and active"),
        gettext_lazy("Held: mean {mean}, peak {max} of {limit}."),
        names=(gettext_lazy("held"), gettext_lazy("held and active")),
        limit=gettext_lazy("all cards: {limit}"),
        limit_metric="capacity_gpus",
        height=112,
    ),
)
TEAM_CHARTS = (
    replace(POOL_CHARTS[0], says=gettext_lazy("Held: mean {mean}, peak {max}."), limit="", limit_metric=""),
    Chart(
        ("idle_gpus", "unknown_gpus"),
        gettext_lazy("Cards held and idle"),
        gettext_lazy("Idle: mean {mean}, peak {max}, measured {seen} of the time."),
        names=(gettext_lazy("idle"), gettext_lazy("not known")),
    ),
)

SERVICE_CHARTS = (
    Chart(
        ("requests_per_s", "errors_per_s"),
        gettext_lazy("Requests per second"),
        gettext_lazy("Mean {mean}, peak {max}."),
        names=(gettext_lazy("requests"), gettext_lazy("errors")),
        height=112,
    ),
    Chart(
        ("p50_ms", "p95_ms"),
        gettext_lazy("Time to the first byte"),
        gettext_lazy("Median: {mean}, at most {max}."),
        names=(gettext_lazy("median"), gettext_lazy("p95")),
        sparse=True,
    ),
    Chart(("in_flight",), gettext_lazy("In flight"), gettext_lazy("Mean {mean}, peak {max}.")),
    Chart(
        ("ready_replicas", "replicas"),
        gettext_lazy("Replicas"),
        gettext_lazy("Ready: mean {mean}, at most {max}."),
        names=(gettext_lazy("ready"), gettext_lazy("all")),
    ),
)


def chart_card(uuid: str) -> ChartSet:
    """Return the curves of a card."""
    url = reverse("api-gpu-metrics", args=[uuid])
    return ChartSet(urls=[url], charts=(*CARD_CHARTS, *CARD_COUNTER_CHARTS), ranges=list_ranges(), watch=f"gpu-{uuid}")


def chart_machine(name: str) -> ChartSet:
    """Return the curves of a machine and its cards."""
    url = reverse("api-node-metrics", args=[name])
    return ChartSet(urls=[url], charts=MACHINE_CHARTS, ranges=list_ranges(), watch=f"node-{name}")


def chart_pools(names: Sequence[str]) -> ChartSet:
    """Return how many cards of pools are held and active, added up."""
    urls = [reverse("api-pool-metrics", args=[name]) for name in names]
    return ChartSet(urls=urls, charts=POOL_CHARTS, ranges=list_ranges(), version="pools", sums=True)


def chart_team(name: str) -> ChartSet:
    """Return how many cards a team holds, and what these do."""
    return ChartSet(urls=[reverse("api-team-metrics", args=[name])], charts=TEAM_CHARTS, ranges=list_ranges())


def chart_service(service_id: str, marks: Sequence[Mark]) -> ChartSet:
    """Return the curves of a service. marks: its revisions, oldest first; they begin anew with each further one."""
    return ChartSet(
        urls=[reverse("api-service-metrics", args=[service_id])],
        charts=SERVICE_CHARTS,
        ranges=list_ranges(),
        marks=marks,
        version=marks[-1].words,
    )


def list_ranges(begin: datetime | None = None, end: datetime | None = None) -> list[Range]:
    """Offer what is shorter than all that there is to see, and all of it. begin: None where that is not known."""
    if begin is None:
        return [Range(hours * HOUR_S, words, chosen=hours == 1) for hours, words in (HOURS | LONGER).items()]
    lasted_s = ((end or timezone.now()) - begin).total_seconds()
    shorter = [hours for hours in HOURS if hours * HOUR_S < lasted_s]
    chosen = 0 if end or len(shorter) < 2 else shorter[1]
    ranges = [Range(hours * HOUR_S, HOURS[hours], chosen=hours == chosen) for hours in shorter]
    return [*ranges, Range(0, gettext_lazy("All"), chosen=not chosen)] if ranges else []

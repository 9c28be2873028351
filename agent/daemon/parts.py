"""The daemon's parts as its options ask for them."""

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from agent import host
from agent.client import Platform
from agent.daemon.loop import Reporter
from agent.daemon.metrics_server import Exporter
from agent.daemon.options import LOOPBACK, read_token
from agent.daemon.report import build_report, observe_cards
from agent.daemon.sample_sender import SampleSender
from agent.gpu.cards import Cards
from agent.gpu.counters.dcgm import DcgmReader, DcgmWatch
from agent.gpu.counters.gpm import GpmReader, MeansReader
from agent.gpu.dcgm_fields import read_values
from agent.gpu.enforcement import Prober
from agent.gpu.meter import Meter
from agent.gpu.samples import take_samples
from agent.gpu.xid_errors import XidListener
from agent.health.checker import Checker, Places
from agent.kubelet.cdi import Keeper
from agent.kubelet.shares import ShareWatch
from agent.kubelet.slices import install_library, run_selftest
from agent.kubelet.watch import SliceWatch
from agent.logs.carrier import Carrier
from agent.periodic_thread import PeriodicThread
from agent.state import SeenCards, State
from agent.usage.machine import MachineReader
from agent.usage.task_pods import TaskPods
from agent.usage.task_reader import TaskReader


def make_report_builder(options: argparse.Namespace, prober: Prober) -> Callable[[Cards], dict[str, Any]]:
    """Return a function that makes the report of a reading of the cards."""

    def build(seen: Cards) -> dict[str, Any]:
        return build_report(
            seen,
            simulated=options.simulated,
            enforcement=None if options.simulated else prober.probe(seen),
            gpu_pin="plugin" if options.kubelet else "toolkit" if options.toolkit or options.fractions else "",
            cores=options.cores,
            metrics_port=find_metrics_port(options),
        )

    return build


def find_metrics_port(options: argparse.Namespace) -> int:
    """Return where others than this machine can ask for metrics; 0 if nowhere."""
    host_name, port = options.metrics or ("127.0.0.1", 0)
    return 0 if host_name in LOOPBACK else port


def build_prober(options: argparse.Namespace) -> Prober:
    """Build what finds out how slices are enforced here."""
    trial = partial(run_selftest, options.slice, options.state / "trial") if options.slice else None
    return Prober(hami=options.hami, fractions=options.fractions, trial=trial)


def build_reporter(
    options: argparse.Namespace, state: State, memory: SeenCards, prober: Prober, kubelet: Any | None
) -> Reporter:
    """Build what reports this machine. Raises ValueError."""

    def read_cards() -> Cards:
        seen = observe_cards(memory, str(options.sys))
        return kubelet.update(seen) if kubelet else seen

    return Reporter(
        Platform(options.server, options.ca),
        options.server,
        state,
        read_cards=read_cards,
        on_acknowledged=kubelet.acknowledge if kubelet else lambda seen: None,
        read_token=partial(read_token, options),
        build_report=None if options.no_cards else make_report_builder(options, prober),
    )


def build_kubelet_cards(options: argparse.Namespace, prober: Prober) -> Any | None:
    """Return DevicePlugins, imported late: only it needs gRPC. Raises ImportError."""
    if options.kubelet is None:
        return None
    cards = import_module("agent.kubelet.device_plugins").DevicePlugins
    home = install_library(options.slice, options.state / "slice", host.read_boot_id()) if options.slice else None
    vendor = [Path("/var/run/cdi"), Path("/etc/cdi")]
    places = options.state / "places.json"

    def keeper(seen: Cards) -> Keeper:
        """Use our library only if its trial succeeded."""
        mode = "" if options.simulated else prober.probe(seen).mode
        return Keeper(hami=options.hami, home=home if mode == "slice" else None)

    return cards(options.kubelet, options.cdi, places, vendor=vendor, keeper=keeper, simulated=options.simulated)


def build_share_watch(options: argparse.Namespace) -> ShareWatch | None:
    """Build what counts how much of the cards each task takes, where pods can be told apart."""
    if options.no_cards or options.pods is None:
        return None
    return ShareWatch(TaskPods(options.pods, options.install, options.cgroups).list_tasks)


def build_dcgm(options: argparse.Namespace) -> DcgmWatch | None:
    """Build what asks dcgm-exporter, where one is named."""
    return None if options.no_cards or options.dcgm is None else DcgmWatch(options.dcgm)


def build_means_reader(dcgm: DcgmWatch | None) -> MeansReader:
    """Build what tells how busy the parts of cards are: for one thread."""
    return GpmReader() if dcgm is None else DcgmReader(dcgm)


def build_exporter(shares: ShareWatch | None, errors: XidListener, dcgm: DcgmWatch | None) -> Exporter:
    """Build what tells Prometheus of this machine."""
    list_shares = shares.list_shares if shares is not None else list
    read = partial(read_values, build_means_reader(dcgm))
    return Exporter(list_shares, lambda: errors.last if errors.is_listening else None, read)


def build_meter(options: argparse.Namespace, shares: ShareWatch | None, dcgm: DcgmWatch | None) -> Meter:
    """Build what reads the cards, of which --no-cards wants none."""
    if options.no_cards:
        return Meter(host.read_boot_id(), look=list)
    list_tasks = shares.list_shares if shares is not None else list
    look = partial(take_samples, build_means_reader(dcgm))
    return Meter(host.read_boot_id(), simulated=options.simulated, look=look, list_tasks=list_tasks)


def build_task_reader(options: argparse.Namespace) -> Callable[[], list[dict[str, Any]]]:
    """Build what reads the use of tasks, where pods can be told apart."""
    if options.pods is None:
        return list
    return TaskReader(TaskPods(options.pods, options.install, options.cgroups)).read


def build_machine_reader(options: argparse.Namespace) -> MachineReader:
    """Build what reads the use of the machine and of the disks below all folders that are named."""
    named = (options.state, options.kubelet, options.pods, *options.disk)
    return MachineReader([path for path in named if path is not None], with_agent=True)


def build_checker(
    options: argparse.Namespace,
    platform: Platform,
    memory: SeenCards,
    shares: ShareWatch | None,
    errors: XidListener,
    dcgm: DcgmWatch | None,
) -> Checker:
    """Build what checks the health of the machine and its cards. Errors that nobody hears of here, dcgm may tell."""
    read_xids = dcgm.list_xids if dcgm is not None else lambda: None
    disks = [Path("/"), *(path for path in (options.kubelet, options.pods) if path is not None)]
    return Checker(
        Places(options.state, disks, options.homes, options.engine),
        list_expected=lambda: {card.uuid for card in memory.cards.values() if not card.part_of},
        read_xids=lambda: errors.counts if errors.is_listening else read_xids(),
        list_others=lambda: shares.list_others() if shares is not None else None,
        read_skew=lambda: platform.skew_s,
        dcgm=dcgm,
    )


def build_threads(
    options: argparse.Namespace,
    reporter: Reporter,
    memory: SeenCards,
    errors: XidListener,
    shares: ShareWatch | None = None,
    dcgm: DcgmWatch | None = None,
) -> list[PeriodicThread]:
    """Build what sends samples, checks, logs and uses of slices, as asked for. All use the reporter's identity."""
    tasks, meter = build_task_reader(options), build_meter(options, shares, dcgm)
    threads: list[PeriodicThread] = [thread for thread in (shares, dcgm) if thread is not None]
    platform = Platform(options.server, options.ca, keep=True)
    checker = None if options.no_cards else build_checker(options, platform, memory, shares, errors, dcgm)
    threads += [] if checker is None else [checker]
    threads.append(
        SampleSender(
            platform,
            lambda: reporter.identity,
            meter,
            read_tasks=tasks,
            read_machine=build_machine_reader(options).read,
            checker=checker,
        )
    )
    if options.pods is not None:
        platform = Platform(options.server, options.ca, keep=True)
        folder = options.state / "logs"
        threads.append(Carrier(platform, lambda: reporter.identity, options.pods, options.install, folder))
    if options.slice is not None and options.kubelet is not None:
        platform = Platform(options.server, options.ca, keep=True)
        home, control = options.state / "slice", options.slice / "slicectl"
        threads.append(SliceWatch(platform, lambda: reporter.identity, home, control, options.above))
    return threads

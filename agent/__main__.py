"""`python -m agent`: the daemon that reports this machine and its GPUs to the platform, over HTTP and NVML."""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from agent import host
from agent.client import Away, Platform, Refused
from agent.gpu.cards import Cards
from agent.gpu.enforcement import Prober
from agent.gpu.xid_errors import Errors
from agent.kubelet.cdi import Keeper
from agent.kubelet.slices import publish, try_out
from agent.kubelet.watch import SliceWatch
from agent.logs.carrier import Carrier
from agent.loop import NotEnrolled, Reporter, follow
from agent.report import VERSION, build_report, see
from agent.state import Memory, State

OK, USAGE, REFUSED, AWAY = 0, 2, 4, 6
STATE = "/var/lib/tessera-agent"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        state = State(options.state)
        memory = Memory(options.state, host.boot_id())
        if options.forget_faults:
            memory.forget_faults()
        prober = build_prober(options)
        if options.show:
            print(json.dumps(say(options, prober, see(memory)), indent=2))
            return OK
        kubelet = kubelet_cards(options, prober) if options.kubelet else None
        reporter = Reporter(
            Platform(options.server, options.ca),
            options.server,
            state,
            look=lambda: kubelet.show(see(memory)) if kubelet else see(memory),
            told=kubelet.told if kubelet else lambda seen: None,
            token=lambda: token_of(options),
            say=None if options.no_cards else lambda seen: say(options, prober, seen),
        )
        if options.once:
            return report_once(reporter)
        return run(reporter, memory, kubelet, carrier_of(options, reporter), watch_of(options, reporter))
    except (ImportError, OSError, ValueError) as error:
        print(f"The agent cannot begin: {error}", file=sys.stderr)
        return USAGE


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("agent", description="Report this machine and its GPUs to a Tessera platform.")
    parser.add_argument("--version", action="version", version=VERSION)
    server = os.environ.get("TESSERA_AGENT_SERVER", "")
    parser.add_argument("--server", default=server, help="its address, or TESSERA_AGENT_SERVER")
    parser.add_argument("--ca", help="a file of certificates to trust besides the system's")
    parser.add_argument(
        "--token-file", type=Path, help="an enrolment token, needed once; or TESSERA_AGENT_TOKEN in the environment"
    )
    folder = os.environ.get("TESSERA_AGENT_STATE", STATE)
    parser.add_argument("--state", type=Path, default=Path(folder), help=f"a folder for its key ({folder})")
    parser.add_argument("--simulated", action="store_true", help="what NVML tells here are no real cards")
    parser.add_argument(
        "--kubelet", type=Path, help="give the cards to the kubelet whose folder for device plugins this is"
    )
    parser.add_argument("--cdi", type=Path, default=Path("/etc/cdi"), help="where containers' devices are described")
    parser.add_argument("--hami", type=Path, help="libvgpu.so, which then holds slices to their memory")
    parser.add_argument(
        "--slice", type=Path, help="a folder with our own built library (make all hook), which then does so"
    )
    parser.add_argument(
        "--above", type=float, default=6.0, metavar="SECONDS", help="so long a task may be above its slice (6)"
    )
    parser.add_argument(
        "--toolkit", action="store_true", help="containers get cards by NVIDIA's toolkit and its NRI plugin instead"
    )
    parser.add_argument("--fractions", action="store_true", help="gpu-fractioning limits memory here (driver 615)")
    parser.add_argument(
        "--cores", choices=["", "balloons", "static"], default="", help="what keeps pods to their cores on this node"
    )
    parser.add_argument(
        "--pods", type=Path, help="bring what tasks write from here, the kubelet's folder of logs: /var/log/pods"
    )
    parser.add_argument("--install", default="tessera", help="TESSERA_INSTALL of the platform, for --pods (tessera)")
    parser.add_argument("--no-cards", action="store_true", help="report nothing of this machine: only bring logs")
    parser.add_argument("--once", action="store_true", help="report once and end")
    parser.add_argument("--show", action="store_true", help="print what would be reported, and end")
    parser.add_argument("--forget-faults", action="store_true", help="the cards that had errors were reset")
    options = parser.parse_args(arguments)
    if options.hami is not None and not options.hami.is_file():
        parser.error(f"there is no library {options.hami}")
    if options.slice is not None and not (options.slice / "slicehook").is_file():
        parser.error(f"there is no slicehook in {options.slice}: run make -C agent/slice all hook")
    if options.kubelet is not None and (options.toolkit or options.fractions):
        parser.error("cards are given either to the kubelet or by NVIDIA's toolkit: leave one out")
    if not options.server and not options.show:
        parser.error("name the platform: --server https://tessera.example.net")
    return options


def token_of(options: argparse.Namespace) -> str:
    if options.token_file is not None:
        try:
            return options.token_file.read_text().strip()
        except OSError:
            return ""
    return os.environ.get("TESSERA_AGENT_TOKEN", "").strip()


def report_once(reporter: Reporter) -> int:
    try:
        reporter.report()
    except Away as error:
        print(error, file=sys.stderr)
        return AWAY
    except (Refused, NotEnrolled) as error:
        print(error, file=sys.stderr)
        return REFUSED
    return OK


def carrier_of(options: argparse.Namespace, reporter: Reporter) -> Carrier | None:
    if options.pods is None:
        return None
    platform = Platform(options.server, options.ca, keep=True)
    return Carrier(platform, lambda: reporter.identity, options.pods, options.install, options.state / "logs")


def watch_of(options: argparse.Namespace, reporter: Reporter) -> SliceWatch | None:
    if options.slice is None or options.kubelet is None:
        return None
    platform = Platform(options.server, options.ca, keep=True)
    home, control = options.state / "slice", options.slice / "slicectl"
    return SliceWatch(platform, lambda: reporter.identity, home, control, options.above)


def run(reporter: Reporter, memory: Memory, kubelet: Any, carrier: Carrier | None, watch: SliceWatch | None) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    for part in filter(None, (kubelet, carrier, watch)):
        part.start()
    follow(reporter, Errors(memory.note_fault), stop)
    for part in filter(None, (watch, carrier, kubelet)):
        part.stop()
    return OK


def build_prober(options: argparse.Namespace) -> Prober:
    trial = partial(try_out, options.slice, options.state / "trial") if options.slice else None
    return Prober(hami=options.hami, fractions=options.fractions, trial=trial)


def say(options: argparse.Namespace, prober: Prober, seen: Cards) -> dict[str, Any]:
    return build_report(
        seen,
        simulated=options.simulated,
        enforcement=None if options.simulated else prober.probe(seen),
        gpu_pin="plugin" if options.kubelet else "toolkit" if options.toolkit or options.fractions else "",
        cores=options.cores,
    )


def kubelet_cards(options: argparse.Namespace, prober: Prober) -> Any:
    """Return KubeletCards, imported late: only it needs gRPC. Raises ImportError."""
    cards = import_module("agent.kubelet.node").KubeletCards
    home = publish(options.slice, options.state / "slice", host.boot_id()) if options.slice else None
    vendor = [Path("/var/run/cdi"), Path("/etc/cdi")]
    places = options.state / "places.json"

    def keeper(seen: Cards) -> Keeper:
        """Use our library only if its trial succeeded."""
        mode = "" if options.simulated else prober.probe(seen).mode
        return Keeper(hami=options.hami, home=home if mode == "slice" else None)

    return cards(options.kubelet, options.cdi, places, vendor=vendor, keeper=keeper, simulated=options.simulated)


if __name__ == "__main__":
    sys.exit(main())

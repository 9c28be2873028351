"""`python -m agent`: the daemon that reports this machine and its GPUs to the platform, over HTTP and NVML."""

import argparse
import json
import logging
import signal
import sys
import threading
from collections.abc import Sequence

from agent import host
from agent.client import PlatformUnavailable, Refused
from agent.daemon.loop import NotEnrolled, Reporter, run_report_loop
from agent.daemon.metrics_server import serve_metrics
from agent.daemon.options import parse_arguments
from agent.daemon.parts import (
    build_dcgm,
    build_exporter,
    build_kubelet_cards,
    build_prober,
    build_reporter,
    build_share_watch,
    build_threads,
    make_report_builder,
)
from agent.daemon.report import observe_cards
from agent.gpu.xid_errors import XidListener
from agent.periodic_thread import PeriodicThread
from agent.state import SeenCards, State

OK, USAGE, REFUSED, UNAVAILABLE = 0, 2, 4, 6


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        return run_agent(options)
    except (ImportError, OSError, ValueError) as error:
        print(f"The agent cannot begin: {error}", file=sys.stderr)
        return USAGE


def run_agent(options: argparse.Namespace) -> int:
    """Show, report once, or report until a signal; return the exit status. Raises ImportError, OSError, ValueError."""
    # 1. Read which cards this machine had since its boot.
    state = State(options.state)
    memory = SeenCards(options.state, host.read_boot_id())
    if options.forget_faults:
        memory.forget_faults()
    # 2. Only show the report, if that is asked for.
    prober = build_prober(options)
    if options.show:
        print(json.dumps(make_report_builder(options, prober)(observe_cards(memory, str(options.sys))), indent=2))
        return OK
    # 3. Build what reports, and what gives the cards to the kubelet.
    kubelet = build_kubelet_cards(options, prober)
    reporter = build_reporter(options, state, memory, prober, kubelet)
    if options.once:
        return report_once(reporter)
    # 4. Run it, beside the threads of kubelet, samples, logs and slices, and what Prometheus asks.
    shares, errors, dcgm = build_share_watch(options), XidListener(memory.record_fault), build_dcgm(options)
    threads = [*([kubelet] if kubelet else []), *build_threads(options, reporter, memory, errors, shares, dcgm)]
    if options.metrics is not None:
        address, port = options.metrics
        serve_metrics(address, port, build_exporter(shares, errors, dcgm).render)
    return run_daemon(reporter, errors, threads)


def report_once(reporter: Reporter) -> int:
    try:
        reporter.report()
    except PlatformUnavailable as error:
        print(error, file=sys.stderr)
        return UNAVAILABLE
    except (Refused, NotEnrolled) as error:
        print(error, file=sys.stderr)
        return REFUSED
    return OK


def run_daemon(reporter: Reporter, errors: XidListener, threads: Sequence[PeriodicThread]) -> int:
    """Report until SIGTERM or SIGINT, beside the threads."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    for thread in threads:
        thread.start()
    run_report_loop(reporter, errors, stop)
    for thread in reversed(threads):
        thread.stop()
    return OK


if __name__ == "__main__":
    sys.exit(main())

"""The agent's command line and its enrolment token."""

import argparse
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from agent.daemon.report import VERSION

STATE = "/var/lib/tessera-agent"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
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
    parser.add_argument(
        "--cgroups",
        type=Path,
        default=Path("/sys/fs/cgroup"),
        metavar="DIR",
        help="where the host's control groups are, for what tasks of --pods use (/sys/fs/cgroup)",
    )
    parser.add_argument(
        "--sys",
        type=Path,
        default=Path("/sys"),
        metavar="DIR",
        help="where the kernel tells of cards' and RDMA adapters' places (/sys)",
    )
    parser.add_argument(
        "--disk",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="tell how full the disk is that this lies on, besides those of --state, --kubelet and --pods; repeatable",
    )
    parser.add_argument(
        "--homes",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="check that a file system other than the machine's own is mounted here, as homes are; repeatable",
    )
    parser.add_argument(
        "--engine",
        type=Path,
        metavar="SOCKET",
        help="check that the container engine answers here: /run/containerd/containerd.sock",
    )
    parser.add_argument(
        "--no-cards", action="store_true", help="report no cards: only bring logs, and what tasks and machine use"
    )
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", type=read_address, help="tell Prometheus of the cards: 127.0.0.1:9400"
    )
    parser.add_argument(
        "--dcgm",
        metavar="URL",
        help="read what NVIDIA's dcgm-exporter tells of the cards, not NVML's profiling: http://127.0.0.1:9400/metrics",
    )
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
    if options.dcgm is not None and not is_metrics_url(options.dcgm):
        parser.error(f"--dcgm is the address of metrics, http://127.0.0.1:9400/metrics, not {options.dcgm}")
    if options.dcgm is not None and options.metrics is not None and is_same_port(options.dcgm, options.metrics[1]):
        port = options.metrics[1]
        parser.error(f"dcgm-exporter has port {port} already: give --metrics another, such as 127.0.0.1:{port + 1}")
    if not options.server and not options.show:
        parser.error("name the platform: --server https://tessera.example.net")
    return options


def read_address(text: str) -> tuple[str, int]:
    """Read `host:port`. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_metrics_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.username
    except ValueError:
        return False


def is_same_port(url: str, port: int) -> bool:
    """Return whether an address is that port of this machine."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return (parts.port or default) == port and parts.hostname in {*LOOPBACK, socket.gethostname()}


def read_token(options: argparse.Namespace) -> str:
    """Return the enrolment token of the file or the environment; "" without one."""
    if options.token_file is not None:
        try:
            return options.token_file.read_text().strip()
        except OSError:
            return ""
    return os.environ.get("TESSERA_AGENT_TOKEN", "").strip()

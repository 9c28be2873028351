"""Record host settings before changing them, and restore them.

`before.json` (sysctls, iptables chains, folders) stays until all is restored.
"""

import json
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

from dev.cluster.paths import BEFORE, ClusterPaths, write
from dev.cluster.processes import is_alive, kill, poll_until

SYSCTL = Path("/proc/sys")
# The first two are set here, the others by kubelet (setupKernelTunables) or kube-proxy.
SETTINGS = (
    "net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "kernel.panic", "kernel.panic_on_oops",
    "kernel.keys.root_maxbytes", "kernel.keys.root_maxkeys", "vm.overcommit_memory", "vm.panic_on_oom",
    "net.ipv4.conf.all.route_localnet",
)  # fmt: skip
# Paths fixed in kubelet, containerd and CNI plugins, in order of removal.
FOLDERS = (
    "/var/lib/kubelet", "/var/log/containers", "/var/log/pods", "/var/lib/cni", "/run/containerd", "/run/nri",
    "/run/netns", "/run/kubernetes", "/run/xtables.lock", "/etc/cni", "/opt/cni", "/opt/containerd",
    "/usr/libexec/kubernetes",
)  # fmt: skip
TABLES = ("iptables", "ip6tables")
OURS = re.compile(r"(KUBE|CNI)-")
POD_GROUPS = "kubepods"


def record_host(paths: ClusterPaths) -> None:
    """Record the host's state unless that is done."""
    path = paths.state / BEFORE
    if path.exists():
        return
    before = {
        "boot": read_boot_id(),
        "settings": {name: value for name in SETTINGS if (value := read_sysctl(name)) is not None},
        "chains": {tool: sorted(find_chains(read_rules(tool))) for tool in TABLES},
        "folders": [folder for folder in FOLDERS if Path(folder).exists()],
    }
    write(path, json.dumps(before, indent=1))


def load_recorded_host(paths: ClusterPaths) -> dict | None:
    """Load the recorded state, if any."""
    path = paths.state / BEFORE
    return json.loads(path.read_text()) if path.exists() else None


def restore_host(before: dict) -> None:
    """Restore firewall and sysctls, unless rebooted; remove new folders."""
    if before["boot"] == read_boot_id():
        for tool in TABLES:
            remove_chains(tool, {(table, name) for table, name in before["chains"][tool]})
        for name, value in before["settings"].items():
            set_sysctl(name, value)
    for folder in map(Path, FOLDERS):
        if str(folder) not in before["folders"] and folder.exists():
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()


def kill_pods() -> None:
    """Kill pods by cgroup, without a container runtime."""
    top = Path("/sys/fs/cgroup")
    tops = [*top.glob(POD_GROUPS), *top.glob(f"*/{POD_GROUPS}")]  # cgroup v2, and v1's controllers
    groups = [group for top in tops for group in [top, *(path for path in top.rglob("*") if path.is_dir())]]
    kill({pid for group in groups for pid in list_cgroup_processes(group)})
    for group in sorted(groups, key=lambda group: len(group.parts), reverse=True):
        poll_until(partial(remove_cgroup, group), 5)


def unmount_below(folder: Path) -> None:
    """Unmount lazily, innermost first."""
    for point in sorted(list_mounts(folder), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)


def list_mounts(folder: Path) -> list[str]:
    lines = Path("/proc/mounts").read_text().splitlines()
    points = (line.split()[1].encode().decode("unicode_escape") for line in lines)
    return [point for point in points if Path(point).is_relative_to(folder)]


def remove_bridge(bridge: str) -> None:
    """Remove the bridge and its ports."""
    ports = [path.name for path in Path(f"/sys/class/net/{bridge}/brif").glob("*")]
    for link in [*ports, bridge]:
        subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)


def remove_chains(tool: str, kept: set[tuple[str, str]]) -> None:
    """Remove Kubernetes' and CNI's chains but `kept`."""
    rules = read_rules(tool)
    if script := build_removal(rules, find_chains(rules) - kept):
        subprocess.run([f"{tool}-restore", "--noflush"], input="\n".join(script) + "\n", text=True, check=True)


def find_chains(rules: list[str]) -> set[tuple[str, str]]:
    """Return (table, chain) of Kubernetes and CNI."""
    table, chains = "", set()
    for line in rules:
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":") and OURS.match(line[1:]):
            chains.add((table, line[1:].split()[0]))
    return chains


def build_removal(rules: list[str], chains: set[tuple[str, str]]) -> list[str]:
    """Return iptables-restore input that removes jumps, rules and chains."""
    script: list[str] = []
    leading: dict[str, list[str]] = {table: [] for table, _ in sorted(chains)}
    table = ""
    for line in rules:
        table = line[1:] if line.startswith("*") else table
        words = line.split()
        if (
            line.startswith("-A ")
            and (table, words[1]) not in chains
            and any((table, word) in chains for word in words)
        ):
            leading[table].append("-D" + line[2:])
    for table, lines in leading.items():
        names = sorted(name for other, name in chains if other == table)
        script += [f"*{table}", *lines, *(f"-F {name}" for name in names), *(f"-X {name}" for name in names), "COMMIT"]
    return script


def read_rules(tool: str) -> list[str]:
    done = subprocess.run([f"{tool}-save"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def read_sysctl(name: str) -> str | None:
    path = SYSCTL / name.replace(".", "/")
    return path.read_text().strip() if path.exists() else None


def set_sysctl(name: str, value: str) -> None:
    """Write if different; some are read-only."""
    if read_sysctl(name) not in (None, value):
        (SYSCTL / name.replace(".", "/")).write_text(value)


def read_boot_id() -> str:
    return (SYSCTL / "kernel/random/boot_id").read_text().strip()


def list_cgroup_processes(group: Path) -> list[int]:
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split() if is_alive(int(pid))]
    except OSError:
        return []


def remove_cgroup(group: Path) -> bool:
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True

"""Check the host and install missing Debian packages."""

import os
import shutil
import subprocess
from pathlib import Path

from dev.cluster.paths import Refusal, report

# program or file: Debian package
TO_RUN = {"ip": "iproute2", "iptables": "iptables", "openssl": "openssl", "mount": "mount", "setsid": "util-linux"}
TO_BUILD = {
    "gcc": "gcc",
    "pkg-config": "pkg-config",
    "/usr/include/stdio.h": "libc6-dev",
    "/usr/include/seccomp.h": "libseccomp-dev",
    "debootstrap": "debootstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/var/lib/dpkg/info/busybox-static.list": "busybox-static",  # busybox itself links libraries
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
}
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


def check_machine() -> None:
    """Raise Refusal with a remedy if a cluster cannot run."""
    if os.geteuid() != 0:
        raise Refusal(
            "A node needs root: it makes bridges, mounts and control groups.\n  Run this as root, or with sudo."
        )
    if missing := [name for name in CONTROLLERS if name not in list_controllers()]:
        raise Refusal(
            f"The control groups {', '.join(missing)} are missing below /sys/fs/cgroup, and a kubelet needs them.\n"
            "  In a container: start it privileged, with the host's control groups."
        )


def install(needs: dict[str, str]) -> None:
    """Install missing packages. Raise Refusal if apt fails."""
    missing = [package for name, package in needs.items() if not shutil.which(name) and not Path(name).exists()]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise Refusal(
            f"These are missing, by Debian's names: {' '.join(missing)}.\n  Install them; there is no apt-get here."
        )
    report(f"Installing with apt: {' '.join(missing)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install_them = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing]
    for command in (["apt-get", "update", "-qq"], install_them):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Refusal(f"apt could not install {' '.join(missing)}:\n  {done.stderr.strip()}")


def list_controllers() -> set[str]:
    """List cgroup controllers, v1 or v2."""
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    if unified.exists():
        return set(unified.read_text().split())
    return {path.name for path in Path("/sys/fs/cgroup").glob("*")}

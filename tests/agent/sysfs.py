"""A tree of /sys with cards and RDMA adapters, for the agent's `--sys`."""

from pathlib import Path


def add_pci(root: Path, *bridges: str, numa: int = -1) -> Path:
    """Make a device at the end of its bridges, as ("pci0000:16", "0000:16:01.0", "0000:17:00.0"); return its folder."""
    folder = root / "devices" / Path(*bridges)
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    named = root / "bus/pci/devices" / bridges[-1]
    named.parent.mkdir(parents=True, exist_ok=True)
    named.symlink_to(folder)
    return folder


def add_hca(root: Path, name: str, device: Path, *, state: str = "4: ACTIVE", link: str = "InfiniBand") -> None:
    """Make the adapter of a PCI device, with one port and its device `uverbsN`, N as in its name."""
    port = root / "class/infiniband" / name / "ports/1"
    port.mkdir(parents=True)
    (port.parent.parent / "device").symlink_to(device)
    for what, text in {"state": state, "link_layer": link, "rate": "400 Gb/sec (4X NDR)"}.items():
        (port / what).write_text(f"{text}\n")
    verbs = root / "class/infiniband_verbs" / f"uverbs{name[-1]}"
    verbs.mkdir(parents=True)
    (verbs / "ibdev").write_text(f"{name}\n")
    (root / "class/misc/rdma_cm").mkdir(parents=True, exist_ok=True)

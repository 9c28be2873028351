"""The CDI spec of cards and slices; the driver's files come from NVIDIA's own. Source: CNCF CDI 0.6."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.gpu.cards import Card
from agent.rdma import Hca

VENDOR, KIND = "nvidia.com/gpu", "tessera.sh/gpu"
SLICE, NONE, RDMA = "slice", "none", "rdma"
"""CDI devices besides the cards: what a slice adds, what a program without cards gets, and all RDMA adapters."""
FILE = "tessera.json"
PRELOAD = "/usr/local/vgpu/libvgpu.so"
"""Path of HAMi-core in a container."""
LOCK = Path("/tmp/vgpulock")
HOOK = "slicehook"
HOOK_S = 60
"""Seconds; it searches the whole image for copies of the driver's library."""


@dataclass(frozen=True)
class Keeper:
    """What limits slices. hami: libvgpu.so. home: our library and hook on the host. context_bytes: a context's cost."""

    hami: Path | None = None
    home: Path | None = None
    context_bytes: int = 0


NOTHING = Keeper()


def write_spec(
    folder: Path, cards: Iterable[Card], keeper: Keeper, hcas: Iterable[Hca] = (), *, simulated: bool = False
) -> Path:
    """Write the spec, atomically, as runtimes may read it any time. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    preload = folder / "tessera-ld.so.preload"
    if keeper.hami is not None:
        _replace(preload, f"{PRELOAD}\n")
        LOCK.mkdir(exist_ok=True)
        LOCK.chmod(0o1777)  # all accounts lock a file there
    _replace(folder / FILE, json.dumps(build_spec(cards, keeper, preload, rdma=_rdma_edits(hcas, simulated)), indent=2))
    return folder / FILE


def build_spec(
    cards: Iterable[Card], keeper: Keeper, preload: Path, rdma: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a device per card uuid, one for slices, one for none, one for RDMA adapters where there are any."""
    devices = [{"name": card.uuid, "containerEdits": {"env": _env(card)}} for card in cards]
    devices.append({"name": SLICE, "containerEdits": _slice_edits(keeper, preload)})
    devices.append({"name": NONE, "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}})
    if rdma:
        devices.append({"name": RDMA, "containerEdits": dict(rdma)})
    return {"cdiVersion": "0.6.0", "kind": KIND, "devices": devices}


def _rdma_edits(hcas: Iterable[Hca], simulated: bool) -> dict[str, Any]:
    """Return the adapters' devices. simulated: an empty device stands for each."""
    names = sorted({name for hca in hcas if hca.active for name in hca.devices})
    nodes = [{"path": f"/dev/infiniband/{name}"} for name in names]
    return {"deviceNodes": [node | {"hostPath": "/dev/null"} if simulated else node for node in nodes]} if nodes else {}


def _slice_edits(keeper: Keeper, preload: Path) -> dict[str, Any]:
    if keeper.hami is not None:
        mounts = [_mount(keeper.hami, PRELOAD), _mount(preload, "/etc/ld.so.preload")]
        shared = {**_mount(LOCK, str(LOCK)), "options": ["rw", "nosuid", "nodev", "bind"]}
        return {"env": ["TESSERA_SLICE_BY=hami"], "mounts": [*mounts, shared]}
    if keeper.home is not None:
        enter = _hook("createContainer", keeper.home, "enter", str(keeper.context_bytes))
        return {"env": ["TESSERA_SLICE_BY=slice"], "hooks": [enter, _hook("poststop", keeper.home, "leave")]}
    return {"env": ["TESSERA_SLICE_BY=watchdog"]}


def _hook(when: str, home: Path, verb: str, *words: str) -> dict[str, Any]:
    return {"hookName": when, "path": str(home / HOOK), "args": [HOOK, verb, str(home), *words], "timeout": HOOK_S}


def list_device_names(card: Card, *, whole: bool, real: bool) -> list[str]:
    names = [f"{VENDOR}={card.uuid}"] if real else []
    return [*names, f"{KIND}={card.uuid}", *([] if whole else [f"{KIND}={SLICE}"])]


def read_vendor(folders: Iterable[Path]) -> str:
    """Return the text of NVIDIA's specs in these folders, or ""."""
    specs = (path for folder in folders for path in folder.glob("*") if path.suffix in (".json", ".yaml", ".yml"))
    texts = (path.read_text(errors="replace") for path in specs if path.name != FILE)
    return "".join(text for text in texts if VENDOR in text)


def _env(card: Card) -> list[str]:
    """Return a card's variables: void makes NVIDIA's runtime add none; a name per card avoids overwriting."""
    return ["NVIDIA_VISIBLE_DEVICES=void", f"TESSERA_GPU_{card.index}={card.uuid}"]


def _mount(source: Path | None, target: str) -> dict[str, Any]:
    return {"hostPath": str(source), "containerPath": target, "options": ["ro", "nosuid", "nodev", "bind"]}


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    os.chmod(fresh, 0o644)
    os.replace(fresh, path)

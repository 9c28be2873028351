"""What a container gets with a card, as a CDI spec: the runtime looks the names up that the device plugin answers.

The driver's files and device nodes are NVIDIA's affair: their container toolkit writes a spec of its own
(`nvidia-ctk cdi generate`), and a real card is answered by its name there, too. Ours says which cards they are, and
holds what keeps a slice to its limit. Source: CNCF Container Device Interface, 0.6.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.cards import Card

VENDOR, KIND = "nvidia.com/gpu", "tessera.sh/gpu"
SLICE, NONE = "slice", "none"
"""The devices beside those of the cards: what a slice gets besides, and what a program without any card gets."""
FILE = "tessera.json"
PRELOAD = "/usr/local/vgpu/libvgpu.so"
"""Where HAMi-core lies in a container."""


def write_spec(folder: Path, cards: Iterable[Card], *, hami: Path | None = None) -> Path:
    """Replaced as a whole, since a runtime may read it at any moment. hami: libvgpu.so, given by the admin. Raises
    OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    preload = folder / "tessera-ld.so.preload"
    if hami is not None:
        _replace(preload, f"{PRELOAD}\n")
    _replace(folder / FILE, json.dumps(build_spec(cards, hami=hami, preload=preload), indent=2))
    return folder / FILE


def build_spec(cards: Iterable[Card], *, hami: Path | None = None, preload: Path | None = None) -> dict[str, Any]:
    """A device for each card by its uuid, one for slices, and one for nothing."""
    devices = [{"name": card.uuid, "containerEdits": {"env": _env(card)}} for card in cards]
    mounts = [] if hami is None else [_mount(hami, PRELOAD), _mount(preload, "/etc/ld.so.preload")]
    told = {"env": [f"TESSERA_SLICE_BY={'hami' if mounts else 'watchdog'}"], "mounts": mounts}
    devices.append({"name": SLICE, "containerEdits": {name: edits for name, edits in told.items() if edits}})
    devices.append({"name": NONE, "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}})
    return {"cdiVersion": "0.6.0", "kind": KIND, "devices": devices}


def names_of(card: Card, *, whole: bool, real: bool) -> list[str]:
    """The CDI names that a container with this card gets."""
    names = [f"{VENDOR}={card.uuid}"] if real else []
    return [*names, f"{KIND}={card.uuid}", *([] if whole else [f"{KIND}={SLICE}"])]


def knows_vendor(folders: Iterable[Path]) -> bool:
    """Whether a spec of NVIDIA's toolkit lies in one of these."""
    specs = (path for folder in folders for path in folder.glob("*") if path.suffix in (".json", ".yaml", ".yml"))
    return any(path.name != FILE and VENDOR in path.read_text(errors="replace") for path in specs)


def _env(card: Card) -> list[str]:
    """void: whatever else the runtime does by this variable, it adds no card. One name for each card: two that are
    given to one container do not overwrite each other.
    """
    return ["NVIDIA_VISIBLE_DEVICES=void", f"TESSERA_GPU_{card.index}={card.uuid}"]


def _mount(source: Path | None, target: str) -> dict[str, Any]:
    return {"hostPath": str(source), "containerPath": target, "options": ["ro", "nosuid", "nodev", "bind"]}


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    os.chmod(fresh, 0o644)
    os.replace(fresh, path)

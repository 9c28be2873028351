"""The doubled driver where jobs of every account reach it, and a program of its own that asks it. No GPU is needed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtimes import slice_library
from runtimes.gpu_sharing import ProbeFacts, choose_mode
from runtimes.local import plan
from runtimes.local.node import cards_and_numa
from runtimes.local.node.cards_and_numa import NodeCards
from runtimes.local.node.simulated_cards import simulate_cards
from tests.agent_slice import CARDS, NO_COMPILER, build_library_once, build_once

UUID = CARDS[0]
VERSION = "580.95.05"


@dataclass
class DoubledDriver:
    """library: of ours, as bin/start builds it. driver: the folder of the doubles. program: see agent/slice/tests."""

    root: Path
    library: Path
    driver: Path
    program: Path


@contextmanager
def doubled_driver(*, library: bool = True) -> Iterator[DoubledDriver]:
    """library: whether ours is built as well. Skips where nothing can be built."""
    if not slice_library.can_build():
        pytest.skip(NO_COMPILER)
    root = Path(tempfile.mkdtemp(prefix="tessera-doubled-", dir="/var/tmp"))
    root.chmod(0o755)
    try:
        built = build_once()
        shutil.copytree(built.driver, root / "driver")
        shutil.copy(built.program, root / "program")
        if library:
            shutil.copytree(build_library_once(), root / "library")
        yield DoubledDriver(root, root / "library", root / "driver", root / "program")
    finally:
        shutil.rmtree(root)


def have_doubled_card(doubled: DoubledDriver, monkeypatch, tmp_path: Path) -> None:
    """This machine has one card, by the doubled driver."""
    monkeypatch.setattr(cards_and_numa, "read_real_cards", read_doubled_cards)
    use_nvml(monkeypatch, tmp_path, "calm_nvml.py.txt")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(doubled.driver))  # of the platform: where its loader finds the driver


def use_nvml(monkeypatch, tmp_path: Path, name: str) -> None:
    """Of those who watch: a module of this directory stands where pynvml stands."""
    shutil.copy(Path(__file__).parent / name, tmp_path / "pynvml.py")
    monkeypatch.setattr(plan, "pynvml", SimpleNamespace(__file__=str(tmp_path / "pynvml.py")))


def read_doubled_cards(libvgpu, test_slice):
    """What NVML would tell of the doubled card; its mode is whatever the probe finds on it."""
    mode, evidence = choose_mode(ProbeFacts(VERSION, None, False, test_slice(VERSION, UUID)))
    (card,) = simulate_cards("1xV100-32GB", "here").gpus
    card = replace(card, uuid=UUID, simulated=False, mode=mode, evidence=evidence)
    return NodeCards((card,), (("X",),), (("X",),), VERSION)

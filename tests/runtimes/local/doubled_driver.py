"""The doubled driver where jobs of every account reach it, and a program of its own that asks it. No GPU is needed."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from agent_slice import CARDS, Built

from runtimes import slice_library
from runtimes.gpu_sharing import ProbeFacts, choose_mode
from runtimes.local.profiles import simulate

UUID = CARDS[0]
VERSION = "580.95.05"


@dataclass
class DoubledDriver:
    """library: of ours, as bin/start builds it. driver: the folder of the doubles. program: see agent/slice/tests."""

    root: Path
    library: Path
    driver: Path
    program: Path


def build_doubled_driver(*, library: bool = True) -> DoubledDriver:
    """library: whether ours is built as well. The caller removes `root`."""
    root = Path(tempfile.mkdtemp(prefix="tessera-doubled-"))
    root.chmod(0o755)
    built = Built(root / "built").build()
    if library:
        slice_library.build(root / "library")
    return DoubledDriver(root, root / "library", built.driver, built.program)


def list_doubled_gpus(libvgpu, try_slice):
    """What NVML would tell of the doubled card; its mode is whatever the probe finds on it."""
    mode, evidence = choose_mode(ProbeFacts(VERSION, None, False, try_slice(VERSION, UUID)))
    (card,) = simulate("1xV100-32GB", "here").gpus
    return (replace(card, uuid=UUID, simulated=False, mode=mode, evidence=evidence),), (("X",),), VERSION

"""Puts the double of NVIDIA's MPS where a test wants it."""

import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("double_mps.py.txt")


class DoubledMps:
    """program: nvidia-cuda-mps-control in a folder of its own."""

    def __init__(self, folder: Path):
        folder.mkdir(mode=0o755, parents=True)
        folder.chmod(0o755)
        self.folder = folder
        for name in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
            (folder / name).write_text(f"#!{sys.executable} -IS\n{SOURCE.read_text()}")
            (folder / name).chmod(0o755)

    @property
    def program(self) -> str:
        return str(self.folder / "nvidia-cuda-mps-control")

    def behave(self, how: str) -> None:
        (self.folder / "behaviour").write_text(how)

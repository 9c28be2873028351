"""A machine whose tasks all run in an image that is made here."""

import os
from pathlib import Path

import pytest

from runtimes.contract.task import TaskSpec
from tests.runtimes.local.image_files import build_python_layer, build_shell_layer, load_image
from tests.runtimes.worlds import UID, LocalWorld, World

IMAGE = "localhost/box:1"
REQUIRED = "TESSERA_REQUIRE_PODMAN"


class ImageWorld(LocalWorld):
    """Tasks tell that they begin by a line in the home of their person: of the machine they see nothing else."""

    def __init__(self, **options):
        super().__init__(**options)
        skip_without_images(self.runtime.machine.images.words)
        layers = [build_shell_layer(), build_python_layer()]
        load_image(self.runtime.config.images_dir, "box", layers, ["GREETING=hello", "LD_PRELOAD=/evil.so"])

    def spec(self, run: str, **fields) -> TaskSpec:
        return World.spec(self, f"echo $TESSERA_TASK >> $HOME/seen; {run}", **{"image": IMAGE} | fields)

    def runs(self, uuid: str) -> int:
        seen = Path(self.runtime.config.areas_dir) / "home" / str(UID) / "seen"
        return seen.read_text().split().count(uuid) if seen.exists() else 0


def skip_without_images(words: str) -> None:
    """Skip where this machine runs no images, unless the check demands that it does."""
    if words and os.environ.get(REQUIRED) != "1":
        pytest.skip(f"NO IMAGES HERE: {words}")
    assert not words, words


@pytest.fixture(scope="module")
def image_world():
    world = ImageWorld(networks=True)
    yield world
    world.close()

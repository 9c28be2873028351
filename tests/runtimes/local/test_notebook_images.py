"""A notebook from an image with JupyterLab, on one machine: what it shows comes through the task's port."""

import asyncio
import json
from pathlib import Path

import pytest

from notebooks.job_spec import COMMAND, EMPTY_PAGE, FIRST, JUPYTER_PORT, TABS
from runtimes.contract.errors import Unavailable
from tests.runtimes.contract.access_suite import free_port, output, running
from tests.runtimes.local.image_files import (
    build_folder_layer,
    build_layer,
    build_python_layer,
    build_shell_layer,
    collect_libraries,
    collect_programs,
    load_image,
)
from tests.runtimes.local.image_world import ImageWorld
from tests.shared_environment import prepare_shared_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TOKEN = "a-token-of-this-test"
RUN = COMMAND.format(folder="work", port=JUPYTER_PORT, first=FIRST, tabs=TABS, empty=json.dumps(EMPTY_PAGE))


@pytest.fixture(scope="module")
def world():
    world = ImageWorld()
    layers = [build_shell_layer(), build_python_layer(), *build_jupyter_layers(prepare_shared_environment())]
    load_image(world.runtime.config.images_dir, "jupyter", layers)
    yield world
    world.close()


def build_jupyter_layers(environment: Path) -> list[bytes]:
    """Layers with JupyterLab as pip installs it for Debian's Python, and with what its wheels load."""
    (packages,) = environment.glob("lib/python3.*/site-packages")
    libraries: dict = {}
    for extension in packages.rglob("*.so"):
        libraries |= collect_libraries(str(extension))
    own = str(environment).lstrip("/")  # what a wheel brings itself comes with it
    libraries = {path: data for path, data in libraries.items() if not path.startswith(own)}
    return [
        build_layer(collect_programs(["mktemp"]) | libraries),
        build_folder_layer(packages, f"usr/local/lib/{packages.parent.name}/dist-packages"),
        build_folder_layer(environment / "share/jupyter", "usr/local/share/jupyter"),
    ]


async def ask(world, uuid: str, port: int, method: str, path: str) -> tuple[int, bytes]:
    for _ in range(300):
        try:
            connected = await world.access().dial(uuid, port)
            break
        except (ConnectionRefusedError, Unavailable):
            await asyncio.sleep(0.2)
    else:
        raise AssertionError(world.log(uuid))
    reader, writer = await asyncio.open_connection(sock=connected)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: token {TOKEN}\r\nContent-Length: 0\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


async def test_jupyterlab_of_an_image_serves_its_page_and_runs_a_kernel(world):
    port = free_port()
    env = {"TESSERA_UPSTREAM_TOKEN": TOKEN}
    uuid = await running(
        world, RUN, image="localhost/jupyter:1", port_map={JUPYTER_PORT: port}, platform_env=env, memory_mib=2048
    )
    assert (await ask(world, uuid, port, "GET", "/api/status"))[0] == 200
    made, kernel = await ask(world, uuid, port, "POST", "/api/kernels")
    assert made == 201 and json.loads(kernel)["name"] == "python3"
    assert "Untitled.ipynb" in await output(world, uuid, "ls $HOME/work")
    world.runtime.stop(uuid, 5, epoch=5)
    assert (await asyncio.to_thread(world.until, uuid, "exited")).cause == "stopped"


def test_an_image_without_jupyterlab_is_told_of(world):
    view = world.run(RUN, port_map={JUPYTER_PORT: free_port()})
    assert view.exit_code == 3 and "Choose an image that brings it" in world.log(view.uuid)

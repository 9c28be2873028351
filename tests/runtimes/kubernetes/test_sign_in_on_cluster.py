"""Credentials of a kubeconfig's program that expire while we watch, start and enter: nothing of it ends."""

import asyncio
import time

import pytest

from runtimes.kubernetes.watch.reflectors import ClusterView
from tests.runtimes.kubernetes.signed_in import WAYS
from tests.runtimes.kubernetes.world import KubernetesWorld, wait_slowly

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300, func_only=True), pytest.mark.begins_first]
BESIDE_OTHERS = True
LIVES_S = 14


@pytest.mark.parametrize("way", WAYS)
def test_a_view_tasks_and_sessions_outlive_credentials(own_cluster, tmp_path, way):
    with WAYS[way](own_cluster, LIVES_S, tmp_path) as signed_in:
        world = KubernetesWorld(signed_in.kubeconfig)
        try:
            with ClusterView(world.runtime) as view:
                before = start_and_see(world, view)
                until = time.monotonic() + 2.5 * LIVES_S
                while time.monotonic() < until:
                    assert view.age_s() < 40, view.measures()
                    time.sleep(0.5)
                assert signed_in.is_refused(0)
                after = start_and_see(world, view)
                assert asyncio.run(enter(world, before)) == asyncio.run(enter(world, after)) == b"entered\n"
                assert 3 <= signed_in.runs() < 40, view.measures()
        finally:
            world.close()


def start_and_see(world: KubernetesWorld, view: ClusterView) -> str:
    spec = world.spec("sleep 600")
    world.runtime.start(spec)

    def runs() -> bool:
        return any(one.uuid == spec.uuid and one.phase == "running" for one in view.list_containers())

    wait_slowly(lambda: view.age_s() < 60 and runs())
    return spec.uuid


async def enter(world: KubernetesWorld, uuid: str) -> bytes:
    session = await world.access().exec(uuid, ["echo", "entered"])
    said = await session.read()
    await session.close()
    return said

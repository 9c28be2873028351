"""Live samples of what a page watches: who gets them, when rights end, and that a slow socket holds nobody up."""

import asyncio
import json
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from accounts.models import Membership
from monitoring.models import CardNow, NodeNow, TaskNow
from portal.live import consumer, sample_hub
from portal.live.sample_hub import QUEUE, SampleHub, Watcher
from portal.live.sample_ticks import Subject, Tick
from tests import make
from tests.portal.test_live import close_code, listening, next_with, no_connection_left, world  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(sample_hub, "POLL_S", 0.02)


@pytest.fixture
def running(world):  # noqa: F811
    """ada's job on a quarter of a card, sampled once."""
    job = make.job(world.ada, gpu="1/4", pool="dev")
    task = make.start(job, world.gpus[0])[0]
    sample(task, 5.0)
    return task


def sample(task, busy_percent: float | None, cpu_milli: int | None = 1500) -> None:
    shares = [{"uuid": card["uuid"], "source": "simulated", "busy_percent": busy_percent} for card in task.cards]
    told = {"at": timezone.now(), "term": 1, "up_ms": 1, "cpu_milli": cpu_milli, "shares": shares}
    TaskNow.objects.update_or_create(task=task, defaults=told)


async def begin_watching(socket, *names: str) -> list[str]:
    await socket.send_json_to({"watch": list(names)})
    return (await next_with(socket, "watched"))["watched"]


async def test_all_who_watch_a_job_get_its_samples_and_a_stranger_none(running, world):  # noqa: F811
    name = running.job.public_id
    async with listening(world.ada) as ada, listening(world.bob) as bob, listening(world.eve) as eve:
        assert [await begin_watching(one, name) for one in (ada, bob, eve)] == [[name], [name], []]
        first = await next_with(ada, "samples")
        assert first == await next_with(bob, "samples")
        share = f"share:{running.uuid.hex}:{world.gpus[0].uuid}"
        assert first["samples"]["of"] == name
        assert first["samples"]["values"][share] == {"gpu_busy_percent": 20.0, "gpu_memory_mib": None}
        assert first["samples"]["values"][f"task:{running.uuid.hex}"]["cpu_cores"] == 1.5
        await sync_to_async(sample)(running, 10.0)
        for socket in (ada, bob):
            assert (await next_with(socket, "samples"))["samples"]["values"][share]["gpu_busy_percent"] == 40.0
        assert await eve.receive_nothing(0.2)


async def test_what_is_not_known_is_null_and_never_0(running, world):  # noqa: F811
    await sync_to_async(sample)(running, None, cpu_milli=None)
    async with listening(world.ada) as socket:
        await begin_watching(socket, running.job.public_id)
        share, task = sorted((await next_with(socket, "samples"))["samples"]["values"].items())
        assert share[1]["gpu_busy_percent"] is None and task[1]["cpu_cores"] is None


async def test_the_same_sample_is_sent_once(running, world):  # noqa: F811
    async with listening(world.ada) as socket:
        await begin_watching(socket, running.job.public_id)
        await next_with(socket, "samples")
        assert await socket.receive_nothing(0.2)


async def test_a_card_is_for_everybody(world):  # noqa: F811
    gpu = world.gpus[1]
    told = {"at": timezone.now(), "term": 1, "up_ms": 1, "source": "measured", "busy_percent": 63.0, "power_w": 240}
    told |= {"counted": {"sm_ms": 900, "sm_centi": 4310}}
    await CardNow.objects.acreate(gpu=gpu, **told)
    async with listening(world.eve) as socket:
        assert await begin_watching(socket, f"gpu-{gpu.uuid}", "gpu-none", "job-99") == [f"gpu-{gpu.uuid}"]
        values = (await next_with(socket, "samples"))["samples"]["values"]
        assert values[f"card:{gpu.uuid}"] == {
            "gpu_busy_percent": 63.0,
            "gpu_memory_mib": None,
            "temperature_c": None,
            "power_w": 240,
            "sm_percent": 43.1,
        }


async def test_a_machine_tells_of_itself_and_all_its_cards(world):  # noqa: F811
    told = {"at": timezone.now(), "term": 1, "up_ms": 1, "source": "measured"}
    for percent, gpu in enumerate(world.gpus):
        await CardNow.objects.acreate(gpu=gpu, busy_percent=percent, **told)
    await NodeNow.objects.acreate(node=world.node, at=told["at"], up_ms=1, use={"cpu_milli": 1500, "load_centi": 42})
    async with listening(world.eve) as socket:
        assert await begin_watching(socket, "node-n1", "node-none") == ["node-n1"]
        values = (await next_with(socket, "samples"))["samples"]["values"]
        assert [values[f"card:{gpu.uuid}"]["gpu_busy_percent"] for gpu in world.gpus] == [0, 1]
        machine = values["node:n1"]
        assert (machine["cpu_cores"], machine["load"], machine["memory_mib"]) == (1.5, 0.42, None)


async def test_an_old_sample_says_nothing_of_now(running, world):  # noqa: F811
    await TaskNow.objects.aupdate(at=timezone.now() - timedelta(minutes=5))
    async with listening(world.ada) as socket:
        await begin_watching(socket, running.job.public_id)
        assert await socket.receive_nothing(0.2)


async def test_no_sample_comes_after_a_right_has_ended(running, world, monkeypatch):  # noqa: F811
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.02)
    async with listening(world.bob) as socket:
        await begin_watching(socket, running.job.public_id)
        await next_with(socket, "samples")
        await Membership.objects.filter(user=world.bob).adelete()
        while (output := await socket.receive_output(15))["type"] != "websocket.close":
            assert "samples" not in output.get("text", "")
        assert output["code"] == consumer.RIGHTS_CHANGED
        await socket.disconnect()
        assert not sample_hub.the_hub().watchers


async def test_a_socket_watches_eight_at_most_the_newest(world):  # noqa: F811
    jobs = [await sync_to_async(make.job)(world.ada, pool="dev") for _ in range(9)]
    names = [job.public_id for job in jobs]
    async with listening(world.ada) as socket:
        assert await begin_watching(socket, *names[:8]) == names[:8]
        assert await begin_watching(socket, names[8]) == names[1:]
        await socket.send_json_to({"unwatch": names})
        assert await begin_watching(socket, names[0]) == names[:1]


@pytest.mark.parametrize("names", ["job-1", 7, [7, None], {"job-1": 1}, ["job-" + "9" * 40, "gpu-" + "x" * 400]])
async def test_nonsense_is_not_watched(world, names):  # noqa: F811
    async with listening(world.ada) as socket:
        await socket.send_json_to({"watch": names})
        assert (await next_with(socket, "watched"))["watched"] == []


async def test_a_slow_socket_misses_ticks_and_holds_nobody(monkeypatch):
    subject, loads = Subject("job-1", "job", 1), []

    def load(subjects):
        loads.append(subjects)
        return [Tick(subject, timezone.now())]

    monkeypatch.setattr(sample_hub, "_load", load)
    hub, slow, quick = SampleHub(), Watcher(), Watcher()
    for watcher in (slow, quick):
        watcher.watch({"job-1": subject})
        hub.join(watcher)
    got = [await quick.next() for _ in range(QUEUE + 3)]
    assert len(set(got)) == len(got) <= len(loads) and loads[0] == {subject}  # one look for both
    hub.leave(slow)
    hub.leave(quick)
    late = [json.loads(await asyncio.wait_for(slow.next(), 1)) for _ in range(QUEUE + 1)]
    assert late[-1] == {"samples_missed": True} and all("samples" in one for one in late[:-1])

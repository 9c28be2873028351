"""How much of a card each task takes: what the driver samples of processes, and whose they are."""

from types import SimpleNamespace

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.gpu.meter import Meter
from agent.gpu.share_busy import CardShares, ProcessSample, add_shares, read_process_samples
from agent.kubelet.shares import ShareWatch
from agent.usage.task_pods import TaskPods

ADA, BOB = "a" * 32, "b" * 32
POD_OF_ADA, POD_OF_BOB = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"
SECOND = 1_000_000


def count(*looks, owners, first_us=0) -> dict[str, float]:
    """looks: {pid: percent} of each second."""
    card = CardShares(first_us)
    for number, percents in enumerate(looks, 1):
        now_us = first_us + number * SECOND
        add_shares(card, [ProcessSample(pid, now_us, percent) for pid, percent in percents.items()], owners, now_us)
    return card.busy_ms


def test_two_tasks_on_one_card_are_told_apart():
    busy = count({7: 60, 8: 20}, {7: 60, 8: 20}, owners={7: ADA, 8: BOB})
    assert busy == {ADA: 1200, BOB: 400}


def test_processes_of_one_task_add_up_to_the_whole_time_at_most_and_others_are_nobodys():
    assert count({7: 80, 9: 80, 5: 50}, owners={7: ADA, 9: ADA, 5: ""}) == {ADA: 1000}


def test_who_has_no_sample_did_nothing_and_what_was_counted_stays():
    assert count({7: 50}, {}, {7: 100}, owners={7: ADA}) == {ADA: 1500}


def test_a_long_gap_is_told_as_estimated_and_an_old_sample_counts_nothing():
    card = CardShares(0)
    add_shares(card, [ProcessSample(7, 0, 100)], {7: ADA}, SECOND)
    assert (card.busy_ms, card.source) == ({ADA: 0}, "measured")
    add_shares(card, [ProcessSample(7, 30 * SECOND, 50)], {7: ADA}, 31 * SECOND)
    assert (card.busy_ms, card.source) == ({ADA: 15_000}, "estimated")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.integers(1, 4), st.integers(-5, 300), max_size=4), max_size=20))
def test_a_task_never_took_more_time_than_there_was(looks):
    busy = count(*looks, owners={1: ADA, 2: ADA, 3: BOB, 4: ""})
    assert all(0 <= each <= 1000 * len(looks) for each in busy.values())


@pytest.mark.parametrize(
    ("code", "told"), [(pynvml.NVML_ERROR_NOT_FOUND, []), (0, []), (pynvml.NVML_ERROR_NOT_SUPPORTED, None)]
)
def test_no_process_is_known_and_no_answer_is_not(monkeypatch, code, told):
    def refuse(*_):
        raise pynvml.NVMLError(code)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", refuse)
    assert read_process_samples(None, 0) == told


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A machine with one card, a pod of ada's and one of bob's."""
    found = SimpleNamespace(clock=100.0, samples={}, held={}, pods=tmp_path / "pods", proc=tmp_path / "proc")
    for task, pod in ((ADA, POD_OF_ADA), (BOB, POD_OF_BOB)):
        (found.pods / f"tessera-team-7_t-{task}_{pod}").mkdir(parents=True)
    for pid, group in (
        (7, f"0::/kubepods.slice/kubepods-pod{POD_OF_ADA.replace('-', '_')}.slice/cri-containerd-c.scope\n"),
        (8, f"0::/kubepods/besteffort/pod{POD_OF_BOB}/c\n"),
        (9, "0::/system.slice/xorg.service\n"),
    ):
        (found.proc / str(pid)).mkdir(parents=True)
        (found.proc / str(pid) / "cgroup").write_text(group)

    def sample(handle, after_us):
        if found.samples is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        at = round(found.clock * SECOND)
        return [SimpleNamespace(pid=p, timeStamp=at, smUtil=percent) for p, percent in found.samples.items()]

    monkeypatch.setattr("agent.kubelet.shares.read_memory_by_process", lambda handle: found.held)
    for name, answer in {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": "card",
        "nvmlDeviceGetUUID": "GPU-1",
    }.items():
        monkeypatch.setattr(pynvml, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", sample)
    pods = TaskPods(found.pods, "tessera", tmp_path)
    found.watch = ShareWatch(pods.list_tasks, found.proc, lambda: found.clock)
    return found


def look(node, **changes) -> dict[str, dict]:
    node.__dict__.update(changes)
    node.clock += 1
    node.watch.look()
    return {told["task"]: told["shares"][0] for told in node.watch.list_shares()}


def test_the_tasks_of_pods_are_found_by_their_processes(node):
    look(node, held={7: 900, 8: 300, 9: 50}, samples={7: 40, 8: 10, 9: 50})
    told = look(node)
    assert told[ADA] == {"uuid": "GPU-1", "busy_ms": 400, "used_mib": 900, "source": "measured"}
    assert told[BOB] == {"uuid": "GPU-1", "busy_ms": 100, "used_mib": 300, "source": "measured"}
    told = look(node, held={8: 300}, samples={8: 10})
    assert (told[ADA]["busy_ms"], told[ADA]["used_mib"], told[BOB]["busy_ms"]) == (400, 0, 200)
    next(node.pods.glob(f"*{ADA}*")).rmdir()
    assert look(node).keys() == {BOB}


def test_without_samples_of_processes_only_their_memory_is_known(node):
    look(node, held={7: 900}, samples=None)
    assert look(node) == {ADA: {"uuid": "GPU-1", "used_mib": 900, "source": "measured"}}
    assert Meter("boot", look=list, list_tasks=node.watch.list_shares).take()[1]["tasks"][0]["task"] == ADA

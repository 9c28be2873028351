"""What every runtime must keep. A subclass gives a fixture `world`: one of tests/runtimes/worlds.py.

The jobs are so small that all implementations understand them: `sleep N`, `exit N`, `true`.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from runtimes.contract.errors import Rejected
from runtimes.contract.task import Checkpoint


class RuntimeContract:
    def test_it_lists_its_node(self, world):
        node = world.runtime.list_nodes()[0]
        assert node.cpu_milli > 0 and node.memory_mib > 0 and node.boot_id
        assert len(node.links) == len(node.gpus)

    def test_a_task_runs_and_ends_with_its_exit_code(self, world):
        spec = world.spec("exit 3")
        world.runtime.start(spec)
        view = world.until(spec.uuid, "exited")
        assert (view.exit_code, view.signal, view.cause, view.epoch) == (3, None, "", spec.epoch)
        assert view.started_at <= view.ended_at

    def test_a_running_task_is_seen_running(self, world):
        spec = world.spec("sleep 60")
        world.runtime.start(spec)
        view = world.until(spec.uuid, "running")
        assert view.node == spec.node and view.started_at and view.ended_at is None

    def test_starting_twice_runs_once(self, world):
        spec = world.spec("sleep 60")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(world.runtime.start, [spec] * 8))
        world.until(spec.uuid, "running")
        assert world.runs(spec.uuid) == 1

    def test_starting_an_ended_task_runs_nothing(self, world):
        spec = world.spec("exit 3")
        world.runtime.start(spec)
        before = world.until(spec.uuid, "exited")
        world.runtime.start(spec)
        assert world.until(spec.uuid, "exited") == before and world.runs(spec.uuid) == 1

    def test_stop_ends_a_running_task(self, world):
        spec = world.spec("sleep 60")
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        world.runtime.stop(spec.uuid, 10, epoch=spec.epoch)
        view = world.until(spec.uuid, "exited")
        assert (view.cause, view.signal, view.exit_code) == ("stopped", 15, None)

    def test_stopping_twice_and_after_the_end_is_success(self, world):
        spec = world.spec("exit 0")
        world.runtime.start(spec)
        before = world.until(spec.uuid, "exited")
        world.runtime.stop(spec.uuid, 10, epoch=spec.epoch)
        world.runtime.stop(spec.uuid, 10, epoch=spec.epoch)
        assert world.until(spec.uuid, "exited") == before

    def test_a_stop_of_an_older_epoch_is_ignored(self, world):
        spec = world.spec("sleep 60", epoch=7)
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        world.runtime.stop(spec.uuid, 0, epoch=6)
        world.settle()
        assert world.view(spec.uuid).phase == "running"

    def test_a_stop_before_the_start_leaves_a_tombstone(self, world):
        spec = world.spec("sleep 60")
        world.runtime.stop(spec.uuid, 10, epoch=spec.epoch)
        world.runtime.start(spec)
        view = world.until(spec.uuid, "exited")
        assert (view.cause, view.exit_code, view.started_at) == ("never_started", None, None)
        assert world.runs(spec.uuid) == 0

    def test_what_runs_is_left_alone_by_a_stop_of_what_never_ran(self, world):
        spec = world.spec("sleep 60")
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        world.runtime.stop(spec.uuid, 0, epoch=spec.epoch, unless_ran=True)
        world.settle()
        assert world.view(spec.uuid).phase == "running"

    def test_what_never_ran_is_ended_by_it(self, world):
        spec = world.spec("sleep 60")
        world.runtime.stop(spec.uuid, 0, epoch=spec.epoch, unless_ran=True)
        world.runtime.start(spec)
        assert world.until(spec.uuid, "exited").cause == "never_started" and world.runs(spec.uuid) == 0

    def test_a_stop_asks_for_a_checkpoint_first(self, world):
        spec = world.saver(Checkpoint("ckpt", "SIGUSR1", 20), then_end=True)
        world.runtime.stop(spec.uuid, 10, epoch=spec.epoch)
        view = world.until(spec.uuid, "exited")
        assert (view.cause, view.exit_code, view.signal) == ("stopped", 0, None)
        assert view.started_at <= view.checkpointed_at <= view.ended_at

    def test_who_goes_on_after_its_checkpoint_is_ended_when_its_grace_is_over(self, world):
        spec = world.saver(Checkpoint("ckpt", "SIGUSR1", 4), then_end=False)
        world.runtime.stop(spec.uuid, 1, epoch=spec.epoch)
        view = world.until(spec.uuid, "exited")
        assert (view.cause, view.signal) == ("stopped", 15)
        assert timedelta(seconds=1) < view.ended_at - view.checkpointed_at < timedelta(seconds=10)

    def test_without_patience_nobody_is_asked_for_a_checkpoint(self, world):
        spec = world.saver(Checkpoint("ckpt", "SIGUSR1", 20), then_end=True)
        world.runtime.stop(spec.uuid, 0, epoch=spec.epoch)
        view = world.until(spec.uuid, "exited")
        assert view.cause == "stopped" and view.signal and view.checkpointed_at is None

    def test_max_time_ends_a_task(self, world):
        spec = world.spec("sleep 60", max_time_s=1)
        world.runtime.start(spec)
        assert world.until(spec.uuid, "exited").cause == "time_limit"

    def test_a_time_limit_asks_for_a_checkpoint_first(self, world):
        spec = world.saver(Checkpoint("ckpt", "SIGUSR1", 20), then_end=True, max_time_s=3)
        view = world.until(spec.uuid, "exited")
        assert (view.cause, view.exit_code, view.signal) == ("time_limit", 0, None)
        assert timedelta(seconds=3) <= view.checkpointed_at - view.started_at < timedelta(seconds=15)

    def test_who_goes_on_after_that_checkpoint_is_ended_when_its_grace_is_over(self, world):
        spec = world.saver(Checkpoint("ckpt", "SIGUSR1", 3), then_end=False, max_time_s=3)
        view = world.until(spec.uuid, "exited")
        assert (view.cause, view.signal) == ("time_limit", 15) and view.checkpointed_at is not None
        assert timedelta(seconds=4) < view.ended_at - view.started_at < timedelta(seconds=20)

    def test_a_forgotten_task_is_gone_and_never_runs_again(self, world):
        spec = world.spec("exit 0")
        world.runtime.start(spec)
        world.until(spec.uuid, "exited")
        world.runtime.forget(spec.uuid)
        world.runtime.start(spec)
        world.runtime.stop(spec.uuid, 0, epoch=spec.epoch)
        assert world.view(spec.uuid) is None and world.runs(spec.uuid) == 1

    def test_forget_leaves_a_running_task_alone(self, world):
        spec = world.spec("sleep 60")
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        world.runtime.forget(spec.uuid)
        assert world.view(spec.uuid).phase == "running"

    def test_forgetting_a_stranger_is_success(self, world):
        world.runtime.forget("f" * 32)
        assert world.view("f" * 32) is None

    def test_only_a_slice_of_what_runs_is_resized(self, world):
        spec = world.spec("exit 0")
        world.runtime.start(spec)
        world.until(spec.uuid, "exited")
        for uuid in (spec.uuid, "0" * 32):
            with pytest.raises(Rejected):
                world.runtime.resize(uuid, {"GPU-0": 1024}, serial=1)

    def test_a_task_for_another_node_is_rejected(self, world):
        with pytest.raises(Rejected):
            world.runtime.start(world.spec("true", node="elsewhere"))

import pytest

from runtimes.contract.errors import Unavailable
from tests.fakes.runtime import FakeRuntime, run_time
from tests.runtimes.contract.suite import RuntimeContract
from tests.runtimes.worlds import FakeWorld


@pytest.fixture
def world():
    return FakeWorld()


class TestFakeRuntime(RuntimeContract):
    pass


def test_only_the_clock_moves_a_task(world):
    spec = world.spec("sleep 5; exit 3")
    world.runtime.start(spec)
    world.runtime.advance(4.9)
    assert world.view(spec.uuid).phase == "running"
    world.runtime.advance(0.1)
    assert (world.view(spec.uuid).phase, world.view(spec.uuid).exit_code) == ("exited", 3)


def test_a_stubborn_task_ends_when_its_grace_is_over(world):
    spec = world.spec("sleep 60")
    world.runtime.start(spec)
    world.runtime.ignore_term(spec.uuid)
    world.runtime.stop(spec.uuid, 10, epoch=5)
    world.runtime.advance(9)
    assert world.view(spec.uuid).phase == "running"
    world.runtime.advance(1)
    assert world.view(spec.uuid).signal == 9


def test_a_reboot_ends_what_ran(world):
    spec = world.spec("sleep 60")
    world.runtime.start(spec)
    world.runtime.lose(spec.uuid)
    assert world.view(spec.uuid).phase == "lost"
    world.runtime.reboot("n1", "boot-2")
    assert (world.view(spec.uuid).phase, world.view(spec.uuid).cause) == ("exited", "container_lost")
    assert world.runtime.list_nodes()[0].boot_id == "boot-2"


def test_it_fails_as_told_once(world):
    world.runtime.fail_next(Unavailable("down"))
    with pytest.raises(Unavailable):
        world.runtime.list_containers()
    assert world.runtime.list_containers() == []


def test_a_slow_start_is_seen_starting():
    runtime = FakeRuntime(FakeWorld().runtime.list_nodes(), start_delay_s=3)
    spec = FakeWorld().spec("sleep 60")
    runtime.start(spec)
    assert runtime.list_containers()[0].phase == "starting"
    runtime.advance(3)
    assert runtime.list_containers()[0].phase == "running"


@pytest.mark.parametrize(
    ("run", "expected"),
    [("true", (0, 0)), ("sleep 2; sleep 1\nexit 4", (3, 4)), ("sleep infinity", (None, 0)), ("echo 'a;b'", (0, 0))],
)
def test_how_long_a_shell_text_takes(run, expected):
    assert run_time(run) == expected

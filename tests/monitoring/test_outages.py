"""A platform that was away: an agent's ticks wait for half an hour, and totals are right whatever was lost."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from agent.client import PlatformUnavailable
from agent.daemon.sample_sender import KEPT_S, SampleSender
from agent.gpu.meter import Meter
from agent.state import Identity
from monitoring.models import TaskUseNow
from monitoring.samples import ingest, machine
from monitoring.samples.ingest import take_samples
from monitoring.series import frames
from monitoring.series.frames import load_frame
from monitoring.series.keys import Key, Kind
from monitoring.usage import moving
from tests import make

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
MINUTE_S = 60


class World:
    """An agent whose task works with half a core, and the platform that takes its ticks. at_s: since noon."""

    def __init__(self, cast):
        self.at_s, self.away, self.node = 0.0, False, cast.node
        self.task = make.start(make.job(cast.ada, gpu="1/4"), cast.gpus[0])[0]
        meter = Meter("boot", clock=self.read_clock, look=list)
        who = Identity("server", "key", "n1")
        self.sender = SampleSender(self, lambda: who, meter, self.read_clock, self.read_tasks)

    def read_clock(self) -> float:
        return 5000 + self.at_s

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.at_s)

    def read_tasks(self) -> list[dict]:
        return [{"task": self.task.uuid.hex, "age_ms": 0, "cpu_ms": round(500 * self.at_s)}]

    def send_samples(self, node, key, said) -> dict:
        if self.away:
            raise PlatformUnavailable("away")
        assert not take_samples(self.node, said).refused
        return {"every_s": 10}

    def run(self, minutes: float, *, away: bool = False) -> None:
        until_s, self.away = self.at_s + minutes * MINUTE_S, away
        while self.at_s < until_s:
            self.at_s += self.sender.run_once()

    def known(self) -> np.ndarray:
        """Which slots of ten seconds are known since the second tick; each of them must be half a core."""
        key = Key(Kind.TASK, self.task.pk)
        slots = load_frame([key], NOON + timedelta(seconds=10), self.now() - timedelta(seconds=30), 10)
        cpu_milli = slots.values[key][0]
        assert set(cpu_milli[~np.isnan(cpu_milli)]) == {500.0}
        return ~np.isnan(cpu_milli)


@pytest.fixture
def world(monkeypatch):
    world = World(make.cast())
    for module in (ingest, machine, moving, frames):
        monkeypatch.setattr(module, "timezone", world)
    return world


def test_after_twenty_minutes_the_curves_are_whole(world):
    world.run(2)
    world.run(20, away=True)
    world.run(2)
    assert world.known().all()


def test_after_two_hours_there_is_a_gap_and_the_totals_are_right(world):
    world.run(2)
    world.run(120, away=True)
    back_s = world.at_s
    world.run(2)
    known = world.known()
    first_lost, last_lost = np.flatnonzero(~known)[[0, -1]]
    assert abs(10 * first_lost - 2 * MINUTE_S) <= 30 and abs(10 * last_lost - (back_s - KEPT_S)) <= 150
    assert not known[first_lost:last_lost].any()
    use = TaskUseNow.objects.get(holding__gpu=None)
    assert use.cpu_ms == pytest.approx(500 * world.at_s, abs=500 * 20)  # caught up, to the last tick
    assert use.seen_ms <= 1000 * (KEPT_S + 6 * MINUTE_S)  # and what nobody watched is not said to have been seen

"""A wall clock that jumps: time goes on as before until it has kept to the jump."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from common.steady_clock import STEP_S, SteadyClock, unbroken_now

HOUR, DAY = 3600.0, 86_400.0


class Machine:
    """Two clocks that go on together, until one of them is set."""

    def __init__(self, steady_s: float = 600):
        self.wall, self.monotonic, self.answers_after_s = 1_800_000_000.0, 50.0, 0.0
        self.clock = SteadyClock(self.read, lambda: steady_s, lambda: self.monotonic)
        self.clock.now()

    def read(self) -> float:
        self.go_on(self.answers_after_s)
        return self.wall

    def go_on(self, seconds: float) -> None:
        self.wall, self.monotonic = self.wall + seconds, self.monotonic + seconds


@pytest.mark.parametrize("jump", [HOUR, -HOUR, DAY, -DAY])
def test_a_jump_is_not_followed_until_the_clock_has_been_steady(jump):
    machine = Machine()
    before = machine.wall
    machine.wall += jump
    for _ in range(60):
        assert machine.clock.now() == pytest.approx(before + machine.monotonic - 50)
        assert machine.clock.held_s == pytest.approx(jump)
        machine.go_on(9.9)
    machine.go_on(10)
    assert machine.clock.now() == pytest.approx(machine.wall) and machine.clock.held_s == 0


def test_a_jump_that_is_taken_back_was_none():
    machine = Machine()
    for jump in (HOUR, -HOUR, DAY, -DAY):
        machine.wall += jump
        machine.clock.now()
        machine.go_on(500)
        machine.wall -= jump
        assert machine.clock.now() == pytest.approx(machine.wall) and machine.clock.held_s == 0
        machine.go_on(500)


def test_a_second_jump_begins_the_wait_anew():
    machine = Machine()
    before = machine.wall - machine.monotonic
    for _ in range(5):
        machine.wall += HOUR
        machine.clock.now()
        machine.go_on(500)
        assert machine.clock.now() == pytest.approx(before + machine.monotonic)


def test_a_clock_that_is_a_little_off_is_followed():
    machine = Machine()
    machine.wall += STEP_S - 1
    assert machine.clock.now() == pytest.approx(machine.wall)


def test_an_answer_that_comes_late_is_no_jump():
    machine = Machine()
    machine.answers_after_s = 90  # such as of a database that was frozen
    for _ in range(3):
        assert machine.clock.now() == pytest.approx(machine.wall, abs=1) and machine.clock.held_s == 0


def test_no_wait_follows_every_jump():
    machine = Machine(steady_s=0)
    machine.wall += DAY
    assert machine.clock.now() == pytest.approx(machine.wall)


def test_periods_never_see_a_jump(monkeypatch):
    before = unbroken_now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert timedelta(0) <= unbroken_now() - before < timedelta(seconds=5) and abs(before - datetime.now(UTC)).days == 0

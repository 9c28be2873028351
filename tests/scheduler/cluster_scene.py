"""The platform's own loop on a real API server: rows, the view that follows, and deeds done as a worker does them."""

import threading
import time

from jobs.models import Task
from scheduler import tasks
from scheduler.lease import acquire
from scheduler.reconcile.actions import encode_action
from scheduler.reconcile.watch_loop import WatchLoop


class Scene:
    def __init__(self, world, view):
        self.world, self.runtime, self.view = world, world.runtime, view
        self.watch = WatchLoop(view, self.act, threading.Event())
        self.epoch = acquire("reconcile")

    def act(self, orders):
        tasks.act([encode_action(order) for order in orders])

    def until(self, task: Task, *states: str, deadline_s=60.0) -> Task:
        """Rounds as the loop makes them, until the row says so."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            self.watch.round(self.epoch)
            task.refresh_from_db()
            if task.state in states:
                return task
            self.view.wait(0.5)
        raise AssertionError(f"{task.state} is not {states}: {self.world.pods(task.uuid.hex)}")

"""When the jobs of a play really end: work that is left, done at a pace that may change."""

from heapq import heapify, heappop, heappush
from math import inf


class Clockwork:
    """Work and pace are in seconds of work, and seconds of work per second. A job at pace 0 never ends."""

    def __init__(self, ends: dict[int, float], now: float):
        """ends: {job: when it ends at full pace}."""
        self._runs = {job: (now, at - now, 1.0) for job, at in ends.items()}
        """{job: (since when, what was left then, pace)}."""
        self._ends = dict(ends)
        self._line = [(at, job) for job, at in ends.items()]
        heapify(self._line)

    def begin(self, job: int, work_s: float, now: float, pace: float = 1.0) -> None:
        self._runs[job] = now, work_s, pace
        self._ends[job] = at = now + work_s / pace if pace else inf
        heappush(self._line, (at, job))

    def set_pace(self, job: int, pace: float, now: float) -> None:
        """From now on; what is left stays. A job that was never begun has no end, whatever its pace."""
        if job in self._runs and self._runs[job][2] != pace:
            self.begin(job, self.left(job, now), now, pace)

    def left(self, job: int, now: float) -> float:
        """Seconds of work, `inf` of a job that was never begun."""
        if job not in self._runs:
            return inf
        since, left, pace = self._runs[job]
        return max(left - (now - since) * pace, 0.0)

    def stop(self, job: int) -> None:
        self._runs.pop(job, None)
        self._ends.pop(job, None)

    def next(self) -> float:
        """When the next job ends; `inf` where none does."""
        while self._line and self._ends.get(self._line[0][1]) != self._line[0][0]:
            heappop(self._line)  # it was stopped, or ends at another time
        return self._line[0][0] if self._line else inf

    def end_next(self) -> int:
        """Take out the job that ends next. Raises IndexError where none does."""
        self.next()
        _, job = heappop(self._line)
        self.stop(job)
        return job

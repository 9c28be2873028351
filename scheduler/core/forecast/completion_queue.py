"""Completion times of simulated jobs whose pace may change."""

from heapq import heapify, heappop, heappush
from math import inf


class CompletionQueue:
    """Queue of completions. A job at pace 0 never ends."""

    def __init__(self, ends: dict[int, float], now: float):
        self._runs = {job: (now, at - now, 1.0) for job, at in ends.items()}
        """{job: (since when, work left then, pace)}."""
        self._ends = dict(ends)
        self._heap = [(at, job) for job, at in ends.items()]
        heapify(self._heap)

    def begin(self, job: int, work_s: float, now: float, pace: float = 1.0) -> None:
        self._runs[job] = now, work_s, pace
        self._ends[job] = at = now + work_s / pace if pace else inf
        heappush(self._heap, (at, job))

    def set_pace(self, job: int, pace: float, now: float) -> None:
        """Change a job's pace from now on."""
        if job in self._runs and self._runs[job][2] != pace:
            self.begin(job, self.work_left(job, now), now, pace)

    def work_left(self, job: int, now: float) -> float:
        """Return the seconds of work left, `inf` for a job never begun."""
        if job not in self._runs:
            return inf
        since, left, pace = self._runs[job]
        return max(left - (now - since) * pace, 0.0)

    def remove(self, job: int) -> None:
        self._runs.pop(job, None)
        self._ends.pop(job, None)

    def next_end(self) -> float:
        """Return when the next job ends, `inf` if none."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)  # stopped, or ends at another time
        return self._heap[0][0] if self._heap else inf

    def pop_next(self) -> int:
        """Remove and return the next job to end. Raises IndexError if none."""
        self.next_end()
        _, job = heappop(self._heap)
        self.remove(job)
        return job

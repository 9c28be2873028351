"""The end to which each job must come that a job waits for (`after` in the job file)."""

from collections.abc import Mapping

from jobs.models import read_job_id
from jobs.states import JOB_FINAL, JobState

ENDS: dict[str, frozenset[str]] = {
    "success": frozenset({JobState.SUCCEEDED}),
    "failure": frozenset({JobState.FAILED, JobState.CANCELLED}),
    "any": JOB_FINAL,
}
"""{condition: states of a job that meet it}."""


def is_never(state: str, condition: str) -> bool:
    """Return whether a job in this state has ended, but not as it had to."""
    return state in JOB_FINAL and state not in ENDS[condition]


def number_conditions(after: Mapping[str, str]) -> dict[int, str]:
    """Return resolved conditions by the jobs' numbers."""
    numbers = {read_job_id(name): condition for name, condition in after.items()}
    return {pk: condition for pk, condition in numbers.items() if pk is not None}

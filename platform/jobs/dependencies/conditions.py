"""The end to which each job or array must come that a job waits for (`after` in the job file).

Arrays stand among the numbers of jobs by negative ones: arr-9 is -9.
"""

from collections.abc import Mapping

from jobs.arrays.models import read_array_id, show_array_id
from jobs.models import read_job_id, show_job_id
from jobs.states import JOB_FINAL, JobState

ENDS: dict[str, frozenset[str]] = {
    "success": frozenset({JobState.SUCCEEDED}),
    "failure": frozenset({JobState.FAILED, JobState.CANCELLED}),
    "any": JOB_FINAL,
}
"""{condition: states of a job, or of an array as a whole, that meet it}."""


def is_never(state: str, condition: str) -> bool:
    """Return whether a job in this state has ended, but not as it had to."""
    return state in JOB_FINAL and state not in ENDS[condition]


def number_conditions(after: Mapping[str, str]) -> dict[int, str]:
    """Return resolved conditions by the numbers of jobs and arrays."""
    numbers = {read_dependency(name): condition for name, condition in after.items()}
    return {number: condition for number, condition in numbers.items() if number is not None}


def read_dependency(text: str) -> int | None:
    """Return the number of "job-412" or "arr-9", or None for what is no id."""
    array = read_array_id(text)
    return read_job_id(text) if array is None else -array


def show_dependency(number: int) -> str:
    return show_job_id(number) if number > 0 else show_array_id(-number)

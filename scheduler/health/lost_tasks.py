"""What `doctor` says of lost tasks, which keep what they hold until their end is proved."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.db.models.functions import Now

from jobs.control import is_silent
from jobs.models import Task
from jobs.states import TaskState
from runtimes.contract.runtime import Finding

LOST_FOR = timedelta(seconds=60)
MOST_NAMED = 3
ABOUT = "lost tasks"


def find_lost_tasks() -> Iterator[Finding]:
    """Name tasks that were lost a minute ago or longer, by what is to be done."""
    lost = Task.objects.filter(state=TaskState.LOST, lost_at__lt=Now() - LOST_FOR).select_related("job", "node")
    found = list(lost.order_by("lost_at", "pk"))
    silent = [task for task in found if task.node is not None and is_silent(task.node)]
    settled = [task for task in found if task.settled and task not in silent]
    unknown = [task for task in found if not task.settled and task not in silent]
    if unknown:
        words = f"{_list(unknown)}: the machine answers and does not know it. What it holds stays taken."
        remedy = (
            "If nothing of it runs there, settle it on the machine's page or with: "
            f"tessera settle {unknown[0].job.public_id} --why REASON"
        )
        yield Finding(ABOUT, "bad", words, remedy)
    if settled:
        words = f"{_list(settled)}: settled, and something of it may still run."
        yield Finding(ABOUT, "bad", words, "Look for its processes or its container on the machine, and end them.")
    if silent:
        words = f"{_list(silent)}: nothing is heard of the machine. What it holds stays taken until it answers."
        yield Finding(ABOUT, "note", words, "Start the machine again, or remove it from the cluster if it is gone.")


def _list(tasks: Sequence[Task]) -> str:
    named = ", ".join(f"{task} on {task.node}, lost since {task.lost_at:%F %H:%M} UTC" for task in tasks[:MOST_NAMED])
    return f"{named} and {len(tasks) - MOST_NAMED} more" if len(tasks) > MOST_NAMED else named

"""Check that JupyterLab answers, with the task's secret, which proves that it is this task's."""

from jobs.models import Task
from jobs.probing.http_status import get_status
from jobs.task_access import derive_task_secret
from notebooks.job_spec import JUPYTER_PORT
from runtimes.contract.access import Access


async def is_jupyter_ready(access: Access, task: Task) -> bool:
    """Whether JupyterLab answers in a RUNNING task."""
    port = task.ports.get(str(JUPYTER_PORT))
    return port is not None and await get_status(access, task, port, "/api/status", authorize(task)) == 200


def authorize(task: Task) -> dict[str, str]:
    """Return the headers that JupyterLab asks for."""
    return {"Authorization": f"token {derive_task_secret(task.uuid)}"}

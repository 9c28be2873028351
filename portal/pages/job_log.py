"""What is said above a log that is not as it was written: it is behind, nobody brings it, or its end is missing."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from cluster.models import Agent
from jobs.brought import SILENT_AFTER, brought_of
from jobs.models import BroughtLog, Task
from jobs.states import TaskState

BEHIND, SILENT, COMING, LATER, CUT = "behind", "silent", "coming", "later", "cut"
WORDS = {
    COMING: _("The task has ended; the end of its log is on the way."),
    LATER: _("No agent brings logs from %(node)s: this log comes when the task has ended."),
    CUT: _("The end of this log was not brought: its machine removed it, or did not answer in time."),
}


@dataclass(frozen=True)
class LogNote:
    """code: one of those above. since: when what is missing was written, or when the machine's agent was last heard."""

    code: str
    node: str
    since: datetime | None = None

    @property
    def words(self) -> str | Promise:
        return WORDS[self.code] % {"node": self.node}


def note_of(task: Task, *, is_open: bool) -> LogNote | None:
    """None where there is nothing to say: it has not begun, is whole, comes as it is written, or its task's own shim
    writes it.

    is_open: whether more of it may come.
    """
    if task.node is None or task.state in (TaskState.ASSIGNED, TaskState.STARTING):  # there is no line to miss
        return None
    node, known = task.node.name, brought_of(task)
    if is_open:
        agent = Agent.objects.filter(node_name=node, logs_at__isnull=False, revoked_at__isnull=True).first()
        if agent is not None:
            return _of_open(task, known, agent)
        return LogNote(LATER, node) if task.node.facts.get("logs") == "agent" else None
    return LogNote(CUT, node) if known is not None and known.end != BroughtLog.End.WHOLE else None


def _of_open(task: Task, known: BroughtLog | None, agent: Agent) -> LogNote | None:
    node = agent.node_name
    if known is not None and known.behind_since is not None:
        return LogNote(BEHIND, node, known.behind_since)
    if agent.logs_at is not None and timezone.now() - agent.logs_at > SILENT_AFTER:
        return LogNote(SILENT, node, agent.logs_at)
    return LogNote(COMING, node) if task.is_final else None

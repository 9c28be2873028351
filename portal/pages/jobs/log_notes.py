"""Notes on late or incomplete logs."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from cluster.models import Agent
from jobs.log_ingest import SILENT_AFTER, load_ingest
from jobs.models import BroughtLog, Task
from jobs.states import TaskState

BEHIND, SILENT, COMING, LATER, CUT = "behind", "silent", "coming", "later", "cut"
WORDS = {
    COMING: _("The task has ended; the end of its log is on the way."),
    LATER: _("No agent sends logs from %(node)s: this log arrives when the task has ended."),
    CUT: _("The end of this log is missing: the machine removed it or did not respond in time."),
}


@dataclass(frozen=True)
class LogNote:
    """A note; `since`: first missing output or the agent's last report."""

    code: str
    node: str
    since: datetime | None = None

    @property
    def words(self) -> str | Promise:
        return WORDS[self.code] % {"node": self.node}


def build_log_note(task: Task, *, is_open: bool) -> LogNote | None:
    """Return what is wrong with a task's log, None if nothing; `is_open`: more may come."""
    if task.node is None or task.state in (TaskState.ASSIGNED, TaskState.STARTING):  # no output yet
        return None
    node, known = task.node.name, load_ingest(task)
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

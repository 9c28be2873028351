"""Which replicas that must make room still answer requests; their stop waits until they have."""

from collections.abc import Sequence

from django.db.models import Max

from common.locks import database_now
from events.models import Event
from jobs.models import Task
from jobs.states import TaskState
from services.decide import ReplicaSeen, is_drained
from services.in_flight import read_loads
from services.models import Replica


def find_draining(uuids: Sequence[str]) -> set[str]:
    """Return those of the tasks in STOPPING, by uuid in hex, whose stop waits.

    Also without requests for a moment: gateways pass on by what they read a second ago.
    """
    ready = Replica.objects.filter(ready_task__in=uuids) if uuids else ()
    replicas = {one.ready_task: one for one in ready if one.ready_task}
    if not replicas:
        return set()
    tasks = dict(Task.objects.filter(uuid__in=[*replicas]).values_list("pk", "uuid"))
    marks = Event.objects.filter(kind=Task.KIND, object_id__in=tasks, to_state=TaskState.STOPPING)
    loads, now = read_loads(), database_now()
    draining = set()
    for pk, since in marks.values_list("object_id").annotate(Max("at")):
        replica = replicas[tasks[pk]]
        requests = loads.replicas.get(replica.pk, 0) if loads else 0
        seen = ReplicaSeen(replica.pk, replica.revision_id, ready=True, in_flight=requests, draining_at=since)
        if not is_drained(seen, known=loads is not None, now=now):
            draining.add(tasks[pk].hex)
    return draining

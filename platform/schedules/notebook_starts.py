"""Notebooks that a schedule starts: which one, and when it stops again."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from accounts.models import User
from common.errors import FieldError, InvalidInput
from common.text import shorten_text
from jobs.models import Job
from jobs.submit import Check
from notebooks.models import Notebook
from notebooks.services import hours_of_start, start_notebook
from schedules.models import Schedule


def find_own_notebook(user: User, said: str) -> Notebook:
    """Return the person's notebook of this id or name. Raises InvalidInput."""
    own = list(Notebook.objects.live().with_names().filter(user=user))
    found = next((one for one in own if said in (one.public_id, one.name)), None)
    if found is None:
        raise InvalidInput([FieldError("/notebook", "unknown_notebook", {"got": shorten_text(said)})])
    return found


def find_stop(schedule: Schedule, tick: datetime) -> datetime | None:
    """Return the first moment after a tick at which the clock of the schedule's zone says `stop_at`; None: no end."""
    if schedule.stop_at is None:
        return None
    zone = ZoneInfo(schedule.zone)
    day = tick.astimezone(zone).date()
    days = (datetime.combine(day + timedelta(days=more), schedule.stop_at, zone) for more in range(3))
    return next(at for at in days if at > tick)


def start_until(
    schedule: Schedule, stop: datetime | None, now: datetime, *, check: Check, containers: bool, key: str
) -> Job:
    """Start the schedule's notebook, which ends at `stop`, or earlier as its own hours and its owner's limit say.

    If it has not started by then, it starts no more. Raises what start_notebook raises.
    """
    assert schedule.notebook is not None
    notebook = start_notebook(
        actor=schedule.user, notebook=schedule.notebook, check=check, containers=containers, key=key
    )
    assert notebook.job is not None
    if stop is not None:
        hours = hours_of_start(notebook)
        ends = min(stop, now + timedelta(hours=hours)) if hours else stop
        Notebook.objects.filter(pk=notebook.pk).update(stops_at=ends)
        Job.objects.filter(pk=notebook.job.pk).update(give_up_at=stop)
    return notebook.job

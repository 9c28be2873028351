"""Events as sentences in the reader's language."""

from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.amounts import show_bytes
from common.error_messages import fill_gaps
from common.resources import show_duration, show_memory
from events.models import Event
from jobs.reason_messages import describe_resize_refusal
from jobs.states import JobState, TaskState
from monitoring.models import AlertState
from portal.wording.resources import list_alternatives

# Recorded by portal.access.task_access.
SESSIONS = {
    "entered.terminal": gettext_lazy("Opened a terminal"),
    "left.terminal": gettext_lazy("Closed the terminal after %(lasted)s"),
    "entered.ssh": gettext_lazy("Connected by SSH"),
    "left.ssh": gettext_lazy("Disconnected from SSH after %(lasted)s"),
    "entered": gettext_lazy("Connected (%(kind)s)"),
    "left": gettext_lazy("Disconnected (%(kind)s) after %(lasted)s"),
}

# (kind, state or verb) -> sentence with the event's params; "task" is "main.0", or "main" if alone.
SENTENCES: dict[tuple[str, str], str | Promise] = {
    ("job", "submitted"): gettext_lazy("Submitted to pool %(pool)s"),
    ("job", "stop_requested"): gettext_lazy("Stop requested"),
    ("job", "resize_requested"): gettext_lazy("Resize to slices of %(gpu)s requested"),
    ("job", "settled"): gettext_lazy("What could no longer be seen of it was settled: %(why)s"),
    ("job", "restored.runs"): gettext_lazy("A backup of %(made_at)s was restored; %(task_name)s still runs"),
    ("job", "restored.ended"): gettext_lazy("A backup of %(made_at)s was restored; %(task_name)s had ended meanwhile"),
    ("job", "restored.apart"): gettext_lazy(
        "A backup of %(made_at)s was restored; %(task_name)s still runs, outside of the platform's records"
    ),
    ("job", "restored.gone"): gettext_lazy("A backup of %(made_at)s was restored; nothing of %(task_name)s was found"),
    ("job", "restored.lost"): gettext_lazy("A backup of %(made_at)s was restored; %(task_name)s was lost before"),
    ("job", "restored.began"): gettext_lazy(
        "A backup of %(made_at)s was restored; %(task_name)s waited then and has begun since. The job is held"
    ),
    ("job", "changed"): gettext_lazy("Changed while waiting: %(changed)s"),
    ("job", "held"): gettext_lazy("Held: the job keeps its place and does not start"),
    ("job", "released"): gettext_lazy("Released: the job may start again"),
    ("job", "about_to_end"): gettext_lazy("The job is about to reach its time limit"),
    ("job", "idle_noticed"): gettext_lazy("Idle for %(minutes)s minutes: its owner was told"),
    ("job", "idle_reminded"): gettext_lazy("Idle for %(minutes)s minutes: its owner was told again"),
    ("job", "idle_warned"): gettext_lazy("Idle for %(minutes)s minutes: its owner was warned of what follows"),
    ("job", "idle_acted"): gettext_lazy("Idle for %(minutes)s minutes: what it holds is released"),
    ("job", "idle_lead_told"): gettext_lazy("Its owner has not seen that it is idle: a lead was told"),
    ("job", "idle_over"): gettext_lazy("It works again"),
    ("job", "idle_snoozed"): gettext_lazy("Kept until %(until)s, although it is idle"),
    ("job", "idle_exempted"): gettext_lazy("No rule about idle jobs holds until %(until)s: %(reason)s"),
    ("job", "idle_exemption_ended"): gettext_lazy("The rule about idle jobs holds again"),
    ("job", "idle_nudged"): gettext_lazy("Its owner was asked whether it is still needed"),
    ("job", "idle_released"): gettext_lazy("Idle for %(minutes)s minutes: what it holds was released by hand"),
    ("job", JobState.QUEUED): gettext_lazy("Queued again as attempt %(attempt)s"),
    ("job", JobState.STARTING): gettext_lazy("The job is starting"),
    ("job", JobState.RUNNING): gettext_lazy("The job is running"),
    ("job", JobState.STOPPING): gettext_lazy("The job is stopping"),
    ("job", JobState.SUCCEEDED): gettext_lazy("The job is done"),
    ("job", JobState.FAILED): gettext_lazy("The job failed"),
    ("job", JobState.CANCELLED): gettext_lazy("The job was cancelled"),
    ("task", TaskState.ASSIGNED): gettext_lazy("Task %(task)s was placed on %(node)s"),
    ("task", "ASSIGNED.near_data"): gettext_lazy(
        "Task %(task)s was placed on %(node)s, which holds %(held)s of the data it reads"
    ),
    ("task", TaskState.STARTING): gettext_lazy("Task %(task)s is starting"),
    ("task", TaskState.RUNNING): gettext_lazy("Task %(task)s is running"),
    ("task", TaskState.STOPPING): gettext_lazy("Task %(task)s was asked to stop"),
    ("task", TaskState.LOST): gettext_lazy("Task %(task)s can no longer be seen; it keeps its resources"),
    ("task", TaskState.STOPPED): gettext_lazy("Task %(task)s was stopped"),
    ("task", "STOPPED.saved"): gettext_lazy("Task %(task)s made room for others, %(lost)s after its last checkpoint"),
    ("task", "STOPPED.unsaved"): gettext_lazy(
        "Task %(task)s made room for others after %(lost)s without a checkpoint; that work is lost"
    ),
    ("task", "resized"): gettext_lazy("The slice of task %(task)s was resized from %(was)s to %(size)s"),
    ("task", "resize_refused"): gettext_lazy(
        "The slice of task %(task)s stays at %(was)s instead of %(size)s. %(why)s"
    ),
    ("task", TaskState.SUCCEEDED): gettext_lazy("Task %(task)s succeeded"),
    ("task", TaskState.FAILED): gettext_lazy("Task %(task)s failed"),
    ("notebook", "created"): gettext_lazy("The notebook was created"),
    ("notebook", "started"): gettext_lazy("The notebook starts as %(job)s"),
    ("notebook", "ready"): gettext_lazy("The notebook can be opened"),
    ("notebook", "stop_requested"): gettext_lazy("Stop requested"),
    ("notebook", "changed"): gettext_lazy("The settings were changed"),
    ("notebook", "extended"): gettext_lazy("Extended by %(hours)s hours"),
    ("notebook", "about_to_end"): gettext_lazy("The notebook is about to end"),
    ("notebook", "time_over"): gettext_lazy("The time limit was reached"),
    ("notebook", "idle_on_cpu"): gettext_lazy("Its GPU was released; it starts anew without one, as %(job)s"),
    ("notebook", "idle_resume_requested"): gettext_lazy("To be started on its GPU again"),
    ("notebook", "idle_resumed"): gettext_lazy("It starts on its GPU again, as %(job)s"),
    ("notebook", "idle_not_started"): gettext_lazy("It could not be started anew; its files are kept"),
    ("notebook", "deleted"): gettext_lazy("The notebook was deleted"),
    ("webhook", "created"): gettext_lazy("The webhook “%(name)s” was created"),
    ("webhook", "changed"): gettext_lazy("The webhook “%(name)s” was changed"),
    ("webhook", "secret_changed"): gettext_lazy("The webhook “%(name)s” got a new secret"),
    ("webhook", "tested"): gettext_lazy("The webhook “%(name)s” was tested"),
    ("webhook", "disabled"): gettext_lazy("The webhook was disabled"),
    ("webhook", "deleted"): gettext_lazy("The webhook “%(name)s” was deleted"),
    ("user", "ssh_key_added"): gettext_lazy("The SSH key “%(name)s” was added"),
    ("user", "ssh_key_removed"): gettext_lazy("The SSH key “%(name)s” was removed"),
    ("user", "away_reminded"): gettext_lazy("Away for %(days)s days: reminded of what is still held"),
    ("user", "suspended"): gettext_lazy("Suspended"),
    ("user", "readmitted"): gettext_lazy("Access restored"),
    ("quota", "made"): gettext_lazy("The quota was created"),
    ("quota", "changed"): gettext_lazy("The quota was changed"),
    ("quota", "deleted"): gettext_lazy("The quota was deleted"),
    ("pool", "made"): gettext_lazy("The pool was created"),
    ("pool", "changed"): gettext_lazy("The pool's policy was changed"),
    ("window", "made"): gettext_lazy("The lending window was created"),
    ("window", "changed"): gettext_lazy("The lending window was changed"),
    ("window", "deleted"): gettext_lazy("The lending window was deleted"),
    ("user_limit", "limit.made"): gettext_lazy("The limits were set"),
    ("user_limit", "limit.changed"): gettext_lazy("The limits were changed"),
    ("alert", AlertState.FIRING): gettext_lazy("The alert fires: %(label)s"),
    ("alert", AlertState.NO_DATA): gettext_lazy("What the alert looks at is not known any more: %(label)s"),
    ("alert", AlertState.RESOLVED): gettext_lazy("The alert ended: %(label)s"),
    ("alert", "acknowledged"): gettext_lazy("The alert was acknowledged"),
    ("alert", "acted"): gettext_lazy("The machine %(node)s was taken out of service"),
    ("alert", "undone"): gettext_lazy("The machine %(node)s was taken back into service"),
    ("alert_rule", "made"): gettext_lazy("The alert rule was created"),
    ("alert_rule", "changed"): gettext_lazy("The alert rule was changed"),
    ("alert_rule", "deleted"): gettext_lazy("The alert rule was deleted"),
    ("price", "made"): gettext_lazy("A price of GPU-hours was set"),
    ("price", "deleted"): gettext_lazy("A price of GPU-hours was deleted"),
    ("silence", "made"): gettext_lazy("A silence was made: %(why)s"),
    ("silence", "ended"): gettext_lazy("The silence was ended"),
    **{(kind, verb): words for kind in ("job", "notebook") for verb, words in SESSIONS.items()},
}


def _describe_changes(changes: dict[str, dict]) -> str:
    return ", ".join(
        _("%(key)s from %(was)s to %(now)s") % {"key": key, **{name: _or_none(said[name]) for name in ("was", "now")}}
        for key, said in changes.items()
    )


def _or_none(value: object) -> str:
    return _("none") if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def describe_event(row: Event, *, alone: bool = False) -> str:
    """Return the sentence in the active language. alone: the job has no other task.

    Never fails: older events may lack values or a sentence.
    """
    about = row.to_state or row.verb.removeprefix(f"{row.kind}.")
    params = {name: str(value) for name, value in row.params.items()}
    if isinstance(pools := row.params.get("pools"), list):
        params["pool"] = list_alternatives(pools)
    params["task"] = params.get("role", "") if alone else f"{params.get('role', '')}.{params.get('rank', '')}"
    if (gpus := row.params.get("gpus")) and isinstance(gpus, list):
        params["node"] = _("%(node)s (GPU %(gpus)s)") % {
            "node": params.get("node", "?"),
            "gpus": ", ".join(str(gpu).rpartition(":")[2] for gpu in gpus),
        }
    if "seconds" in row.params:
        params["lasted"] = show_duration(row.params["seconds"])
    if "held_bytes" in row.params:
        params["held"] = show_bytes(row.params["held_bytes"])
    if "to_mib" in row.params:
        params |= {"was": show_memory(row.params.get("from_mib", 0)), "size": show_memory(row.params["to_mib"])}
        params["why"] = describe_resize_refusal(row.params)
    if "changes" in row.params:
        params["changed"] = _describe_changes(row.params["changes"])
    if until := parse_datetime(params.get("until", "")):
        params["until"] = date_format(until, "DATETIME_FORMAT")
    if "lost_s" in row.params:
        params["lost"] = show_duration(row.params["lost_s"])
    known = SENTENCES.get((row.kind, f"{about}.{params.get('kind')}"), SENTENCES.get((row.kind, about), row.type))
    return str(known) % fill_gaps(params)

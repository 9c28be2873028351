"""Events as sentences in the reader's language."""

from collections.abc import Iterable

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from cluster.models import Node, NodeState
from common.amounts import show_bytes
from common.error_messages import fill_gaps
from common.resources import show_duration, show_memory
from events.models import Event
from jobs.reason_messages import describe_resize_refusal
from jobs.states import JobState, TaskState
from monitoring.models import AlertState
from portal.wording.resources import list_alternatives
from services.canaries.messages import describe_breach
from services.canaries.trials import WENT_BACK

# Recorded by portal.access.task_access.
SESSIONS = {
    "entered.terminal": gettext_lazy("Opened a terminal"),
    "left.terminal": gettext_lazy("Closed the terminal after %(lasted)s"),
    "entered.ssh": gettext_lazy("Connected by SSH"),
    "left.ssh": gettext_lazy("Disconnected from SSH after %(lasted)s"),
    "entered": gettext_lazy("Connected (%(kind)s)"),
    "left": gettext_lazy("Disconnected (%(kind)s) after %(lasted)s"),
}

# Recorded by accounts.directory.
DIRECTORY = {
    ("user", "made"): gettext_lazy("The account was created"),
    ("user", "changed"): gettext_lazy("The account was changed"),
    ("user", "suspended"): gettext_lazy("Access was suspended"),
    ("user", "readmitted"): gettext_lazy("Access was restored"),
    ("user", "link_made"): gettext_lazy("A sign-in link was created"),
    ("user", "joined"): gettext_lazy("Joined team %(team)s by an invitation"),
    ("user", "token_made"): gettext_lazy("The token “%(name)s” was created"),
    ("user", "token_revoked"): gettext_lazy("The token “%(name)s” was revoked"),
    ("announcement", "made"): gettext_lazy("The announcement was made"),
    ("announcement", "changed"): gettext_lazy("The announcement was changed"),
    ("announcement", "ended"): gettext_lazy("The announcement was ended"),
    ("team", "made"): gettext_lazy("The team was created"),
    ("team", "changed"): gettext_lazy("The team was changed"),
    ("team", "invited"): gettext_lazy("An invitation as %(role)s was created"),
    ("team", "member_added"): gettext_lazy("%(person)s was added as %(role)s"),
    ("team", "member_changed"): gettext_lazy("The role of %(person)s became %(role)s"),
    ("team", "member_removed"): gettext_lazy("%(person)s was removed"),
}

MACHINES = {
    ("node", "added"): gettext_lazy("The machine was added, with %(gpus)s GPUs"),
    ("node", "changed"): gettext_lazy("The machine was changed"),
    ("node", "maintenance_planned"): gettext_lazy("Maintenance was planned: %(from)s to %(until)s. %(why)s"),
    ("node", "maintenance_ended"): gettext_lazy(
        "The maintenance from %(from)s to %(until)s was cancelled or has ended"
    ),
    ("node", "gpu.added"): gettext_lazy("Card %(gpu)s was added to pool %(pool)s"),
    ("node", "gpu.changed"): gettext_lazy("Card %(gpu)s was changed"),
    ("node", "gpu.gone"): gettext_lazy("Card %(gpu)s was removed"),
    ("node", "gpu.broken"): gettext_lazy("Card %(gpu)s is out of service: %(why)s"),
    ("node", "gpu.sound"): gettext_lazy("Card %(gpu)s is in service again"),
    ("node", NodeState.READY): gettext_lazy("The machine is ready"),
    ("node", NodeState.CORDONED): gettext_lazy("Cordoned: running work continues, nothing new starts"),
    ("node", NodeState.DRAINING): gettext_lazy(
        "Draining: nothing new starts, and jobs that can be queued again are stopped"
    ),
    ("node", NodeState.SUSPECT): gettext_lazy("The machine is suspect: nothing new starts"),
    ("node", NodeState.NOT_READY): gettext_lazy("The machine is not ready"),
    ("enrolment", "invited"): gettext_lazy("The machine was invited"),
    ("agent", "enrolled"): gettext_lazy("The agent has a key, by the invitation of %(invited_by)s"),
    ("agent", "approved"): gettext_lazy("What the agent reported was approved"),
    ("agent", "revoked"): gettext_lazy("The agent's key was revoked"),
}

# (kind, state or verb) -> sentence with the event's params; "task" is "main.0", or "main" if alone.
SENTENCES: dict[tuple[str, str], str | Promise] = {
    ("job", "submitted"): gettext_lazy("Submitted to pool %(pool)s"),
    ("job", "token_made"): gettext_lazy("Its tasks got the token %(prefix)s… (%(scopes)s), until they end"),
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
    ("job", "labels_changed"): gettext_lazy("Labels set: %(set)s"),
    ("job", "labels_changed.removed"): gettext_lazy("Labels removed: %(removed)s"),
    ("job", "labels_changed.both"): gettext_lazy("Labels set: %(set)s; removed: %(removed)s"),
    ("job", "held"): gettext_lazy("Held: the job keeps its place and does not start"),
    ("job", "dependencies_met"): gettext_lazy("The jobs that it waited for have ended: %(jobs)s"),
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
    ("job", "stop_warned"): gettext_lazy("An alert rule stops the job at %(until)s, unless the alert ends before"),
    ("job", "stop_called_off"): gettext_lazy("The alert rule does not stop the job"),
    ("job", "shared"): gettext_lazy("Opened to %(person)s"),
    ("job", "share_ended"): gettext_lazy("No longer open to %(person)s"),
    ("job", "visited"): gettext_lazy("Visited in the browser by a colleague"),
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
    ("notebook", "token_made"): gettext_lazy("The address for editors “%(name)s” was created"),
    ("notebook", "token_ended"): gettext_lazy("The address for editors “%(name)s” was ended"),
    ("notebook", "deleted"): gettext_lazy("The notebook was deleted"),
    ("secret", "set"): gettext_lazy("The secret %(name)s was set, version %(version)s"),
    ("secret", "deleted"): gettext_lazy("The secret %(name)s was deleted"),
    ("array", "submitted"): gettext_lazy("Submitted, with %(total)s elements"),
    ("array", "stop_requested"): gettext_lazy("Stop requested"),
    ("array", "retry_asked"): gettext_lazy("Elements are queued again"),
    ("array", "halted"): gettext_lazy("An element was refused, and no more are made"),
    ("array", "ended"): gettext_lazy(
        "All elements have ended: %(succeeded)s done, %(failed)s failed, %(cancelled)s cancelled"
    ),
    ("service", "created"): gettext_lazy("The service “%(name)s” was created"),
    ("service", "revised"): gettext_lazy("Revision %(revision)s is rolled out"),
    ("service", "rolled_back"): gettext_lazy("Revision %(revision)s is rolled out once more"),
    ("service", "tried"): gettext_lazy("Revision %(revision)s is tried as a canary"),
    ("service", "passed"): gettext_lazy("Revision %(revision)s passed as a canary"),
    ("service", "went_back"): gettext_lazy("Revision %(revision)s went back. %(breach)s"),
    ("service", "promoted_early"): gettext_lazy(
        "Revision %(revision)s takes over before the end of its time as a canary"
    ),
    ("service", "scaled"): gettext_lazy("There may be %(replicas)s replicas now"),
    ("service", "promoted"): gettext_lazy("Revision %(revision)s answers"),
    ("service", "failed"): gettext_lazy("Revision %(revision)s failed: %(job)s ended by itself"),
    ("service", "woken"): gettext_lazy("The service was woken by hand"),
    ("service", "slept"): gettext_lazy("The service was put to sleep by hand"),
    ("service", "stopped"): gettext_lazy("The service was stopped"),
    ("service", "key_made"): gettext_lazy("The key “%(name)s” was made"),
    ("service", "key_limited"): gettext_lazy("The limits of the key “%(name)s” were changed"),
    ("service", "key_ended"): gettext_lazy("The key “%(name)s” was ended"),
    ("service", "deleted"): gettext_lazy("The service “%(name)s” was deleted"),
    ("schedule", "created"): gettext_lazy("The schedule “%(name)s” was created"),
    ("schedule", "changed"): gettext_lazy("The schedule was changed"),
    ("schedule", "file_changed"): gettext_lazy("The schedule's job file was changed"),
    ("schedule", "suspended"): gettext_lazy("The schedule was suspended"),
    ("schedule", "resumed"): gettext_lazy("The schedule was resumed"),
    ("schedule", "run_asked"): gettext_lazy("A run by hand was asked for"),
    ("schedule", "refused"): gettext_lazy("The schedule's job was refused"),
    ("schedule", "deleted"): gettext_lazy("The schedule “%(name)s” was deleted"),
    ("dataset", "version_added"): gettext_lazy("Version %(version)s of %(name)s was begun, of %(from)s"),
    ("dataset", "changed"): gettext_lazy("The dataset %(name)s was changed"),
    ("dataset_version", "ready"): gettext_lazy("Version %(version)s of %(name)s is ready"),
    ("dataset_version", "failed"): gettext_lazy("Version %(version)s of %(name)s could not be made"),
    ("dataset_version", "deleted"): gettext_lazy("Version %(version)s of %(name)s was deleted"),
    ("template", "created"): gettext_lazy("The template “%(name)s” was created"),
    ("template", "changed"): gettext_lazy("The template “%(name)s” got version %(version)s"),
    ("template", "archived"): gettext_lazy("The template “%(name)s” was archived"),
    ("template", "restored"): gettext_lazy("The template “%(name)s” was restored"),
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
    ("volume", "made"): gettext_lazy("The volume was named"),
    ("volume", "changed"): gettext_lazy("The volume was changed"),
    ("volume", "deleted"): gettext_lazy("The volume was forgotten"),
    ("image", "made"): gettext_lazy("The image was added to the catalogue"),
    ("image", "changed"): gettext_lazy("The image was changed"),
    ("image", "deleted"): gettext_lazy("The image was removed from the catalogue"),
    ("login", "made"): gettext_lazy("The registry login of %(user)s was added"),
    ("login", "changed"): gettext_lazy("The registry login of %(user)s was changed"),
    ("login", "deleted"): gettext_lazy("The registry login of %(user)s was deleted"),
    ("quota", "made"): gettext_lazy("The quota was created"),
    ("quota", "made.until"): gettext_lazy("The quota was created until %(until)s"),
    ("quota", "changed"): gettext_lazy("The quota was changed"),
    ("quota", "changed.until"): gettext_lazy("The quota was changed until %(until)s"),
    ("quota", "until_changed"): gettext_lazy("What is changed for a time holds until %(until)s now"),
    ("quota", "kept"): gettext_lazy("What was changed for a time lasts"),
    ("quota", "returned"): gettext_lazy("The quota returned to what it was"),
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
    ("alert", "card_drained"): gettext_lazy("The card %(card)s takes nothing new"),
    ("alert", "card_undone"): gettext_lazy("The card %(card)s was taken back into service"),
    ("alert", "warned"): gettext_lazy("The owner of %(job)s was warned: it is stopped at %(until)s"),
    ("alert", "stopped"): gettext_lazy("%(job)s was stopped"),
    ("alert", "called_off"): gettext_lazy("%(job)s is not stopped"),
    ("alert", "requeued"): gettext_lazy("%(job)s was queued again"),
    ("idle_rule", "made"): gettext_lazy("The idle rule was created"),
    ("idle_rule", "changed"): gettext_lazy("The idle rule was changed"),
    ("idle_rule", "deleted"): gettext_lazy("The idle rule was deleted"),
    ("alert_rule", "made"): gettext_lazy("The alert rule was created"),
    ("alert_rule", "changed"): gettext_lazy("The alert rule was changed"),
    ("alert_rule", "deleted"): gettext_lazy("The alert rule was deleted"),
    ("price", "made"): gettext_lazy("A price of GPU-hours was set"),
    ("price", "deleted"): gettext_lazy("A price of GPU-hours was deleted"),
    ("silence", "made"): gettext_lazy("A silence was made: %(why)s"),
    ("silence", "ended"): gettext_lazy("The silence was ended"),
    **DIRECTORY,
    **MACHINES,
    **{(kind, verb): words for kind in ("job", "notebook") for verb, words in SESSIONS.items()},
}


def _describe_changes(changes: dict[str, dict]) -> str:
    return ", ".join(
        _("%(key)s from %(was)s to %(now)s") % {"key": key, **{name: _or_none(said[name]) for name in ("was", "now")}}
        for key, said in changes.items()
    )


def _or_none(value: object) -> str:
    return _("none") if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _describe_place(params: dict) -> dict[str, str]:
    """Return {"node": the machine with the GPUs and NUMA nodes on it}, nothing where only the machine is known."""
    place = str(params.get("node", "?"))
    gpus, numa = (params.get(name) or [] for name in ("gpus", "numa"))
    if isinstance(gpus, list) and gpus:
        place = _("%(node)s (GPU %(gpus)s)") % {"node": place, "gpus": _list_numbers(gpus)}
    if isinstance(numa, list) and numa:
        words = ngettext("%(node)s, NUMA node %(numa)s", "%(node)s, NUMA nodes %(numa)s", len(numa))
        place = words % {"node": place, "numa": _list_numbers(numa)}
    return {"node": place} if gpus or numa else {}


def _list_numbers(places: Iterable) -> str:
    return ", ".join(str(place).rpartition(":")[2] for place in places)


def describe_event(row: Event, *, alone: bool = False) -> str:
    """Return the sentence in the active language. alone: the job has no other task.

    Never fails: older events may lack values or a sentence.
    """
    about = row.to_state or row.verb.removeprefix(f"{row.kind}.")
    params = {name: str(value) for name, value in row.params.items()}
    if isinstance(pools := row.params.get("pools"), list):
        params["pool"] = list_alternatives(pools)
    if isinstance(jobs := row.params.get("jobs"), list):
        params["jobs"] = ", ".join(jobs)
    params["task"] = params.get("role", "") if alone else f"{params.get('role', '')}.{params.get('rank', '')}"
    params |= _describe_place(row.params)
    if "seconds" in row.params:
        params["lasted"] = show_duration(row.params["seconds"])
    if "held_bytes" in row.params:
        params["held"] = show_bytes(row.params["held_bytes"])
    if "to_mib" in row.params:
        params |= {"was": show_memory(row.params.get("from_mib", 0)), "size": show_memory(row.params["to_mib"])}
        params["why"] = describe_resize_refusal(row.params)
    if "changes" in row.params:
        params["changed"] = _describe_changes(row.params["changes"])
    for name in ("from", "until"):
        if moment := parse_datetime(params.get(name, "")):
            params[name] = date_format(timezone.localtime(moment), "DATETIME_FORMAT")
    if about == WENT_BACK:
        params["breach"] = describe_breach(row.params)
    if "lost_s" in row.params:
        params["lost"] = show_duration(row.params["lost_s"])
    known = SENTENCES.get((row.kind, f"{about}.{params.get('kind')}"), SENTENCES.get((row.kind, about), row.type))
    why = f". {params['why']}" if row.kind == Node.KIND and row.to_state and params.get("why") else ""
    return str(known) % fill_gaps(params) + why

"""Sentences for the errors of jobs, and for the reasons why they wait and end."""

from collections import defaultdict

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from common.amounts import show_params
from jobs.states import REASONS

FIELD_MESSAGES = {
    "choose_team": _("You are in several teams. Name one of them as team: %(known)s."),
    "code_not_uploaded": _(
        "“code: .” means the directory you stand in, which only the command line can see. Upload it in the "
        "form, or submit with tessera."
    ),
    "grace_beyond_pool": _(
        "Pool %(pool)s gives a job %(max)s at most for its checkpoint, not %(got)s. Lower the grace, or choose another "
        "pool."
    ),
    "impossible_cpu_milli": _(
        "No node in pool %(pool)s can give one task %(asked)s CPU cores. Ask for %(largest)s at most."
    ),
    "impossible_cpu_milli.none": _(
        "No node in pool %(pool)s can give a task CPU cores. Choose another pool, or ask an administrator to "
        "add a node."
    ),
    "impossible_gpu_instance": _(
        "An instance of a card is given whole, one to a task, and to those who name its model. Ask pool %(pool)s for "
        "%(largest)s."
    ),
    "impossible_gpu_memory_mib": _(
        "No card in pool %(pool)s has %(asked)s of GPU memory for one slice. Ask for %(largest)s at most, or "
        "for a whole card."
    ),
    "impossible_gpu_milli": _("Pool %(pool)s can never give %(asked)s GPUs to one job. Ask for %(largest)s at most."),
    "impossible_gpu_model": _("Pool %(pool)s has no %(asked)s card. Ask for one of its models: %(largest)s."),
    "impossible_gpu_model.none": _("Pool %(pool)s has no %(asked)s card. Choose another pool or leave the GPU out."),
    "impossible_gpu_sharing": _(
        "The cards of pool %(pool)s are given out whole, so a part of one (%(asked)s) is not possible there. "
        "Ask for 1, or choose a shared pool."
    ),
    "impossible_gpus": _(
        "No node in pool %(pool)s has %(asked)s such GPUs; the largest has %(largest)s. Ask for %(largest)s at "
        "most, or spread the job over more nodes."
    ),
    "impossible_gpus.none": _("Pool %(pool)s has no GPU. Choose another pool or leave the GPU out."),
    "impossible_memory_mib": _(
        "No node in pool %(pool)s can give one task %(asked)s of memory. Ask for %(largest)s at most."
    ),
    "impossible_memory_mib.none": _(
        "No node in pool %(pool)s can give a task memory. Choose another pool, or ask an administrator to add a node."
    ),
    "impossible_tasks": _(
        "Only %(largest)s of the %(asked)s tasks fit into pool %(pool)s at the same time, even when it is "
        "empty. Ask for %(largest)s nodes at most, or for less on each."
    ),
    "impossible_tasks.none": _(
        "Not one of the %(asked)s tasks fits into pool %(pool)s, even when it is empty. Ask for less on each node."
    ),
    "no_containers": _(
        "This installation starts programs without containers, so it cannot use an image. Leave image out."
    ),
    "no_quota": _(
        "The team %(team)s has no quota in pool %(pool)s. Choose one of its pools (%(known)s), or ask an "
        "administrator for quota."
    ),
    "no_quota.none": _(
        "The team %(team)s has no quota in pool %(pool)s, nor in any other. Ask an administrator for quota."
    ),
    "no_quota_at_all": _("The team %(team)s has no quota in any pool. Ask an administrator for quota."),
    "no_such_task": _("No task “%(got)s” of this job runs. Write it like main.0, or leave it out for all."),
    "no_team": _(
        "You are in no team yet, and every job belongs to one. Ask an administrator for an invitation to a team."
    ),
    "not_a_slice": _("“%(got)s” is no slice of one card. Write a part such as 1/2, or an amount such as 12GB."),
    "rate_policy": _(
        "Your limit is %(limit)s jobs running at once, so this one could never start. Ask an administrator for "
        "a higher limit."
    ),
    "team_limit": _(
        "The team %(team)s may never hold more than %(limit)s %(resource)s in pool %(pool)s, and this asks for "
        "%(asked)s. Ask for less, or for a higher limit."
    ),
    "team_limit.memory_mib": _(
        "The team %(team)s may never hold more than %(limit)s of memory in pool %(pool)s, and this asks for "
        "%(asked)s. Ask for less, or for a higher limit."
    ),
    "unknown_code": _(
        "You have uploaded no code with the digest “%(digest)s”. Upload it first, or submit from its directory "
        "with tessera."
    ),
    "unknown_pool": _("There is no pool “%(pool)s”. Choose one of: %(known)s."),
    "unknown_pool.none": _(
        "There is no pool “%(pool)s”, and the team %(team)s has no quota in any. Ask an administrator for quota."
    ),
    "unknown_team": _("You are in no team “%(team)s”. Choose one of yours: %(known)s."),
    "unknown_team.none": _(
        "You are in no team yet, and every job belongs to one. Ask an administrator for an invitation to a team."
    ),
    "user_limit": _(
        "You may never hold more than %(limit)s %(resource)s, and this asks for %(asked)s. Ask for less, or for "
        "a higher limit."
    ),
    "user_limit.memory_mib": _(
        "You may never hold more than %(limit)s of memory, and this asks for %(asked)s. Ask for less, or for a "
        "higher limit."
    ),
}
WAITS_YET = _("%(name)s waits in the queue. It can be entered as soon as it runs.")
STARTS_NOW = _("%(name)s is just starting. Try again in a moment.")
ERROR_MESSAGES = {
    "not_running": _("%(name)s is not running, so nobody can enter it. Wait until it runs, or start it again."),
    "not_running.assigned": STARTS_NOW,
    "not_running.pending": WAITS_YET,
    "not_running.queued": WAITS_YET,
    "not_running.starting": STARTS_NOW,
    "only_ended_jobs": _("Only a job that has ended can be tried again. Stop it first, or wait for its end."),
    "only_running_jobs": _("Only what runs can be given another size. Wait until it runs, or submit it anew."),
    "only_waiting_jobs": _("Only a waiting job can be held, and this one has left the queue. Stop it instead."),
    "resize_above_card": _(
        "%(asked)s is not less than its whole card, which has %(largest)s. Ask for less, or submit it anew for a whole "
        "card."
    ),
    "resize_below_use": _(
        "%(task)s uses %(used)s of GPU memory, so its slice cannot be made %(asked)s. Ask for more than that, or let "
        "it free some first."
    ),
    "resize_by_mps": _(
        "It runs by MPS, whose limit was set at its start: its slice can become smaller, and no larger. Submit it anew."
    ),
    "resize_kept_otherwise": _(
        "Its card holds slices by “%(mode)s”, whose limits are set at a task's start. Submit it anew with the size "
        "that you need."
    ),
    "resize_no_card": _("It has no GPU, so there is no slice to resize. Submit it anew with what you need."),
    "resize_no_room": _(
        "%(gpu)s has %(free)s of memory free, and this takes %(asked)s more. Ask for less, or wait until somebody on "
        "the card ends."
    ),
    "resize_not_here": _(
        "Slices keep the size that they started with on this cluster: its machines count a card's memory by what a "
        "task was started with. Submit the job anew with the size that you need."
    ),
    "resize_under_way": _("Its slice is being resized already. Look again in a moment."),
    "resize_whole_card": _("It has whole cards, which cannot be resized. Submit it anew with what you need."),
    "tensorboard_failed": _("TensorBoard did not come up in this job: %(words)s"),
}
# Why a job waits. Params come formatted.
WAIT_REASONS: dict[str, str | Promise] = {
    "ahead_in_queue": _("%(n)s jobs ahead of it need the same resources first"),
    "ahead_in_queue.one": _("one job ahead of it needs the same resources first"),
    "making_room": _("room is being made for it: %(n)s jobs with less right to their place are being stopped"),
    "making_room.one": _("room is being made for it: a job with less right to its place is being stopped"),
    "maintenance": _(
        "it would still run when %(nodes)s goes into maintenance, from %(at)s until %(until)s; "
        "with a `time` that ends before, it may start now"
    ),
    "maintenance.several": _(
        "it would still run when %(n)s machines go into maintenance, from %(at)s until %(until)s; "
        "with a `time` that ends before, it may start now"
    ),
    "maintenance.now": _("%(nodes)s is in maintenance until %(until)s"),
    "maintenance.now.several": _("%(n)s machines are in maintenance until %(until)s"),
    "reserved_for_larger": _(
        "what is free is kept for a job that starts at about %(at)s; with a `time` that ends before, it may start now"
    ),
    "reserved_for_larger.unknown": _(
        "what is free is kept for a job that is waiting for more; a job that says its `time` may pass it"
    ),
    "borrow_denied": _(
        "what is free beyond your team's guarantee is promised to %(teams)s; "
        "a job with `preemptible: true` may borrow it"
    ),
    "borrow_denied.nodes": _(
        "what is free beyond your team's guarantee is promised to %(teams)s as whole nodes of %(cards)s cards; "
        "a job with `preemptible: true` may borrow it"
    ),
    "no_fit_now": _("%(resource)s: it asks for %(ask)s; the best node has %(best)s free, of %(free)s free in all"),
    "no_fit_now.slice": _(
        "no card has room for it: the best has %(free_mib)s of memory free, and the slice needs %(need_mib)s"
    ),
    "no_fit_now.shared": _(
        "each card with enough free memory serves as many tasks, or has given as much compute, as it can"
    ),
    "gang_incomplete": _("%(have)s of %(need)s tasks fit together now; all start together or none"),
    "fragmented": _("enough is free overall, in pieces too small"),
    "team_limit": _("the team is at its limit of %(resource)s: %(used)s of %(limit)s used, and it asks for %(ask)s"),
    "user_limit": _("you are at your limit of %(resource)s: %(used)s of %(limit)s used, and it asks for %(ask)s"),
    "rate_policy": _("at most %(limit)s of a person's jobs run at once; %(used)s run now"),
    "model_unavailable": _("all %(models)s cards are taken or out of service"),
    "start_after": _("it is tried again after %(at)s"),
    "held": _("held by %(who)s"),
    "node_recovering": _("no node is ready; it is tried again as soon as one is"),
    "impossible": _(
        "nothing here can ever give the %(asked)s of %(field)s that it asks for; the largest is %(largest)s"
    ),
    "unexplained": _("the scheduler has not looked at it yet"),
}
RESIZE_REFUSED = {
    "gpu": _("Its card has no room for more now."),
    "team_limit": _("The team is at its limit of GPUs."),
    "user_limit": _("Its owner is at the limit of GPUs."),
    "quota": _("The team has no quota in this pool any more."),
}
"""What had no room for a larger slice; a refusal by the runtime is shown in its own words."""


def describe_wait(reason: dict) -> str:
    """Return an entry of Job.wait_reasons as a sentence."""
    code, params = reason["code"], reason.get("params", {})
    template = WAIT_REASONS.get(_variant(code, params), WAIT_REASONS["unexplained"])
    return str(template) % defaultdict(lambda: gettext("some"), show_params(params))  # old records lack values


def _variant(code: str, params: dict) -> str:
    """Return the template's key: plural, or for a slice what it is short of."""
    if code in {"ahead_in_queue", "making_room"} and params.get("n") == 1:
        return f"{code}.one"
    if code == "maintenance":
        return code + (".now" if "at" not in params else "") + (".several" if params.get("n", 1) > 1 else "")
    if code == "borrow_denied" and "cards" in params:
        return f"{code}.nodes"
    if code == "reserved_for_larger" and "at" not in params:
        return f"{code}.unknown"
    if code != "no_fit_now" or "need_mib" not in params:
        return code
    return f"{code}.slice" if params["free_mib"] < params["need_mib"] else f"{code}.shared"


def describe_end(code: str) -> str:
    return str(REASONS[code].words) if code in REASONS else code.replace("_", " ")


def end_hint(code: str) -> str:
    return str(REASONS[code].hint) if code in REASONS else ""


def describe_resize_refusal(refused: dict | None) -> str:
    if not refused:
        return ""
    return str(RESIZE_REFUSED.get(refused.get("kind", ""), "")) or str(
        refused.get("detail") or gettext("It was refused.")
    )

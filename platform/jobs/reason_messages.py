"""Sentences for the reasons why jobs wait and end."""

from collections import defaultdict

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from common.amounts import show_params
from jobs.states import REASONS

UNEXPLAINED = "unexplained"
"""Why a job waits before its first cycle."""

# Why a job waits. Params come formatted.
WAIT_REASONS: dict[str, str | Promise] = {
    "ahead_in_queue": _("%(n)s jobs ahead need the same resources first"),
    "ahead_in_queue.one": _("one job ahead needs the same resources first"),
    "making_room": _("room is being made: %(n)s jobs that rank lower are being stopped"),
    "making_room.one": _("room is being made: a job that ranks lower is being stopped"),
    "emptying": _("machines are being emptied for it; it is expected to start at about %(at)s"),
    "emptying.by": _("machines are being emptied for it; it starts at %(by)s at the latest, unless machines fail"),
    "emptying.unknown": _("machines are being emptied for it; when the jobs there end is not known"),
    "maintenance": _(
        "the job would still be running when %(nodes)s goes into maintenance, from %(at)s until %(until)s; a job with "
        "a `time` that ends before does not wait for that"
    ),
    "maintenance.several": _(
        "the job would still be running when %(n)s machines go into maintenance, from %(at)s until %(until)s; "
        "a job with a `time` that ends before does not wait for that"
    ),
    "maintenance.taken": _(
        "the job gives no `time`, so it is taken to last %(taken_s)s (what such jobs of the pool take; 24h while "
        "there are few), and %(nodes)s goes into maintenance from %(at)s until %(until)s; a job with a `time` that "
        "ends before does not wait for that"
    ),
    "maintenance.taken.several": _(
        "the job gives no `time`, so it is taken to last %(taken_s)s (what such jobs of the pool take; 24h while "
        "there are few), and %(n)s machines go into maintenance from %(at)s until %(until)s; a job with a `time` that "
        "ends before does not wait for that"
    ),
    "maintenance.predicted": _(
        "such jobs may last %(taken_s)s (nine in ten do not last longer), and %(nodes)s goes into maintenance from "
        "%(at)s until %(until)s"
    ),
    "maintenance.predicted.several": _(
        "such jobs may last %(taken_s)s (nine in ten do not last longer), and %(n)s machines go into maintenance from "
        "%(at)s until %(until)s"
    ),
    "maintenance.now": _("%(nodes)s is under maintenance until %(until)s"),
    "maintenance.now.several": _("%(n)s machines are under maintenance until %(until)s"),
    "reserved_for_larger": _(
        "free resources are reserved for a job that starts at about %(at)s; a job with a `time` that ends before "
        "can go ahead of it"
    ),
    "reserved_for_larger.unknown": _(
        "free resources are reserved for a larger job; a job with a `time` can go ahead of it"
    ),
    "reserved_for_larger.drained": _(
        "the free machines are being emptied for a job that waited long and starts at about %(at)s; a job with a "
        "`max_time` that ends before can go ahead of it"
    ),
    "reserved_for_larger.drained.unknown": _(
        "the free machines are being emptied for a job that waited long; when it starts is not known"
    ),
    "borrow_denied": _(
        "free resources beyond your team's guarantee are promised to %(teams)s; a job with `preemptible: true` "
        "can borrow them"
    ),
    "borrow_denied.nodes": _(
        "free resources beyond your team's guarantee are promised to %(teams)s as whole nodes of %(cards)s "
        "cards; a job with `preemptible: true` can borrow them"
    ),
    "no_fit_now": _(
        "not enough free %(resource)s: %(ask)s needed, %(best)s free on the best node, %(free)s free in total"
    ),
    "no_fit_now.beside": _(
        "no node with the GPUs free has enough %(resource)s beside them: %(ask)s needed, %(best)s free on the best"
    ),
    "no_fit_now.cards": _(
        "not enough whole GPUs are free on one node: %(ask)s needed, %(best)s free on the best node, %(free)s in all"
    ),
    "no_fit_now.parts": _(
        "not enough whole GPUs are free on one node: %(ask)s needed, %(best)s free on the best node, %(free)s in all; "
        "what else is free, %(parts_gpu_milli)s, is parts of cards"
    ),
    "no_fit_now.unusable": _("no node that takes work now has a card that suits this job"),
    "no_fit_now.slice": _(
        "no card has enough free memory: the best has %(free_mib)s free, and the slice needs %(need_mib)s"
    ),
    "no_fit_now.shared": _("every card with enough free memory already has its maximum of tasks or compute"),
    "no_fit_now.rdma": _("no node that takes work now has an RDMA adapter with a link"),
    "gang_incomplete": _("only %(have)s of %(need)s tasks fit now; all of them must start together"),
    "gang_incomplete.none": _("not all %(need)s tasks fit now; all of them must start together"),
    "fits_only_apart.switch": _(
        "its %(need)s tasks must share one switch, and the one with most room, %(domain)s, has room for %(best)s now"
    ),
    "fits_only_apart.switch.none": _("its %(need)s tasks must share one switch, and none has room for all of them now"),
    "fits_only_apart.node": _(
        "its %(need)s tasks must share one node, and the one with most room, %(domain)s, has room for %(best)s now"
    ),
    "fits_only_apart.node.none": _("its %(need)s tasks must share one node, and none has room for all of them now"),
    "fragmented": _("enough is free in total, but in pieces that are too small"),
    "team_limit": _("the team is at its limit of %(resource)s: %(used)s of %(limit)s used, %(ask)s needed"),
    "user_limit": _("you are at your limit of %(resource)s: %(used)s of %(limit)s used, %(ask)s needed"),
    "rate_policy": _("a person can run at most %(limit)s jobs at once, and %(used)s are running"),
    "model_unavailable": _("no card of model %(models)s has room for this job now"),
    "dependency": _("it starts after %(jobs)s"),
    "start_after": _("it does not start before %(at)s"),
    "held": _("held by %(who)s"),
    "node_recovering": _("no node is ready; the job is retried as soon as one is"),
    "impossible": _("the cluster can never provide this: %(asked)s of %(field)s; the largest is %(largest)s"),
    UNEXPLAINED: _("the scheduler has not checked this job yet"),
}
RESIZE_REFUSED = {
    "gpu": _("The card has no room for more right now."),
    "team_limit": _("The team is at its GPU limit."),
    "user_limit": _("The owner is at their GPU limit."),
    "quota": _("The team no longer has quota in this pool."),
}
"""What had no room for a larger slice; a refusal by the runtime is shown in its own words."""


def describe_wait(reason: dict) -> str:
    """Return an entry of Job.wait_reasons as a sentence."""
    code, params = reason["code"], reason.get("params", {})
    template = WAIT_REASONS.get(_variant(code, params), WAIT_REASONS[UNEXPLAINED])
    words = str(template) % defaultdict(lambda: gettext("some"), show_params(params))  # old records lack values
    if "tasks" in params:
        words = gettext("for one of its tasks: %(words)s") % {"words": words}
    if "in_pool" in params:
        words = gettext("in pool %(pool)s: %(words)s") % {"pool": params["in_pool"], "words": words}
    return words


def _variant(code: str, params: dict) -> str:
    """Return the template's key: plural, or for a slice what it is short of."""
    if code in {"ahead_in_queue", "making_room"} and params.get("n") == 1:
        return f"{code}.one"
    if code == "maintenance":
        taken = ".predicted" if "predicted" in params else ".taken" if "taken_s" in params else ""
        when = taken if "at" in params else ".now"
        return code + when + (".several" if params.get("n", 1) > 1 else "")
    if code == "borrow_denied" and "cards" in params:
        return f"{code}.nodes"
    if code in {"reserved_for_larger", "emptying"}:
        when = ".by" if "by" in params else "" if "at" in params else ".unknown"
        return code + (".drained" if "drained" in params else "") + when
    if code == "fits_only_apart":
        return f"{code}.{params.get('level', 'switch')}" + ("" if params.get("best") else ".none")
    if code == "gang_incomplete" and params.get("have") == 0:
        return f"{code}.none"
    return f"{code}{_bottleneck(params)}" if code == "no_fit_now" else code


def _bottleneck(params: dict) -> str:
    """Return the ending of the template for what is short."""
    if "need_mib" in params:
        return ".slice" if params["free_mib"] < params["need_mib"] else ".shared"
    if "usable" in params:
        return ".unusable"
    if "parts_gpu_milli" in params:
        return ".parts"
    if params.get("resource") == "gpus":
        return ".cards"
    if params.get("resource") == "rdma":
        return ".rdma"
    return ".beside" if "beside" in params else ""


def describe_end(code: str) -> str:
    return str(REASONS[code].words) if code in REASONS else code.replace("_", " ")


def end_hint(code: str) -> str:
    return str(REASONS[code].hint) if code in REASONS else ""


def describe_resize_refusal(refused: dict | None) -> str:
    if not refused:
        return ""
    return str(RESIZE_REFUSED.get(refused.get("kind", ""), "")) or str(
        refused.get("detail") or gettext("The request was refused.")
    )

"""Job plans and suggested changes in words."""

from collections.abc import Sequence
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.resources import show_duration, show_gpu
from jobs.arrays.estimate import plan_duration_s
from jobs.arrays.models import USUAL_AT_ONCE
from jobs.jobfile.array_values import ArrayWish
from jobs.jobfile.search.wish import SearchWish
from jobs.models import Job, Priority
from jobs.submit import Draft
from portal.wording.errors import describe_field_error
from portal.wording.starts import describe_start
from scheduler.preview.preview import OtherChoice, PlanAnswer, PlannedPlacement, Suggestion

CHANGES = {
    "gpu": gettext_lazy("GPU %(value)s instead of %(was)s"),
    "nodes": gettext_lazy("nodes: %(value)s instead of %(was)s"),
    "pool": gettext_lazy("pool %(value)s instead of %(was)s"),
    "time": gettext_lazy(
        "estimated time %(value)s instead of %(was)s: the job ends before the reserved resources are needed"
    ),
    "time.unsaid": gettext_lazy("estimated time %(value)s: the job ends before the reserved resources are needed"),
    "place": gettext_lazy("place: %(value)s instead of %(was)s"),
    "preemptible": gettext_lazy("preemptible: the job may be stopped to make room, and is queued again"),
    "priority": gettext_lazy("%(value)s priority instead of %(was)s"),
}
BORROWS_NOTHING = gettext_lazy("It uses no cards that are guaranteed to other teams.")
LEAVES_SAVED = gettext_lazy(
    "It uses cards that other teams leave idle. When these need them it is asked to leave, and queued again, from its "
    "last checkpoint."
)
LEAVES_UNSAVED = gettext_lazy(
    "It uses cards that other teams leave idle. When these need them it is asked to leave, and queued again, from the "
    "beginning unless it loads a checkpoint."
)
MOST_SEATS = 4


def describe_plan(answer: PlanAnswer) -> str:
    """ "Starts now, likely on n1 (¼ of GPU 3)", "Waits: #4 of 7 in train, 14:10 to 15:30", "Can never run: ..."."""
    if answer.never:
        return _("Can never run: %(why)s") % {
            "why": " ".join(describe_field_error(error) for error in answer.never.errors)
        }
    if answer.seats and answer.seats[0].role:
        return _("Starts now, likely with %(places)s") % {"places": _describe_seats(answer.seats)}
    if answer.seats:
        return _("Starts now, likely on %(places)s") % {"places": _describe_seats(answer.seats)}
    place, when = _describe_position(answer), describe_start(answer.outlook.start)
    if not when:
        return _("Waiting: %(place)s") % {"place": place}
    return _("Waiting: %(place)s, %(when)s") % {"place": place, "when": when}


def describe_array(wish: ArrayWish | SearchWish, time_s: int | None) -> str:
    """Say how many elements a plan stands for, and how long all take where the file says how long each does."""
    at_once = wish.at_once or USUAL_AT_ONCE
    params = {"count": wish.count, "at_once": at_once, "each": show_duration(time_s or 0)}
    told = ngettext(
        "An array of %(count)s element, of which this is told.",
        "An array of %(count)s elements, %(at_once)s of them open at once; this is told of the first.",
        wish.count,
    )
    lasts_s = plan_duration_s(wish, time_s)
    if lasts_s is None:
        return told % params
    last = _("The last one ends %(lasts)s after the first starts at the soonest, if each takes %(each)s.")
    return f"{told % params} {last % {**params, 'lasts': show_duration(lasts_s)}}"


def describe_borrowing(draft: Draft) -> str:
    """Say whether a job may be stopped for other teams and who says so, and what that means for it."""
    told = {one.pool.name: one.preemptible for one in draft.in_pools}
    who = _describe_who_says(told, by_job=draft.spec.preemptible is not None)
    means = LEAVES_SAVED if draft.spec.checkpoint else LEAVES_UNSAVED
    return f"{who} {means if any(told.values()) else BORROWS_NOTHING}"


def describe_stops(job: Job) -> str:
    """Say whether a stored job may be stopped for other teams, and who says so."""
    pools = {choice["name"]: choice["pool"] for choice in job.choices if choice["name"] in job.pool_names}
    told = {name: job.is_preemptible_in(pk) for name, pk in (pools or {job.pool.name: job.pool_id}).items()}
    return _describe_who_says(told, by_job=job.spec.get("preemptible") is not None)


def describe_other_choice(other: OtherChoice | None, outcome: str) -> str:
    """Say what the other choice would mean for a job of this outcome, "" where nothing can be told."""
    if other is None:
        return ""
    if other.preemptible and outcome == "starts":
        return _("With `preemptible: true` it would start no sooner.")
    if other.preemptible and other.starts:
        return _("With `preemptible: true` it would start now, on cards that another team may take back.")
    if other.preemptible:
        return _("With `preemptible: true` it would not start now either.")
    if outcome != "starts":
        return _("With `preemptible: false` it would start no sooner.")
    if other.starts:
        return _("With `preemptible: false` it would start now, too, and would not be stopped.")
    if when := describe_start(other.start):
        return _("With `preemptible: false` it could not borrow, and would wait: %(when)s.") % {"when": when}
    return _("With `preemptible: false` it could not borrow, and would wait.")


def _describe_who_says(told: dict[str, bool], *, by_job: bool) -> str:
    """told: {pool: whether it may be stopped there}."""
    may, never = ([pool for pool, said in told.items() if said == wanted] for wanted in (True, False))
    if may and never:
        words = _("May be stopped for other teams in %(may)s, not in %(never)s, as these pools say.")
        return words % {"may": ", ".join(may), "never": ", ".join(never)}
    if by_job:
        return _("May be stopped for other teams, as asked.") if may else _("Never stopped for others, as asked.")
    words = (
        ngettext(
            "May be stopped for other teams, as pool %(pools)s says.",
            "May be stopped for other teams, as pools %(pools)s say.",
            len(told),
        )
        if may
        else ngettext(
            "Never stopped for others, as pool %(pools)s says.",
            "Never stopped for others, as pools %(pools)s say.",
            len(told),
        )
    )
    return words % {"pools": ", ".join(told)}


def _describe_position(answer: PlanAnswer) -> str:
    position, of = answer.place or (0, 0)
    pools = [draft.pool.name for draft in answer.draft.in_pools] if answer.draft else [""]
    params = {"position": position, "of": of, "pool": pools[0], "others": ", ".join(pools[1:])}
    if len(pools) > 1:
        return _("#%(position)s of %(of)s in %(pool)s (also in %(others)s)") % params
    return _("#%(position)s of %(of)s in %(pool)s") % params


def _describe_seats(seats: Sequence[PlannedPlacement]) -> str:
    shown = [_describe_seat(seat) for seat in seats[:MOST_SEATS]]
    more = len(seats) - len(shown)
    if more:
        shown.append(_("%(count)s more") % {"count": more})
    return ", ".join(shown)


def _describe_seat(seat: PlannedPlacement) -> str:
    if seat.role:
        return _("%(role)s on %(place)s") % {"role": seat.role, "place": _describe_seat(replace(seat, role=""))}
    params = {"node": seat.node, "gpus": ", ".join(str(index) for index in seat.gpus), "part": show_gpu(seat.milli)}
    if not seat.gpus:
        return seat.node
    if len(seat.gpus) == 1 and seat.milli < 1000:
        return _("%(node)s (%(part)s of GPU %(gpus)s)") % params
    return _("%(node)s (GPU %(gpus)s)") % params


def describe_change(sooner: Suggestion) -> str:
    """Return a suggestion like "GPU 1/2 instead of 1"."""
    change = sooner.change
    values = {"value": change.value, "was": change.was}
    if change.field == "priority":
        values = {name: str(Priority[word.upper()].label) for name, word in values.items()}
    return str(CHANGES["time.unsaid" if change.field == "time" and not change.was else change.field]) % values


def describe_sooner_start(sooner: Suggestion) -> str:
    return _("now") if sooner.now else describe_start(sooner.start)

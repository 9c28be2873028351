"""Job plans and suggested changes in words."""

from collections.abc import Sequence
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import show_gpu
from jobs.models import Priority
from portal.wording.errors import describe_field_error
from portal.wording.starts import describe_start
from scheduler.preview.preview import PlanAnswer, PlannedPlacement, Suggestion

CHANGES = {
    "gpu": gettext_lazy("GPU %(value)s instead of %(was)s"),
    "nodes": gettext_lazy("nodes: %(value)s instead of %(was)s"),
    "pool": gettext_lazy("pool %(value)s instead of %(was)s"),
    "time": gettext_lazy(
        "estimated time %(value)s instead of %(was)s: the job ends before the reserved resources are needed"
    ),
    "time.unsaid": gettext_lazy("estimated time %(value)s: the job ends before the reserved resources are needed"),
    "preemptible": gettext_lazy("preemptible: the job may be stopped to make room, and is queued again"),
    "priority": gettext_lazy("%(value)s priority instead of %(was)s"),
}
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

"""The page of people who are away and still hold something."""

from dataclasses import asdict, dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from portal.access.idle_people import AwayRow, list_idle_people
from portal.pages.request_guards import signed_in
from portal.wording.monitoring.away import describe_held


@dataclass(frozen=True)
class PersonLine:
    row: AwayRow

    @property
    def holds(self) -> str:
        return describe_held(asdict(self.row.held))


@require_safe
@signed_in
def show_people(request: HttpRequest) -> HttpResponse:
    """Show admins everybody who is away, and leads the members of their teams."""
    people = [PersonLine(row) for row in list_idle_people(request.user)]
    context = {"people": people, "days": settings.TESSERA_AWAY_DAYS, "answer": _count(len(people))}
    return render(request, "idle/people.html", context)


def _count(people: int) -> str:
    if not people:
        return _("Nobody who holds something has been away for long.")
    words = ngettext(
        "%(count)s person has been away for long and still holds something.",
        "%(count)s people have been away for long and still hold something.",
        people,
    )
    return words % {"count": people}

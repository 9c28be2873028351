"""Pages of people: invite, find, change, suspend, limit, and what was done about them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.directory import (
    change_person,
    create_person,
    create_sign_in_link,
    find_person,
    find_team,
    readmit_person,
    remove_member,
    set_member,
    suspend_person,
)
from accounts.models import LoginLink, Team, User
from accounts.permissions import require
from common.locks import database_now
from monitoring.people.loading import load_signed_in
from monitoring.reports.spans import find_midnight
from monitoring.usage.report import Period, sum_usage
from portal.access.admin_lists import count_running, filter_people
from portal.forms import save
from portal.pages.console.audit import list_history
from portal.pages.console.forms import InviteForm, LimitForm, MembershipForm, NewPersonForm, PersonForm, RoleForm
from portal.pages.console.invitations import Invitation, invite
from portal.pages.console.page import for_staff, person_of, send_csv, show
from portal.wording.changes import NOTHING, show_value
from portal.wording.monitoring.usage_report import show_exactly
from quotas.models import UserLimit
from quotas.services import find_limit, get_default_limit, save_user_limit

ON_A_PAGE = 50
MOST_LINES = 20
STATES = {"": None, "active": False, "suspended": True}


HELD_FOR = timedelta(days=30)
COLUMNS = (
    "username",
    "full_name",
    "email",
    "uid",
    "platform_role",
    "teams",
    "state",
    "joined_at",
    "seen_at",
    "running",
    "gpu_h_30d",
)


@dataclass(frozen=True)
class PersonLine:
    """seen_at: the last sign-in, or use of a token or SSH key. gpu_hours: held in the last 30 days."""

    user: User
    running: int
    seen_at: datetime | None
    gpu_hours: float


@require_safe
@for_staff
def list_people(request: HttpRequest) -> HttpResponse:
    return show_people(request)


@require_safe
@for_staff
def download_people(request: HttpRequest) -> HttpResponse:
    """Send the people that the list finds as CSV."""
    people, _given = find_people(request)
    return send_csv("people", COLUMNS, (_csv_row(line) for line in list_lines(list(people))))


@require_POST
@for_staff
def invite_people(request: HttpRequest) -> HttpResponse:
    """Make links, mail them where mail is set up, and show each once."""
    require(person_of(request), "person.invite")
    form, made = InviteForm(request.POST), []
    if form.is_valid():
        made = invite(actor=person_of(request), **form.cleaned_data)
    return show_people(request, form=form if form.errors else None, made=made)


@require_http_methods(["GET", "POST"])
@for_staff
def new_person(request: HttpRequest) -> HttpResponse:
    """Create an account in a team, and show its sign-in link once."""
    actor = person_of(request)
    require(actor, "person.change")
    form = NewPersonForm(request.POST or None)
    if link := save(form, lambda: _create(actor, **form.cleaned_data)):
        return show_one(request, find_person(form.cleaned_data["username"]), link=link)
    context = {"form": form, "any_team": Team.objects.exists()}
    status = 400 if form.is_bound else 200
    return show(request, "console/new_person.html", context, current="console_people", status=status)


@require_http_methods(["GET", "POST"])
@for_staff
def show_person(request: HttpRequest, name: str) -> HttpResponse:
    """Show a person, or save what was changed of them."""
    user = find_person(name)
    if request.method != "POST":
        return show_one(request, user)
    require(person_of(request), "person.change")
    form = PersonForm(request.POST)
    if save(form, lambda: change_person(actor=person_of(request), user=user, **form.cleaned_data)):
        messages.success(request, _("Saved."))
        return redirect("console_person", name=user.username)
    return show_one(request, find_person(name), form=form)


@require_POST
@for_staff
def make_link(request: HttpRequest, name: str) -> HttpResponse:
    """Show a sign-in link, once."""
    user = find_person(name)
    link = settings.TESSERA_PUBLIC_URL + create_sign_in_link(actor=person_of(request), user=user)
    return show_one(request, user, link=link)


@require_POST
@for_staff
def switch_access(request: HttpRequest, name: str) -> HttpResponse:
    """Suspend the person, or give them access again."""
    user = find_person(name)
    if request.POST.get("to") == "suspended":
        suspend_person(actor=person_of(request), user=user)
        messages.success(request, _("%(name)s has no access any more. Running jobs continue.") % {"name": user})
    else:
        readmit_person(actor=person_of(request), user=user)
        messages.success(request, _("%(name)s has access again.") % {"name": user})
    return redirect("console_person", name=user.username)


@require_POST
@for_staff
def change_membership(request: HttpRequest, name: str) -> HttpResponse:
    """Add the person to a team, change their role in it, or take them out."""
    user, team, actor = find_person(name), find_team(request.POST.get("team", "")), person_of(request)
    if "remove" in request.POST:
        remove_member(actor=actor, team=team, user=user)
        messages.success(request, _("%(name)s is no member of %(team)s any more.") % {"name": user, "team": team})
    else:
        form = RoleForm(request.POST)
        if form.is_valid():
            set_member(actor=actor, team=team, user=user, role=form.cleaned_data["role"])
            messages.success(request, _("Saved."))
    back = "console_team" if request.POST.get("from") == "team" else "console_person"
    return redirect(back, name=team.name if back == "console_team" else user.username)


@require_safe
@for_staff
def list_limits(request: HttpRequest) -> HttpResponse:
    """List the limits of everybody and of those who have their own, or lead to a person's."""
    if name := request.GET.get("person", "").strip():
        return redirect("console_limit", name=find_person(name).username)
    own = UserLimit.objects.select_related("user").filter(user__isnull=False).order_by("user__username")
    own = own.exclude(**{f"{name}__isnull": True for name in UserLimit.FIELDS})
    context = {
        "names": [UserLimit._meta.get_field(name).verbose_name for name in UserLimit.FIELDS],
        "rows": [(limit.user, show_limits_of(limit)) for limit in [get_default_limit(), *own]],
    }
    return show(request, "console/limits.html", context, current="console_limits")


@require_http_methods(["GET", "POST"])
@for_staff
def show_limits(request: HttpRequest, name: str) -> HttpResponse:
    """Show a person's own limits, or those of `everyone`, or save them."""
    limit = find_limit(name)
    form = LimitForm(request.POST if request.method == "POST" else None, instance=limit)
    if form.is_bound:
        require(person_of(request), "quota.change")
    if save(form, lambda: save_user_limit(actor=person_of(request), limit=form.instance)):
        messages.success(request, _("Saved."))
        return redirect("console_limits")
    usual = describe_usual_limits() if limit.user else {}
    context = {
        "whose": limit.user,
        "form": form,
        "fields": [(form[name], usual.get(name, "")) for name in UserLimit.FIELDS],
        "history": list_history(MOST_LINES, kind=UserLimit.KIND, object_id=limit.pk),
    }
    status = 400 if form.is_bound else 200
    return show(request, "console/limit.html", context, current="console_limits", status=status)


def show_limits_of(limit: UserLimit) -> list[str]:
    return [show_value(name, getattr(limit, name)) for name in UserLimit.FIELDS]


def describe_usual_limits() -> dict[str, str]:
    """Say beside each field what holds without a limit of one's own."""
    names = zip(UserLimit.FIELDS, show_limits_of(get_default_limit()), strict=True)
    return {
        name: _("· everyone: no limit") if text == NOTHING else _("· everyone: %(limit)s") % {"limit": text}
        for name, text in names
    }


def show_people(
    request: HttpRequest, form: InviteForm | None = None, made: list[Invitation] | None = None
) -> HttpResponse:
    people, given = find_people(request)
    page = Paginator(people, ON_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "lines": list_lines(list(page)),
        "answer": _answer(),
        "form": form or InviteForm(),
        "made": made or [],
        **given,
        "any_team": Team.objects.exists(),
        "mails": settings.TESSERA_MAIL,
    }
    status = 400 if form is not None else 200
    return show(request, "console/people.html", context, current="console_people", status=status)


def find_people(request: HttpRequest) -> tuple[QuerySet[User], dict[str, str]]:
    """Return the people that the query asks for, and what of it was understood."""
    words, team, state = (request.GET.get(name, "")[:100] for name in ("q", "team", "state"))
    given = {"q": words, "team": team, "state": state if state in STATES else ""}
    return filter_people(words, team, STATES.get(state)).order_by("username"), given


def list_lines(people: list[User]) -> list[PersonLine]:
    """Return people with what they do and did, in few statements."""
    now = database_now()
    running, seen = count_running(people), load_signed_in(people)
    used = sum_usage("user", Period(find_midnight(now - HELD_FOR), now), now, None)
    return [
        PersonLine(
            user,
            running.get(user.pk, 0),
            seen.get(user.pk),
            used[user.username].count_hours("held") if user.username in used else 0.0,
        )
        for user in people
    ]


def show_one(request: HttpRequest, user: User, form: PersonForm | None = None, link: str = "") -> HttpResponse:
    initial = {name: getattr(user, name) for name in ("full_name", "email", "platform_role")}
    memberships = list(user.memberships.select_related("team").order_by("team__name"))
    others = Team.objects.exclude(pk__in=[one.team_id for one in memberships])
    joining = MembershipForm()
    joining.fields["team"].queryset = others.order_by("name")  # type: ignore[attr-defined]
    context = {
        "person": user,
        "form": form or PersonForm(initial=initial),
        "memberships": memberships,
        "roles": RoleForm().fields["role"].choices,  # type: ignore[attr-defined]
        "joining": joining if others.exists() else None,
        "link": link,
        "line": list_lines([user])[0],
        "history": list_history(MOST_LINES, kind=User.KIND, object_id=user.pk),
        "is_me": user.pk == person_of(request).pk,
    }
    status = 400 if form is not None else 200
    return show(request, "console/person.html", context, current="console_people", status=status)


def _create(actor: User, team: Team, role: str, **fields: str) -> str:
    """Make an account in a team, and return its sign-in link."""
    user = create_person(actor=actor, **fields)
    set_member(actor=actor, team=team, user=user, role=role)
    return settings.TESSERA_PUBLIC_URL + create_sign_in_link(actor=actor, user=user)


def _csv_row(line: PersonLine) -> tuple[object, ...]:
    user = line.user
    teams = " ".join(f"{one.team.name}:{one.role}" for one in user.memberships.all())
    names = (user.username, user.full_name, user.email, user.uid, user.platform_role, teams)
    times = (user.joined_at.isoformat(), line.seen_at.isoformat() if line.seen_at else "")
    return (*names, "active" if user.is_active else "suspended", *times, line.running, show_exactly(line.gpu_hours))


def _answer() -> str:
    people, waiting = User.objects.filter(suspended_at__isnull=True).count(), _count_unused()
    words = ngettext("%(count)s person has access.", "%(count)s people have access.", people) % {"count": people}
    if not waiting:
        return words
    unused = ngettext(
        "%(count)s invitation has not been used.", "%(count)s invitations have not been used.", waiting
    ) % {"count": waiting}
    return f"{words} {unused}"


def _count_unused() -> int:
    return LoginLink.objects.live().filter(team__isnull=False).count()

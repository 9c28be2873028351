"""Pages of teams and their members."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.directory import change_team, create_team_by, find_person, find_team, set_member
from accounts.models import Membership, Team, User
from accounts.permissions import require
from portal.access.admin_lists import list_teams
from portal.forms import save
from portal.pages.console.audit import list_history
from portal.pages.console.forms import MemberForm, NewTeamForm, RoleForm, TeamForm
from portal.pages.console.page import for_staff, person_of, show
from quotas.models import Quota

MOST_LINES = 20
MOST_NAMES = 2000


@require_http_methods(["GET", "POST"])
@for_staff
def show_teams(request: HttpRequest) -> HttpResponse:
    """List teams, or make one."""
    form = NewTeamForm(request.POST or None)
    if form.is_bound:
        require(person_of(request), "team.change")
    if made := save(form, lambda: create_team_by(actor=person_of(request), **form.cleaned_data)):
        words = _("Team %(name)s is there. It can run nothing before it has a quota: say here what it may hold.")
        messages.success(request, words % {"name": made})
        return redirect(f"{reverse('console_quotas')}#team-{made.name}")
    teams = list(list_teams())
    words = ngettext("%(count)s team.", "%(count)s teams.", len(teams)) % {"count": len(teams)}
    without = Team.objects.filter(quotas__isnull=True).count()
    if without:
        words += " " + ngettext(
            "%(count)s has no quota and can run nothing.", "%(count)s have no quota and can run nothing.", without
        ) % {"count": without}
    context = {"teams": teams, "form": form, "answer": words}
    status = 400 if form.is_bound else 200
    return show(request, "console/teams.html", context, current="console_teams", status=status)


@require_http_methods(["GET", "POST"])
@for_staff
def show_team(request: HttpRequest, name: str) -> HttpResponse:
    """Show a team, or save what was changed of it."""
    team = find_team(name)
    if request.method != "POST":
        return show_one(request, team)
    require(person_of(request), "team.change")
    form = TeamForm(request.POST)
    if save(form, lambda: change_team(actor=person_of(request), team=team, **form.cleaned_data)):
        messages.success(request, _("Saved."))
        return redirect("console_team", name=team.name)
    return show_one(request, find_team(name), form=form)


@require_POST
@for_staff
def add_member(request: HttpRequest, name: str) -> HttpResponse:
    """Add a person to the team by their user name."""
    require(person_of(request), "team.change")
    team, form = find_team(name), MemberForm(request.POST)
    if member := save(form, lambda: _join(person_of(request), team, **form.cleaned_data)):
        messages.success(request, _("%(name)s is a member of %(team)s.") % {"name": member.user, "team": team})
        return redirect("console_team", name=team.name)
    return show_one(request, team, joining=form)


def show_one(
    request: HttpRequest, team: Team, form: TeamForm | None = None, joining: MemberForm | None = None
) -> HttpResponse:
    members = team.memberships.select_related("user").order_by("user__username")
    others = User.objects.filter(suspended_at__isnull=True).exclude(memberships__team=team)
    context = {
        "team": team,
        "form": form or TeamForm(initial={"title": team.title, "parent": team.parent_id}),
        "members": members,
        "roles": RoleForm().fields["role"].choices,  # type: ignore[attr-defined]
        "joining": joining or MemberForm(),
        "names": list(others.order_by("username").values_list("username", "full_name")[:MOST_NAMES]),
        "quotas": Quota.objects.filter(team=team).select_related("pool"),
        "children": Team.objects.filter(parent=team),
        "history": list_history(MOST_LINES, kind=Team.KIND, object_id=team.pk),
    }
    status = 400 if form is not None or joining is not None else 200
    return show(request, "console/team.html", context, current="console_teams", status=status)


def _join(actor: User, team: Team, person: str, role: str) -> Membership:
    return set_member(actor=actor, team=team, user=find_person(person.strip(), "/person"), role=role)

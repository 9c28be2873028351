"""Admin pages of users and teams, never deleted because files and history carry their numbers."""

from collections.abc import Callable

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.directory import (
    change_person,
    change_team,
    create_person,
    create_sign_in_link,
    create_team_by,
    readmit_person,
    remove_member,
    set_member,
    suspend_person,
)
from accounts.models import Membership, Team, User
from common.errors import NameTaken, PlatformError
from portal.forms import bind
from portal.wording.errors import describe_error


class UserForm(forms.ModelForm):
    """A new user gets the next free uid. The view sets `actor`."""

    actor: User
    uid = forms.IntegerField(
        label=gettext_lazy("uid"),
        min_value=1000,
        required=False,
        help_text=gettext_lazy(
            "The user ID of this person's files. Set it to match NFS or LDAP before the first job; existing "
            "files keep the old ID. Empty: the next free one."
        ),
    )
    suspended = forms.BooleanField(
        label=gettext_lazy("suspended"),
        required=False,
        help_text=gettext_lazy("Blocks all access at once, including tokens. Running jobs continue."),
    )

    class Meta:
        model = User
        fields = ("username", "full_name", "email", "uid", "platform_role")

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.fields["suspended"].initial = self.instance.suspended_at is not None

    def clean_username(self) -> str:
        return free_name(User, "username", self.cleaned_data["username"])

    def clean(self) -> dict:
        given = super().clean() or {}
        if self.instance.pk and not given.get("uid"):
            self.add_error("uid", _("Enter a number: this person already has files."))
        return given

    def _post_clean(self) -> None:
        super()._post_clean()
        if not self.errors:
            rehearse(self, self.store)

    def store(self) -> User:
        """Create or change the person, then suspend or readmit. Raises what the services raise."""
        given = {name: self.cleaned_data[name] for name in ("full_name", "email", "uid", "platform_role")}
        if self.instance.pk:
            user = change_person(actor=self.actor, user=User.objects.get(pk=self.instance.pk), **given)
        else:
            user = create_person(actor=self.actor, username=self.cleaned_data["username"], **given)
        if self.cleaned_data["suspended"] == user.is_active:
            let_in_or_out = suspend_person if user.is_active else readmit_person
            let_in_or_out(actor=self.actor, user=user)
        return user


def rehearse(form: forms.BaseForm, act: Callable[[], object]) -> None:
    """Run a service and roll back, to show its errors at the form's fields before saving."""
    try:
        with transaction.atomic():
            act()
            transaction.set_rollback(True)
    except PlatformError as error:
        bind(form, error)


def become(row: Model, made: Model) -> None:
    """Replace the form's unsaved row by the service's."""
    row.pk, row._state.adding = made.pk, False
    row.refresh_from_db()


def free_name(model: type[Model], field: str, name: str) -> str:
    if model._default_manager.filter(**{f"{field}__iexact": name}).exists():
        raise forms.ValidationError(describe_error(NameTaken(name=name)))
    return name


def save_memberships(actor: User, formset: forms.BaseFormSet) -> None:
    """Save memberships by the services that the API uses, too."""
    rows = formset.save(commit=False)  # type: ignore[attr-defined]
    gone = list(formset.deleted_objects)  # type: ignore[attr-defined]
    for before in Membership.objects.filter(pk__in=[row.pk for row in rows]).select_related("user", "team"):
        row = next(row for row in rows if row.pk == before.pk)
        if (row.user_id, row.team_id) != (before.user_id, before.team_id):
            gone.append(before)
    for row in gone:
        remove_member(actor=actor, team=row.team, user=row.user)
    for row in rows:
        set_member(actor=actor, team=row.team, user=row.user, role=row.role)


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 1
    autocomplete_fields = ("user",)


class TeamsInline(admin.TabularInline):
    model = Membership
    extra = 1
    autocomplete_fields = ("team",)


class UserAdmin(admin.ModelAdmin):
    form = UserForm
    fields = ("username", "full_name", "email", "uid", "platform_role", "suspended")
    list_display = ("username", "full_name", "uid", "platform_role", "team_names", "is_in", "last_login")
    list_filter = ("platform_role", ("suspended_at", admin.EmptyFieldListFilter))
    search_fields = ("username", "full_name", "email")
    ordering = ("username",)
    inlines = (TeamsInline,)
    actions = ("make_links", "suspend", "let_in")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("teams")

    def get_form(self, request: HttpRequest, *args, **named):
        form = super().get_form(request, *args, **named)
        return type(form.__name__, (form,), {"actor": request.user})

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        return ("username",) if obj else ()

    def get_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        if obj and not self.has_change_permission(request, obj):
            return (*self.fields[:-1], "is_in")
        return self.fields

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: User, form: UserForm, change: bool) -> None:
        become(obj, form.store())

    def save_formset(
        self, request: HttpRequest, form: forms.BaseForm, formset: forms.BaseFormSet, change: bool
    ) -> None:
        save_memberships(request.user, formset)  # type: ignore[arg-type]

    @admin.display(description=gettext_lazy("teams"))
    def team_names(self, user: User) -> str:
        return ", ".join(team.name for team in user.teams.all()) or "–"

    @admin.display(description=gettext_lazy("can sign in"), boolean=True)
    def is_in(self, user: User) -> bool:
        return user.is_active

    @admin.action(description=gettext_lazy("Create a one-time sign-in link"), permissions=["change"])
    def make_links(self, request: HttpRequest, people: QuerySet[User]) -> None:
        for user in people.filter(suspended_at__isnull=True):
            url = settings.TESSERA_PUBLIC_URL + create_sign_in_link(actor=request.user, user=user)  # type: ignore[arg-type]
            words = _("Send this only to %(name)s. It is shown once: %(url)s")
            messages.success(request, words % {"name": user.username, "url": url})

    @admin.action(description=gettext_lazy("Suspend: block all access at once"), permissions=["change"])
    def suspend(self, request: HttpRequest, people: QuerySet[User]) -> None:
        self._change_people(
            request, people.exclude(pk=request.user.pk).filter(suspended_at__isnull=True), suspend_person
        )

    @admin.action(description=gettext_lazy("Restore access"), permissions=["change"])
    def let_in(self, request: HttpRequest, people: QuerySet[User]) -> None:
        self._change_people(request, people.filter(suspended_at__isnull=False), readmit_person)

    def _change_people(self, request: HttpRequest, people: QuerySet[User], act: Callable[..., None]) -> None:
        chosen = list(people)
        for user in chosen:
            act(actor=request.user, user=user)
        messages.success(request, _("%(count)s changed.") % {"count": len(chosen)})


class TeamForm(forms.ModelForm):
    """The view sets `actor`."""

    actor: User
    gid = forms.IntegerField(
        label=gettext_lazy("gid"),
        min_value=1000,
        required=False,
        help_text=gettext_lazy("The group ID of the team's files, to match NFS or LDAP. Empty: the next free one."),
    )

    class Meta:
        model = Team
        fields = ("name", "title", "gid", "parent")

    def clean_name(self) -> str:
        return free_name(Team, "name", self.cleaned_data["name"])

    def clean_gid(self) -> int | None:
        gid = self.cleaned_data["gid"]
        if self.instance.pk and not gid:
            raise forms.ValidationError(_("Enter a number: this team already has files."))
        return gid

    def _post_clean(self) -> None:
        super()._post_clean()
        if not self.errors:
            rehearse(self, self.store)

    def store(self) -> Team:
        """Create or change the team. Raises what the services raise."""
        given = {name: self.cleaned_data[name] for name in ("title", "gid", "parent")}
        if self.instance.pk:
            return change_team(actor=self.actor, team=Team.objects.get(pk=self.instance.pk), **given)
        return create_team_by(actor=self.actor, name=self.cleaned_data["name"], **given)


class TeamAdmin(admin.ModelAdmin):
    form = TeamForm
    list_display = ("name", "title", "parent", "gid", "member_count")
    search_fields = ("name", "title")
    inlines = (MembershipInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        counted = super().get_queryset(request).annotate(people=Count("memberships"))
        return counted.select_related("parent")

    def get_form(self, request: HttpRequest, *args, **named):
        form = super().get_form(request, *args, **named)
        return type(form.__name__, (form,), {"actor": request.user})

    def get_readonly_fields(self, request: HttpRequest, obj: Team | None = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Team, form: TeamForm, change: bool) -> None:
        become(obj, form.store())

    def save_formset(
        self, request: HttpRequest, form: forms.BaseForm, formset: forms.BaseFormSet, change: bool
    ) -> None:
        save_memberships(request.user, formset)  # type: ignore[arg-type]

    @admin.display(description=gettext_lazy("members"), ordering="people")
    def member_count(self, team: Team) -> int:
        return team.people  # type: ignore[attr-defined]  # counted by get_queryset

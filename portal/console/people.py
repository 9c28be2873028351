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

from accounts.models import Membership, PlatformRole, Team, User
from accounts.services import create_team, create_user, make_login_link, readmit_person, suspend_person
from common.errors import NameTaken, PlatformError
from events.record_and_publish import publish_recheck
from portal.forms import bind
from portal.wording.errors import describe_error
from quotas.models import load_parents, team_chain


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
        if self.instance.pk and self.instance.pk == self.actor.pk:
            if given.get("suspended"):
                self.add_error("suspended", _("You cannot suspend yourself. Ask another admin."))
            if given.get("platform_role") != PlatformRole.ADMIN:
                self.add_error("platform_role", _("You cannot give up your own role. Ask another admin."))
        if self.instance.pk and not given.get("uid"):
            self.add_error("uid", _("Enter a number: this person already has files."))
        return given

    def _post_clean(self) -> None:
        super()._post_clean()
        if not self.instance.pk and not self.errors:
            rehearse(self, lambda: create_user(**pick_user_fields(self.cleaned_data)))


def pick_user_fields(given: dict) -> dict:
    return {name: given[name] for name in ("username", "full_name", "email", "uid", "platform_role")}


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


def save_memberships(formset: forms.BaseFormSet) -> None:
    """Save memberships, and recheck the rights of the users' open sockets."""
    rows = formset.save()  # type: ignore[attr-defined]
    for row in [*rows, *formset.deleted_objects]:  # type: ignore[attr-defined]
        publish_recheck(row.user_id)


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
        given = form.cleaned_data
        if not change:
            become(obj, create_user(**pick_user_fields(given)))
        obj.save()
        if given["suspended"] != (obj.suspended_at is not None):
            let_in_or_out = suspend_person if given["suspended"] else readmit_person
            let_in_or_out(actor=form.actor, user=obj)
        publish_recheck(obj.pk)

    def save_formset(
        self, request: HttpRequest, form: forms.BaseForm, formset: forms.BaseFormSet, change: bool
    ) -> None:
        save_memberships(formset)

    @admin.display(description=gettext_lazy("teams"))
    def team_names(self, user: User) -> str:
        return ", ".join(team.name for team in user.teams.all()) or "–"

    @admin.display(description=gettext_lazy("can sign in"), boolean=True)
    def is_in(self, user: User) -> bool:
        return user.is_active

    @admin.action(description=gettext_lazy("Create a one-time sign-in link"), permissions=["change"])
    def make_links(self, request: HttpRequest, people: QuerySet[User]) -> None:
        for user in people.filter(suspended_at__isnull=True):
            url = settings.TESSERA_PUBLIC_URL + make_login_link(user=user)
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

    def clean_parent(self) -> Team | None:
        parent = self.cleaned_data["parent"]
        if parent and self.instance.pk and self.instance.pk in team_chain(parent.pk, load_parents()):
            raise forms.ValidationError(_("A team cannot be below itself. Choose another parent."))
        return parent

    def _post_clean(self) -> None:
        super()._post_clean()
        if not self.instance.pk and not self.errors:
            rehearse(self, lambda: create_team(**self.cleaned_data))


class TeamAdmin(admin.ModelAdmin):
    form = TeamForm
    list_display = ("name", "title", "parent", "gid", "member_count")
    search_fields = ("name", "title")
    inlines = (MembershipInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        counted = super().get_queryset(request).annotate(people=Count("memberships"))
        return counted.select_related("parent")

    def get_readonly_fields(self, request: HttpRequest, obj: Team | None = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Team, form: TeamForm, change: bool) -> None:
        if change:
            obj.save()
            return
        become(obj, create_team(**form.cleaned_data))

    def save_formset(
        self, request: HttpRequest, form: forms.BaseForm, formset: forms.BaseFormSet, change: bool
    ) -> None:
        save_memberships(formset)

    @admin.display(description=gettext_lazy("members"), ordering="people")
    def member_count(self, team: Team) -> int:
        return team.people  # type: ignore[attr-defined]  # counted by get_queryset

"""Settings of secrets. No page has a value: what was typed is not shown again, not even beside an error."""

from typing import cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import Team, User
from accounts.permissions import teams_where
from common.errors import Conflict
from jobs.used_secrets.naming import delete_secret
from portal.forms import save
from portal.pages.request_guards import signed_in
from portal.wording.errors import describe_error
from secret_store.models import Secret
from secret_store.names import MOST_NAME
from secret_store.services import get_secret, list_secrets, set_secret


class UnshownTextarea(forms.Textarea):
    def format_value(self, value: object) -> str:
        return ""


class SecretForm(forms.Form):
    """Asks whose it is if the user leads a team."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=MOST_NAME,
        help_text=gettext_lazy(
            "As of an environment variable, such as HF_TOKEN. A name that is there gets a new value."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": "mono"}),
    )
    value = forms.CharField(
        label=gettext_lazy("Value"),
        strip=False,
        help_text=gettext_lazy(
            "Kept encrypted and never shown again. Up to 64 KiB of text; it may have several lines."
        ),
        widget=UnshownTextarea(attrs={"rows": 3, "class": "mono", "spellcheck": "false", "autocomplete": "off"}),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        label=gettext_lazy("Whose"),
        required=False,
        empty_label=gettext_lazy("Mine"),
        help_text=gettext_lazy("Members use the secrets of their team in its jobs; leads set them."),
    )

    def __init__(self, *args, user: User, **named):
        super().__init__(*args, **named)
        led = teams_where(user, "secret.change")
        cast(forms.ModelChoiceField, self.fields["team"]).queryset = led
        if not led.exists():
            del self.fields["team"]

    def clean_value(self) -> str:
        """Return the value with Unix line ends, which browsers change; one line without its end."""
        text = self.cleaned_data["value"].replace("\r\n", "\n")
        line = text.removesuffix("\n")
        return text if "\n" in line else line


@never_cache
@signed_in
@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
def secrets(request: HttpRequest) -> HttpResponse:
    """List secrets, or set one. ?name and ?team: what the form begins with."""
    user = cast(User, request.user)
    posted = request.POST if request.method == "POST" else None
    form = SecretForm(posted, user=user, initial=request.GET.dict())
    if posted is not None:
        made = save(form, lambda: set_secret(actor=user, **form.cleaned_data))
        if made is not None:
            messages.success(request, _("The secret %(name)s is set.") % {"name": made.name})
            return redirect("secrets")
    return _show(request, form, status=400 if form.is_bound else 200)


@never_cache
@signed_in
@require_POST
def delete(request: HttpRequest, secret_id: int) -> HttpResponse:
    """Delete a secret; by `force` though jobs name it that have yet to end."""
    user = cast(User, request.user)
    secret = get_secret(user, secret_id)
    try:
        delete_secret(actor=user, secret=secret, force="force" in request.POST)
    except Conflict as refusal:
        return _show(request, SecretForm(user=user), status=409, refused=secret, refusal=describe_error(refusal))
    messages.success(request, _("The secret %(name)s is deleted.") % {"name": secret.name})
    return redirect("secrets")


def _show(
    request: HttpRequest, form: SecretForm, status: int, refused: Secret | None = None, refusal: str = ""
) -> HttpResponse:
    user = cast(User, request.user)
    led = set(teams_where(user, "secret.change").values_list("pk", flat=True))
    rows = [{"row": row, "may_change": row.team_id is None or row.team_id in led} for row in list_secrets(user)]
    context = {"form": form, "secrets": rows, "refused": refused, "refusal": refusal}
    return render(request, "account/secrets.html", context, status=status)

"""Settings of SSH keys."""

from datetime import datetime, time
from typing import cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import User
from accounts.ssh_keys import LONGEST_LINE, NAME_MAX, add_ssh_key, remove_ssh_key
from common.errors import InvalidInput
from common.rates import check_rate
from portal.access.ssh_endpoint import find_ssh_endpoint
from portal.forms import bind
from portal.pages.request_guards import signed_in


class SshKeyForm(forms.Form):
    key = forms.CharField(
        label=gettext_lazy("Public key"),
        max_length=LONGEST_LINE,
        help_text=gettext_lazy("The line of a file such as ~/.ssh/id_ed25519.pub."),
        widget=forms.Textarea(
            attrs={
                "rows": 4,
                "class": "mono",
                "spellcheck": "false",
                "autocomplete": "off",
                "placeholder": "ssh-ed25519 AAAA…",
            }
        ),
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=NAME_MAX,
        required=False,
        help_text=gettext_lazy("Such as “laptop”. Empty: the key’s own comment."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    expires_at = forms.DateField(
        label=gettext_lazy("Valid until"),
        required=False,
        help_text=gettext_lazy("The last day on which the key is accepted. Empty: no expiry."),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )

    def clean_expires_at(self) -> datetime | None:
        day = self.cleaned_data["expires_at"]
        return timezone.make_aware(datetime.combine(day, time.max)) if day else None


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def ssh_keys(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    form = SshKeyForm(request.POST or None)
    if form.is_valid():
        check_rate("ssh keys", user.username, limit=60, per_s=3600)
        try:
            made = add_ssh_key(user=user, **form.cleaned_data)
        except InvalidInput as error:
            bind(form, error)
        else:
            messages.success(request, _("The key “%(name)s” now opens your notebooks and jobs.") % {"name": made.name})
            return redirect("ssh_keys")
    keys = list(user.ssh_keys.select_related("made_by"))
    live = sum(not key.is_expired for key in keys)
    context = {"form": form, "keys": keys, "live": live, "door": find_ssh_endpoint()}
    return render(request, "account/ssh_keys.html", context, status=400 if form.is_bound else 200)


@signed_in
@require_POST
def remove(request: HttpRequest, key_id: int) -> HttpResponse:
    remove_ssh_key(user=cast(User, request.user), key_id=key_id)
    messages.success(request, _("The key is removed. Connections opened with it close within five seconds."))
    return redirect("ssh_keys")

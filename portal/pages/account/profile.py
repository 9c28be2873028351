"""The page of one's profile."""

from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.models import User
from accounts.profile import PROFILE_FIELDS, change_profile
from accounts.time_zones import list_zones
from portal.forms import save
from portal.pages.account.forms import ProfileForm
from portal.pages.frame import keep_language
from portal.pages.request_guards import signed_in


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def change(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    form = ProfileForm(request.POST or None, initial={name: getattr(user, name) for name in PROFILE_FIELDS})
    if saved := save(form, lambda: change_profile(user, **form.cleaned_data)):
        response = redirect("profile")
        keep_language(response, saved.language)
        with translation.override(saved.language or translation.get_language_from_request(request)):
            messages.success(request, _("Saved."))
        return response
    context = {"form": form, "zones": list_zones()}
    return render(request, "account/profile.html", context, status=400 if form.is_bound else 200)

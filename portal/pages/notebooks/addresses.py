"""The page of a notebook's addresses for editors: make one, see them, end one."""

from typing import cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import User
from common.errors import InvalidInput
from common.rates import check_rate
from portal.access.app_links import link_to_notebook
from portal.forms import bind
from portal.pages.account.forms import DAYS
from portal.pages.notebooks.view_model import NotebookView, find_notebook
from portal.pages.request_guards import signed_in
from sharing.tokens import create_notebook_token, end_notebook_token

UNTIL_ENDED = "ended"


class AddressForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        help_text=gettext_lazy("What uses it, such as “VS Code on my laptop”."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    days = forms.TypedChoiceField(
        label=gettext_lazy("Valid for"),
        coerce=lambda chosen: None if chosen == UNTIL_ENDED else int(chosen),
        choices=[*DAYS, (UNTIL_ENDED, gettext_lazy("until I end it"))],
        initial=30,
    )


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def addresses(request: HttpRequest, notebook_id: str) -> HttpResponse:
    """List a notebook's addresses or make one, which is shown once."""
    user = cast(User, request.user)
    notebook = find_notebook(user, notebook_id)
    form, made, url = AddressForm(request.POST or None), None, ""
    if form.is_valid():
        check_rate("tokens", user.username, limit=20, per_s=3600)
        link = link_to_notebook(notebook)
        try:
            made, secret = create_notebook_token(actor=user, notebook=notebook, **form.cleaned_data)
            form, url = AddressForm(), f"{link}?token={secret}"
        except InvalidInput as error:
            bind(form, error)
    context = {
        "view": NotebookView(notebook, user),
        "form": form,
        "made": made,
        "url": url,
        "tokens": list(notebook.tokens.select_related("made_by")),
    }
    return render(request, "notebooks/addresses.html", context, status=400 if form.is_bound else 200)


@signed_in
@require_POST
def end(request: HttpRequest, notebook_id: str, notebook_token_id: int) -> HttpResponse:
    user = cast(User, request.user)
    end_notebook_token(actor=user, notebook=find_notebook(user, notebook_id), token_id=notebook_token_id)
    messages.success(request, _("The address is ended. Editors that use it are refused from now on."))
    return redirect("notebook_addresses", notebook_id=notebook_id)

"""Pages for sign-in, passwords, API tokens and invitations."""

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from accounts.guesses import check_guess
from accounts.models import LoginLink, User
from accounts.services import (
    accept_invitation,
    create_token,
    find_link,
    revoke_token,
    set_password,
    use_login_link,
)
from common.errors import Conflict, InvalidInput, NotFound
from common.rates import check_rate
from events.record_and_publish import publish_recheck
from metrics.process import UNKNOWN_CALLERS
from portal.access.request_origin import address_of
from portal.forms import bind
from portal.pages.account.forms import JoinForm, PasswordForm, SignInForm, TokenForm
from portal.pages.request_guards import safe_path, signed_in

GET_POST = ["GET", "HEAD", "POST"]
KNOWN_COOKIE, KNOWN_SALT, KNOWN_S = "tessera-known", "portal.known-browser", 180 * 24 * 3600


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(GET_POST)
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in by password and go to `next`."""
    there = safe_path(request.POST.get("next") or request.GET.get("next", ""))
    if request.method != "POST":
        if request.user.is_authenticated:
            return HttpResponseRedirect(there)
        return _show_sign_in(request, SignInForm(), there)
    form = SignInForm(request.POST)
    if not form.is_valid():
        return _show_sign_in(request, form, there, status=400)
    _count_tries(request, form.cleaned_data["username"])
    user = authenticate(request, **form.cleaned_data)
    if user is None:
        UNKNOWN_CALLERS.labels("password").inc()
        form.add_error(None, _("The user name and password do not match. Try again, or ask an admin for a link."))
        return _show_sign_in(request, form, there, status=400)
    return _let_in(request, user, there)


@never_cache
@require_http_methods(GET_POST)
def sign_in_by_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Sign in by a one-time link, used up by POST only: mail scanners follow links."""
    try:
        if request.method != "POST":
            return render(request, "account/link.html", {"link": _link(secret, invitation=False)})
        user = use_login_link(secret)
    except NotFound:
        return render(request, "account/link_gone.html", status=404)
    if not user.has_usable_password():
        messages.info(request, _("You have no password yet. Set one in Settings, so that you can sign in again."))
    return _let_in(request, user, reverse("home"))


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(GET_POST)
def join(request: HttpRequest, secret: str) -> HttpResponse:
    """Accept an invitation with a new account."""
    try:
        link = _link(secret, invitation=True)
        form = JoinForm(request.POST or None)
        if form.is_valid() and (user := _join(secret, form)):
            return _let_in(request, user, reverse("home"))
    except NotFound:
        return render(request, "account/link_gone.html", status=404)
    context = {"form": form, "team": link.team}
    return render(request, "account/join.html", context, status=400 if form.is_bound else 200)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    person = request.user.pk
    logout(request)
    if person is not None:
        publish_recheck(person)  # closes open sockets; only now do they find no session
    return redirect("sign_in")


@never_cache
@signed_in
@sensitive_post_parameters("old", "new")
@require_http_methods(GET_POST)
def change_password(request: HttpRequest) -> HttpResponse:
    """Change the password and end all other sessions."""
    user = cast(User, request.user)
    form = PasswordForm(request.POST or None, has_password=user.has_usable_password())
    if form.is_valid() and _set_password(request, user, form):
        update_session_auth_hash(request, user)
        publish_recheck(user.pk)
        messages.success(request, _("Your password is changed. All your other sessions have ended."))
        return redirect("password")
    return render(request, "account/password.html", {"form": form}, status=400 if form.is_bound else 200)


@never_cache
@signed_in
@require_http_methods(GET_POST)
def tokens(request: HttpRequest) -> HttpResponse:
    """List API tokens or create one, whose secret is shown once."""
    user = cast(User, request.user)
    form, made, secret = TokenForm(request.POST or None), None, ""
    if form.is_valid():
        check_rate("tokens", user.username, limit=20, per_s=3600)
        try:
            made, secret = create_token(user=user, **form.cleaned_data)
            form = TokenForm()
        except InvalidInput as error:
            bind(form, error)
    rows = list(user.api_tokens.filter(revoked_at__isnull=True).select_related("made_by"))
    context = {
        "form": form,
        "made": made,
        "secret": secret,
        "tokens": rows,
        "live": sum(row.is_live for row in rows),
        "url": settings.TESSERA_PUBLIC_URL,
    }
    return render(request, "account/tokens.html", context, status=400 if form.is_bound else 200)


@signed_in
@require_POST
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    revoke_token(user=cast(User, request.user), token_id=token_id)
    messages.success(request, _("The token is revoked. Programs that use it are refused from now on."))
    return redirect("tokens")


def _show_sign_in(request: HttpRequest, form: SignInForm, there: str, status: int = 200) -> HttpResponse:
    return render(request, "account/sign_in.html", {"form": form, "next": there}, status=status)


def _let_in(request: HttpRequest, user: User, there: str) -> HttpResponse:
    """Log in and mark this browser as known by a signed cookie."""
    login(request, user)
    response = HttpResponseRedirect(there)
    response.set_signed_cookie(
        KNOWN_COOKIE,
        user.username,
        salt=KNOWN_SALT,
        max_age=KNOWN_S,
        httponly=True,
        samesite="Lax",
        secure=settings.SECURE,
        path=reverse("sign_in"),
    )
    return response


def _count_tries(request: HttpRequest, username: str) -> None:
    """Limit sign-ins to 10 a minute per account and 30 per address. Raises TooManyRequests.

    Known browsers count apart, so that guessing cannot lock the owner out.
    """
    name = username.lower()
    known = request.get_signed_cookie(KNOWN_COOKIE, default="", salt=KNOWN_SALT, max_age=KNOWN_S)
    if known.lower() == name:
        check_guess("sign-ins of a known browser", request.COOKIES[KNOWN_COOKIE], limit=10, per_s=60)
        return
    check_guess("sign-ins of an address", address_of(request), limit=30, per_s=60)
    check_guess("sign-ins of an account", name, limit=10, per_s=60)


def _link(secret: str, *, invitation: bool) -> LoginLink:
    """Return the link if valid and of this kind. Raises NotFound."""
    link = find_link(secret)
    if (link.user is None) is not invitation:
        raise NotFound(kind="link")
    return link


@sensitive_variables()
def _join(secret: str, form: JoinForm) -> User | None:
    try:
        return accept_invitation(secret=secret, **form.cleaned_data)
    except (InvalidInput, Conflict) as error:
        bind(form, error)
        return None


@sensitive_variables()
def _set_password(request: HttpRequest, user: User, form: PasswordForm) -> bool:
    if "old" in form.fields:
        check_guess("passwords of an account", user.username, limit=10, per_s=60)
        if not user.check_password(form.cleaned_data["old"]):
            form.add_error("old", _("This is not your password."))
            return False
    try:
        set_password(user, form.cleaned_data["new"], pointer="/new")
    except InvalidInput as error:
        bind(form, error)
        return False
    user.save(update_fields=["password"])
    return True

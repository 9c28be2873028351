"""Translated texts of the gateway's error pages."""

from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import PlatformError
from portal.access.app_sessions import AppGrant
from portal.gateway.http.responses import Words
from portal.gateway.http.services.door import StillWaking
from portal.wording.errors import describe_error

RETRY_S, WAKING_S = 5, 2


def describe_foreign_origin() -> Words:
    return Words(
        "foreign_origin",
        _("This page may not do that"),
        _("The request came from a page at another address. Open the app itself and try it there."),
        _("Open the app"),
        "/",
    )


def describe_two_cookies() -> Words:
    return Words(
        "two_cookies",
        _("Your browser sent a cookie twice"),
        _("Another page on this host may have set one of them. Clear the cookies of this site and open it again."),
        _("Open again"),
        "/",
    )


def describe_used_code() -> Words:
    return Words(
        "code_used",
        _("This link was used or has expired"),
        _("Open the app again, and the portal signs you in."),
        _("Open again"),
        "/",
    )


def describe_signed_out() -> Words:
    return Words(
        "not_signed_in",
        _("You are signed out of this app"),
        _("Your session in the portal ended, or you may no longer use this app. Open its page again."),
        _("Open again"),
        "/",
    )


def describe_dead_token() -> Words:
    return Words(
        "bad_token",
        _("This token does not open this address"),
        _(
            "It is for another notebook, was ended or has expired, or its owner may no longer use the notebook. Create "
            "a new address on the notebook's page."
        ),
        _("Open the portal"),
        settings.TESSERA_PUBLIC_URL + "/notebooks/",
    )


def describe_unavailable() -> Words:
    return Words(
        "unavailable",
        _("Tessera is temporarily unavailable"),
        _("Your access cannot be checked right now; running work continues. This page retries automatically."),
        _("Try again"),
        wait_s=RETRY_S,
    )


def describe_not_running(grant: AppGrant) -> Words:
    return Words(
        "not_running",
        _("Not running"),
        _("%(name)s is not running. You can start it in the portal; this address stays the same.")
        % {"name": grant.name},
        _("Open in the portal"),
        settings.TESSERA_PUBLIC_URL + grant.start_path,
    )


def describe_silent_app(grant: AppGrant) -> Words:
    return Words(
        "app_silent",
        _("The app does not respond yet"),
        _(
            "%(name)s is running, but nothing in it responds here. It may still be starting; this page retries "
            "automatically."
        )
        % {"name": grant.name},
        _("Try again"),
        wait_s=RETRY_S,
    )


def describe_service(grant: AppGrant, error: PlatformError) -> Words:
    """Say why a service does not answer; the page of one that wakes comes back by itself."""
    if isinstance(error, StillWaking):
        title = _("%(name)s is waking") % {"name": grant.name}
        cause = f"{error.params['why']} {_('This page opens it as soon as it answers.')}"
        return Words(error.code, title, cause, _("Try again"), wait_s=WAKING_S)
    title = _("%(name)s does not answer") % {"name": grant.name}
    page = settings.TESSERA_PUBLIC_URL + grant.start_path
    return Words(error.code, title, describe_error(error), _("Open in the portal"), page)


def describe_failed_start(error: PlatformError) -> Words:
    return Words(error.code, _("The app did not start"), describe_error(error), _("Try again"), "/")

"""Translated texts of the gateway's error pages."""

from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import PlatformError
from portal.access.app_sessions import Visit
from portal.gateway.http.responses import Words
from portal.wording.errors import describe_error

RETRY_S = 5


def foreign() -> Words:
    return Words(
        "foreign_origin",
        _("This page may not do that"),
        _("The request came from a page of another address. Open the app itself and do it there."),
        _("Open the app"),
        "/",
    )


def tossed() -> Words:
    return Words(
        "two_cookies",
        _("Your browser sent a cookie twice"),
        _("Another page of this machine may have set one of them. Clear the cookies of this site and open it again."),
        _("Open it again"),
        "/",
    )


def code_gone() -> Words:
    return Words(
        "code_used",
        _("This way in was used or is too old"),
        _("The portal lets you in anew when you open the app again."),
        _("Open it again"),
        "/",
    )


def not_signed_in() -> Words:
    return Words(
        "not_signed_in",
        _("You are signed out of this app"),
        _("The session in the portal ended, or you may not use this app any more. Open its page anew."),
        _("Open it again"),
        "/",
    )


def away() -> Words:
    return Words(
        "unavailable",
        _("Tessera is away for a moment"),
        _("It cannot look up who you are just now; what runs goes on. This page tries again by itself."),
        _("Try again"),
        wait_s=RETRY_S,
    )


def stopped(visit: Visit) -> Words:
    return Words(
        "not_running",
        _("This is not running"),
        _("%(name)s is not running at the moment. It can be started in the portal; this address stays the same.")
        % {"name": visit.name},
        _("Open it in the portal"),
        settings.TESSERA_PUBLIC_URL + visit.start_path,
    )


def silent(visit: Visit) -> Words:
    return Words(
        "app_silent",
        _("The app does not answer yet"),
        _("%(name)s runs, and nothing in it answers here. It may still be starting; this page tries again by itself.")
        % {"name": visit.name},
        _("Try again"),
        wait_s=RETRY_S,
    )


def failed(error: PlatformError) -> Words:
    return Words(error.code, _("The app did not come up"), describe_error(error), _("Try again"), "/")

"""The page frame that base.html reads as `look`: navigation, language, theme."""

from dataclasses import dataclass
from functools import cached_property

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import translation
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from accounts.models import User
from events.notices import count_unread
from monitoring.alerts.services import count_loud
from portal.access.idle_rows import IdleRow
from portal.pages.idle.banners import show_idle

THEMES = {"auto": _("System"), "light": _("Light"), "dark": _("Dark")}
THEME_ICONS = {"auto": "device-desktop", "light": "sun", "dark": "moon"}
THEME_COOKIE = "tessera-theme"
YEAR_S = 365 * 24 * 3600


@dataclass(frozen=True)
class NavItem:
    """A navigation line, current for paths with `prefixes`."""

    url_name: str
    words: object
    icon: str
    prefixes: tuple[str, ...]
    on_phone: bool = False


NAV = (
    NavItem("home", _("Home"), "home", (), on_phone=True),
    NavItem("notebooks", _("Notebooks"), "notebook", ("/notebooks/", "/n/"), on_phone=True),
    NavItem("jobs", _("Jobs"), "list-details", ("/jobs/", "/j/"), on_phone=True),
    NavItem("files", _("Files"), "folder", ("/files/",)),
    NavItem("queue", _("Queue"), "list-numbers", ("/queue/",), on_phone=True),
    NavItem("cluster", _("Cluster"), "server-2", ("/cluster/", "/nodes/")),
    NavItem("gpu_map", _("GPU map"), "layout-grid", ("/cluster/gpus/", "/gpus/")),
    NavItem("idle", _("Idle"), "zzz", ("/idle/",)),
    NavItem("quota", _("Quota"), "gauge", ("/quota/",)),
    NavItem("reports", _("Reports"), "chart-pie", ("/reports/",)),
    NavItem("alerts", _("Alerts"), "alert-triangle", ("/alerts/",)),
    NavItem("tokens", _("Settings"), "tools", ("/settings/",)),
)
CONSOLE = NavItem("admin:index", _("Console"), "adjustments", ("/console/",))


@dataclass(frozen=True)
class NavLink:
    url: str
    words: object
    icon: str
    current: bool
    on_phone: bool
    count: int = 0


class PageFrame:
    def __init__(self, request: HttpRequest):
        self.request = request

    @cached_property
    def nav(self) -> list[NavLink]:
        """Return the user's navigation; the longest matching prefix is current."""
        items = [*NAV, CONSOLE] if getattr(self.request.user, "is_staff", False) else list(NAV)
        path = self.request.path
        matches = {item: max((len(p) for p in item.prefixes if path.startswith(p)), default=0) for item in items}
        best = max(items, key=lambda item: matches[item])
        current = "home" if path == "/" else best.url_name if matches[best] else ""
        return [
            NavLink(
                reverse(item.url_name),
                item.words,
                item.icon,
                item.url_name == current,
                item.on_phone,
                self.loud if item.url_name == "alerts" else 0,
            )
            for item in items
        ]

    @cached_property
    def theme(self) -> str:
        return theme_of(self.request)

    @cached_property
    def themes(self) -> list[dict]:
        return [
            {"code": code, "words": words, "icon": THEME_ICONS[code], "current": code == self.theme}
            for code, words in THEMES.items()
        ]

    @cached_property
    def languages(self) -> list[dict]:
        now = translation.get_language()
        return [{"code": code, "words": words, "current": code == now} for code, words in settings.LANGUAGES]

    @cached_property
    def other_language(self) -> dict:
        """Return the other of two languages."""
        return next(language for language in self.languages if not language["current"])

    @cached_property
    def unread(self) -> int:
        return count_unread(self.request.user.pk) if self.request.user.is_authenticated else 0

    @cached_property
    def idle(self) -> list[IdleRow]:
        """Return what of the person's is idle, for the top of a whole page."""
        if not self.request.user.is_authenticated:
            return []
        rows, path = show_idle(self.request.user), self.request.path
        return [row for row in rows if path not in (f"/j/{row.job_id}/", f"/n/{row.notebook_id}/", "/idle/")]

    @cached_property
    def loud(self) -> int:
        """How many alerts fire for the user that nobody acknowledged."""
        user = self.request.user
        return count_loud(user) if user.is_authenticated else 0

    @cached_property
    def simulated(self) -> bool:
        return settings.TESSERA_EMBEDDED

    @property
    def request_id(self) -> str:
        return getattr(self.request, "request_id", "")


def look(request: HttpRequest) -> dict:
    return {"look": PageFrame(request)}


def language_of(request: HttpRequest) -> str:
    """Return the language set, of the cookie or of Accept-Language."""
    chosen = getattr(getattr(request, "user", None), "language", "")
    return chosen if chosen in dict(settings.LANGUAGES) else translation.get_language_from_request(request)


def theme_of(request: HttpRequest) -> str:
    user = getattr(request, "user", None)
    chosen = user.theme if user is not None and user.is_authenticated else request.COOKIES.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else "auto"


@require_POST
def set_look(request: HttpRequest) -> HttpResponse:
    """Save the posted `language` or `theme`, also in a cookie."""
    back = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    response = HttpResponseRedirect(back if safe else reverse("home"))
    language, theme = request.POST.get("language", ""), request.POST.get("theme", "")
    if language in dict(settings.LANGUAGES):
        _keep(request, response, "language", settings.LANGUAGE_COOKIE_NAME, language)
    if theme in THEMES:
        _keep(request, response, "theme", THEME_COOKIE, theme)
    return response


def _keep(request: HttpRequest, response: HttpResponse, field: str, cookie: str, value: str) -> None:
    response.set_cookie(cookie, value, max_age=YEAR_S, httponly=True, samesite="Lax", secure=settings.SECURE)
    if request.user.is_authenticated:
        User.objects.filter(pk=request.user.pk).update(**{field: value})

"""The page frame that base.html reads as `look`: navigation, language, theme."""

from dataclasses import dataclass
from functools import cached_property

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import translation
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from accounts.models import User
from accounts.time_zones import is_zone
from events.notices import count_unread
from monitoring.alerts.services import count_loud
from portal.access.idle_rows import IdleRow
from portal.pages.idle.banners import show_idle
from portal.pages.told import Told, list_told

THEMES = {"auto": _("System"), "light": _("Light"), "dark": _("Dark")}
THEME_ICONS = {"auto": "device-desktop", "light": "sun", "dark": "moon"}
THEME_COOKIE = "tessera-theme"
HELP_PAGES = {"zh-hans": "zh/"}
YEAR_S = 365 * 24 * 3600


@dataclass(frozen=True)
class NavItem:
    """A navigation line, current for paths with `prefixes`. key: pressed after "g", goes there."""

    url_name: str
    words: object
    icon: str
    prefixes: tuple[str, ...]
    on_phone: bool = False
    key: str = ""


NAV_GROUPS: tuple[tuple[str | Promise, tuple[NavItem, ...]], ...] = (
    ("", (NavItem("home", _("Home"), "home", (), on_phone=True, key="h"),)),
    (
        _("Work"),
        (
            NavItem("jobs", _("Jobs"), "list-details", ("/jobs/", "/j/", "/a/"), on_phone=True, key="j"),
            NavItem("templates", _("Templates"), "forms", ("/templates/",)),
            NavItem("notebooks", _("Notebooks"), "notebook", ("/notebooks/", "/n/"), key="n"),
            NavItem("services", _("Services"), "send", ("/services/",)),
            NavItem("schedules", _("Schedules"), "clock", ("/schedules/",)),
            NavItem("files", _("Files"), "folder", ("/files/",)),
            NavItem("datasets", _("Data"), "stack-2", ("/data/",)),
            NavItem("environments", _("Environments"), "flask", ("/environments/",)),
        ),
    ),
    (
        _("Cluster"),
        (
            NavItem("queue", _("Queue"), "list-numbers", ("/queue/",), on_phone=True, key="q"),
            NavItem("cluster", _("Cluster"), "server-2", ("/cluster/", "/nodes/", "/gpus/"), on_phone=True, key="c"),
            NavItem("idle", _("Idle"), "zzz", ("/idle/",)),
            NavItem("alerts", _("Alerts"), "alert-triangle", ("/alerts/",)),
        ),
    ),
    (
        _("Teams"),
        (
            NavItem("quota", _("Quota"), "gauge", ("/quota/",)),
            NavItem("reports", _("Reports"), "chart-pie", ("/reports/",), key="r"),
        ),
    ),
)
SETTINGS = NavItem("profile", _("Settings"), "tools", ("/settings/",))
CONSOLE = NavItem("console", _("Console"), "adjustments", ("/console/",))
NAV = (*(item for _group, items in NAV_GROUPS for item in items), SETTINGS)


@dataclass(frozen=True)
class NavLink:
    url: str
    words: object
    icon: str
    current: bool
    on_phone: bool
    key: str
    count: int = 0


class PageFrame:
    def __init__(self, request: HttpRequest):
        self.request = request

    @cached_property
    def nav_groups(self) -> list[tuple[str | Promise, list[NavLink]]]:
        """Return the user's navigation in its groups, each with its heading."""
        return [(group, [self._link_to(item) for item in items]) for group, items in NAV_GROUPS]

    @cached_property
    def nav(self) -> list[NavLink]:
        """Return the lines of all groups."""
        return [link for _group, links in self.nav_groups for link in links]

    @cached_property
    def nav_foot(self) -> list[NavLink]:
        """Return the lines at the foot, above Help."""
        items = [CONSOLE, SETTINGS] if getattr(self.request.user, "is_staff", False) else [SETTINGS]
        return [self._link_to(item) for item in items]

    def _link_to(self, item: NavItem) -> NavLink:
        count = self.loud if item.url_name == "alerts" else 0
        return NavLink(
            reverse(item.url_name), item.words, item.icon, item is self._current, item.on_phone, item.key, count
        )

    @cached_property
    def _current(self) -> NavItem | None:
        """The line of the page that is shown."""
        path = self.request.path
        items = (*NAV, CONSOLE)
        return items[0] if path == "/" else next((one for one in items if path.startswith(one.prefixes)), None)

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

    @property
    def zone(self) -> str:
        """Return the chosen time zone, for scripts; "" for the browser's."""
        person = getattr(self.request, "user", None)  # none where the request was refused before it was asked who
        chosen = getattr(person, "time_zone", "")
        return chosen if is_zone(chosen) else ""

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
    def told(self) -> list[Told]:
        """Return announcements and maintenance, for the top of a whole page."""
        return list_told(self.request.user, self.request) if self.request.user.is_authenticated else []

    @cached_property
    def loud(self) -> int:
        """How many alerts fire for the user that nobody acknowledged."""
        user = self.request.user
        return count_loud(user) if user.is_authenticated else 0

    @cached_property
    def simulated(self) -> bool:
        return settings.TESSERA_EMBEDDED

    @property
    def help_page(self) -> str:
        """Return the first page of Help in the user's language, below /help/."""
        return HELP_PAGES.get(translation.get_language() or "", "")

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
    chosen = {}
    if language in dict(settings.LANGUAGES):
        keep_language(response, language)
        chosen["language"] = language
    if theme in THEMES:
        _keep(response, THEME_COOKIE, theme)
        chosen["theme"] = theme
    if chosen and request.user.is_authenticated:
        User.objects.filter(pk=request.user.pk).update(**chosen)
    return response


def keep_language(response: HttpResponse, language: str) -> None:
    """Let pages speak a language in this browser also before sign-in; "" for the browser's own."""
    if language:
        _keep(response, settings.LANGUAGE_COOKIE_NAME, language)
    else:
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME, samesite="Lax")


def _keep(response: HttpResponse, cookie: str, value: str) -> None:
    response.set_cookie(cookie, value, max_age=YEAR_S, httponly=True, samesite="Lax", secure=settings.SECURE)

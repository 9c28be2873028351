"""The pages and actions of the palette: each page of the navigations, and what the frame can do."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from portal.pages.console.page import NAV as CONSOLE_NAV
from portal.pages.frame import HELP_PAGES, NAV, THEME_ICONS, THEMES
from portal.pages.palette.options import Option
from portal.pages.reports.views import REPORTS


@dataclass(frozen=True)
class Page:
    """note: the page that it is a part of. url_name finds it in every language, as its words do."""

    url_name: str
    words: str | Promise
    icon: str
    note: str | Promise = ""


PARTS = (
    Page("gpu_map", _("GPU map"), "layout-grid", _("Cluster")),
    Page("images", _("Images"), "stack-2", _("Cluster")),
    Page("notices", _("Notices"), "bell"),
    Page("tokens", _("API tokens"), "key", _("Settings")),
    Page("ssh_keys", _("SSH keys"), "terminal-2", _("Settings")),
    Page("secrets", _("Secrets"), "lock", _("Settings")),
    Page("webhooks", _("Webhooks"), "send", _("Settings")),
    Page("notifications", _("Notifications"), "bell", _("Settings")),
    Page("password", _("Password"), "lock", _("Settings")),
)
"""Pages that no line of the navigation leads to."""


def find_pages(user: User, text: str) -> list[Option]:
    """Return the pages whose words have all words of the text, all pages for ""."""
    pages = [Page(item.url_name, item.words, item.icon) for item in NAV]
    found = [_lead_to(page) for page in (*pages, *PARTS) if _has(text, page.words, page.url_name, page.note)]
    found += [
        Option(report.words, "chart-pie", reverse("report", args=[name]), note=_("Reports"))
        for name, report in REPORTS.items()
        if _has(text, report.words, name, _("Reports"))
    ]
    return [*found, *_find_console_pages(text)] if user.is_staff else found


def find_actions(text: str) -> list[Option]:
    """Return the actions whose words have all words of the text, all actions for ""."""
    return [option for option in _list_actions() if _has(text, option.words, option.presses)]


def _find_console_pages(text: str) -> Iterable[Option]:
    for _group, entries in CONSOLE_NAV:
        for entry in entries:
            page = Page(entry.url_name, entry.words, entry.icon, _("Console"))
            if _has(text, page.words, page.url_name, page.note):
                yield _lead_to(page)


def _list_actions() -> list[Option]:
    language = translation.get_language() or ""
    return [
        Option(_("Submit a job"), "plus", reverse("job_new")),
        Option(_("New notebook"), "plus", reverse("notebook_new")),
        Option(_("New schedule"), "plus", reverse("schedule_new")),
        Option(_("Help"), "help", reverse("help", args=[HELP_PAGES.get(language, "")])),
        Option(_("Keyboard shortcuts"), "forms", presses="open-shortcuts"),
        *(Option(words, THEME_ICONS[code], presses=f"theme-{code}", note=_("Theme")) for code, words in THEMES.items()),
        *(
            Option(words, "language", presses="other-language", note=_("Language"))
            for code, words in settings.LANGUAGES
            if code != language
        ),
        Option(_("Sign out"), "logout", presses="sign-out"),
    ]


def _lead_to(page: Page) -> Option:
    return Option(page.words, page.icon, reverse(page.url_name), note=page.note)


def _has(text: str, *words: str | Promise) -> bool:
    said = " ".join(str(one) for one in words).lower().replace("_", " ")
    return all(word in said for word in text.lower().split())

"""The palette's answer to what is typed: options in groups, each of which leads somewhere."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts.models import User
from portal.pages.palette.commands import find_actions, find_pages
from portal.pages.palette.found import find_objects
from portal.pages.palette.options import Group
from portal.pages.request_guards import signed_in
from portal.search.search import MARKS

LONGEST = 100
MOST_PAGES = 8
"""Beside what is found; ">" alone shows all."""


@never_cache
@require_safe
@signed_in
def search(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").replace("\0", "")[:LONGEST].strip()
    groups = list_groups(request.user, text)
    count = sum(len(group.options) for group in groups)
    return render(request, "palette/_answer.html", {"groups": groups, "count": count, "text": text})


def list_groups(user: User, text: str) -> list[Group]:
    """Return what the text finds. "@" means people only, "#" machines, ">" pages and actions; "" offers the actions."""
    if not text:
        return [Group(_("Actions"), find_actions(""))]
    if text[0] in MARKS:
        return find_objects(user, text)
    only = text.startswith(">")
    words = text.removeprefix(">")
    pages, actions = find_pages(user, words), find_actions(words)
    commands = [Group(_("Actions"), actions), Group(_("Pages"), pages if only else pages[:MOST_PAGES])]
    found = [] if only else find_objects(user, text)
    return [*found, *(group for group in commands if group.options)]

"""Page of the web terminal."""

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from accounts.models import User
from common.errors import Conflict, NotFound
from portal.access.idle_rows import find_told_rows
from portal.access.task_access import TaskAccess, find_task_access
from portal.pages.alerts.view_model import find_planned_stop
from portal.pages.request_guards import signed_in
from portal.partial import render_page, wants_fragment

TOUCH_KEYS = ("Esc", "Tab", "Ctrl+C", "Ctrl+D", "↑", "↓", "←", "→")
"""What a phone's keyboard lacks; static/js/terminal.js knows what each sends."""
ASK_NO_MORE = 286
"""With this status htmx ends a poll: https://htmx.org/docs/#load_polling"""


@require_safe
@signed_in
def show_terminal(request: HttpRequest, name: str) -> HttpResponse:
    user = cast(User, request.user)
    try:
        access = find_task_access(user, name)
    except (Conflict, NotFound):
        if wants_fragment(request):  # the terminal itself says that its task has ended
            return HttpResponse(status=ASK_NO_MORE)
        raise
    kind, back = ("notebook", f"nb-{access.notebook_id}") if access.notebook_id else ("job", f"job-{access.job_id}")
    context = {
        "access": access,
        "back": back,
        "back_url": reverse(kind, args=[back]),
        "touch_keys": TOUCH_KEYS,
        "warning": _find_warning(user, access, later=wants_fragment(request)),
    }
    return render_page(request, "terminal/page.html", context, fragment="terminal/_warning.html")


def _find_warning(user: User, access: TaskAccess, later: bool) -> str:
    """Say when a rule stops the task or takes its GPU, "" while none does.

    later: after the page was loaded, which itself said then what is idle.
    """
    if stop := find_planned_stop(access.job_id, user):
        return stop.stop
    idle = next(iter(find_told_rows(user, [access.job_id]).values()), None) if later else None
    if idle is None or not idle.acts:
        return ""
    return _("Idle for %(minutes)s min: %(act)s") % {"minutes": idle.minutes, "act": idle.acts}

"""Page of the web terminal."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from portal.access.task_access import find_task_access
from portal.pages.request_guards import signed_in

TOUCH_KEYS = ("Esc", "Tab", "Ctrl+C", "Ctrl+D", "↑", "↓", "←", "→")
"""What a phone's keyboard lacks; static/js/terminal.js knows what each sends."""


@require_safe
@signed_in
def show_terminal(request: HttpRequest, name: str) -> HttpResponse:
    access = find_task_access(request.user, name)
    kind, back = ("notebook", f"nb-{access.notebook_id}") if access.notebook_id else ("job", f"job-{access.job_id}")
    context = {"access": access, "back": back, "back_url": reverse(kind, args=[back]), "touch_keys": TOUCH_KEYS}
    return render(request, "terminal/page.html", context)

"""Page of the installation's checks, for admins."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from accounts.permissions import require
from portal.pages.entry import signed_in
from portal.partial import render_page
from runtimes.contract.runtime import Finding
from scheduler.preview.preview import list_pool_faults

ORDER = ("bad", "note", "ok")


@require_safe
@signed_in
def show_checks(request: HttpRequest) -> HttpResponse:
    """Show what `tessera doctor` finds, worst first."""
    require(request.user, "node.change")
    found = sorted(list_pool_faults(), key=lambda finding: ORDER.index(finding.tone))
    context = {"findings": found, "answer": checks_answer(found)}
    return render_page(request, "cluster/checks.html", context, fragment="cluster/_checks.html")


def checks_answer(found: list[Finding]) -> str:
    bad, notes = (sum(finding.tone == tone for finding in found) for tone in ("bad", "note"))
    if bad:
        words = ngettext("%(n)s problem found.", "%(n)s problems found.", bad)
        return words % {"n": bad}
    if notes:
        words = ngettext("Everything works; %(n)s note.", "Everything works; %(n)s notes.", notes)
        return words % {"n": notes}
    return _("Everything is in order.")

"""The admin console's site: same door as the portal's sign-in, for auditors (look) and admins (change)."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from common.errors import NotPermitted
from scheduler.preview import find_faults


class Console(AdminSite):
    site_title = _("Tessera console")
    site_header = _("Tessera console")
    index_title = _("What this installation is made of")
    site_url = "/"
    enable_nav_sidebar = True

    def get_urls(self) -> list[URLPattern | URLResolver]:
        return [path("findings/", self.admin_view(self.findings), name="findings"), *super().get_urls()]

    def findings(self, request: HttpRequest) -> HttpResponse:
        """What the doctor finds, looked at anew each time."""
        context = {**self.each_context(request), "title": _("Findings"), "findings": find_faults()}
        return TemplateResponse(request, "admin/findings.html", context)

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_authenticated and request.user.is_staff

    def login(self, request: HttpRequest, extra_context: dict | None = None) -> HttpResponse:
        """There is one sign-in, with its limits. Who is in and lands here may not see the console."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise NotPermitted(action="platform.read", needs=["admin", "auditor"])
        there = request.GET.get("next", reverse("admin:index"))
        return redirect(f"{reverse('sign_in')}?{urlencode({'next': there})}")

    def password_change(self, request: HttpRequest, extra_context: dict | None = None) -> HttpResponse:
        return redirect("password")

"""The admin site, with the portal's sign-in."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from common.errors import NotPermitted


class Console(AdminSite):
    site_title = _("Tessera console")
    site_header = _("Tessera console")
    index_title = _("Overview")
    site_url = "/"
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_authenticated and request.user.is_staff

    def login(self, request: HttpRequest, extra_context: dict | None = None) -> HttpResponse:
        """Redirect to the portal's sign-in. Raises NotPermitted if already signed in."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise NotPermitted(action="platform.read", needs=["admin", "auditor"])
        there = request.GET.get("next", reverse("admin:index"))
        return redirect(f"{reverse('sign_in')}?{urlencode({'next': there})}")

    def password_change(self, request: HttpRequest, extra_context: dict | None = None) -> HttpResponse:
        return redirect("password")

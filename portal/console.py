"""The admin console's site: same door as the portal's sign-in, for auditors (look) and admins (change)."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _


class Console(AdminSite):
    site_title = _("Tessera console")
    site_header = _("Tessera console")
    index_title = _("What this installation is made of")
    site_url = "/"

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_authenticated and request.user.is_staff

"""App configurations of portal and admin site."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class PortalConfig(AppConfig):
    name = "portal"
    default = True


class ConsoleConfig(AdminConfig):
    default_site = "portal.console.site.Console"
    default = False

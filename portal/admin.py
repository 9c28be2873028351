"""Register the admin site's models."""

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.utils.translation import gettext_lazy as _

from accounts.models import Team, User
from cluster.models import Agent, Enrolment, Gpu, Maintenance, Node, Pool, Window
from images.models import Image, Login
from monitoring.models import Price
from portal.console.agents import AgentAdmin, EnrolmentAdmin
from portal.console.images import ImageAdmin, LoginAdmin
from portal.console.machines import GpuAdmin, NodeAdmin, PoolAdmin, WindowAdmin
from portal.console.maintenance import MaintenanceAdmin
from portal.console.people import TeamAdmin, UserAdmin
from portal.console.prices import PriceAdmin
from portal.console.quotas import QuotaAdmin, UserLimitAdmin
from quotas.models import Quota, UserLimit

SECTIONS = {
    "accounts": _("People"),
    "cluster": _("Machines"),
    "images": _("Images"),
    "monitoring": _("Prices"),
    "quotas": _("Quotas and limits"),
}
for label, words in SECTIONS.items():
    apps.get_app_config(label).verbose_name = words

admin.site.unregister(Group)  # roles and teams replace it
admin.site.register(User, UserAdmin)
admin.site.register(Team, TeamAdmin)
admin.site.register(Pool, PoolAdmin)
admin.site.register(Window, WindowAdmin)
admin.site.register(Maintenance, MaintenanceAdmin)
admin.site.register(Node, NodeAdmin)
admin.site.register(Gpu, GpuAdmin)
admin.site.register(Agent, AgentAdmin)
admin.site.register(Enrolment, EnrolmentAdmin)
admin.site.register(Image, ImageAdmin)
admin.site.register(Login, LoginAdmin)
admin.site.register(Quota, QuotaAdmin)
admin.site.register(UserLimit, UserLimitAdmin)
admin.site.register(Price, PriceAdmin)

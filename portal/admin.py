"""What the console knows, by noun: people, machines, quotas."""

from django.contrib import admin
from django.contrib.auth.models import Group

from accounts.models import Team, User
from cluster.models import Gpu, Node, Pool
from portal.console_machines import GpuAdmin, NodeAdmin, PoolAdmin
from portal.console_people import TeamAdmin, UserAdmin
from portal.console_quotas import QuotaAdmin, UserLimitAdmin
from quotas.models import Quota, UserLimit

admin.site.unregister(Group)  # roles and teams say who may do what
admin.site.register(User, UserAdmin)
admin.site.register(Team, TeamAdmin)
admin.site.register(Pool, PoolAdmin)
admin.site.register(Node, NodeAdmin)
admin.site.register(Gpu, GpuAdmin)
admin.site.register(Quota, QuotaAdmin)
admin.site.register(UserLimit, UserLimitAdmin)

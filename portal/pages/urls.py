"""The pages' addresses. Every name here has a line in the table of tests/portal/test_doors.py."""

from django.urls import path

from portal.pages import account, apps, cluster, home, jobs, look, notices, queue, quota, ssh_keys, submit

urlpatterns = [
    path("", home.home, name="home"),
    path("jobs/", jobs.list_jobs, name="jobs"),
    path("jobs/new", submit.new_job, name="job_new"),
    path("jobs/new/sync", submit.sync_panes, name="job_sync"),
    path("j/<str:job_id>/", jobs.show_job, name="job"),
    path("j/<str:job_id>/stop", jobs.stop, name="job_stop"),
    path("j/<str:job_id>/retry", jobs.retry, name="job_retry"),
    path("j/<str:job_id>/hold", jobs.hold, name="job_hold"),
    path("j/<str:job_id>/release", jobs.release, name="job_release"),
    path("j/<str:job_id>/log/<uuid:task_uuid>", jobs.download_log, name="job_log"),
    path("apps/authorize", apps.authorize, name="app_authorize"),
    path("queue/", queue.show_queue, name="queue"),
    path("cluster/", cluster.show_cluster, name="cluster"),
    path("cluster/gpus/", cluster.show_gpu_map, name="gpu_map"),
    path("nodes/<str:name>/", cluster.show_node, name="node"),
    path("quota/", quota.show_quota, name="quota"),
    path("sign-in/", account.sign_in, name="sign_in"),
    path("sign-in/<str:secret>", account.sign_in_by_link, name="sign_in_by_link"),
    path("join/<str:secret>", account.join, name="join"),
    path("sign-out/", account.sign_out, name="sign_out"),
    path("settings/look/", look.set_look, name="set_look"),
    path("notices/", notices.list_notices, name="notices"),
    path("notices/bell", notices.show_bell, name="bell"),
    path("notices/read", notices.read_notices, name="notices_read"),
    path("settings/notifications/", notices.choose_notices, name="notifications"),
    path("settings/password/", account.change_password, name="password"),
    path("settings/tokens/", account.tokens, name="tokens"),
    path("settings/tokens/<int:token_id>/revoke", account.revoke, name="token_revoke"),
    path("settings/ssh-keys/", ssh_keys.ssh_keys, name="ssh_keys"),
    path("settings/ssh-keys/<int:key_id>/remove", ssh_keys.remove, name="ssh_key_remove"),
    path("settings/invite/", account.invite, name="invite"),
]

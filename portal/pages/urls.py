"""URLs of the pages, each in the access table of tests/portal/test_doors.py."""

from django.urls import path

from cluster.nodes import cordon_node, drain_node, uncordon_node
from jobs.control import hold_job, release_job, retry_job, stop_job
from monitoring.alerts.actions import confirm_action, undo_action
from portal.pages import apps, frame, home, terminal
from portal.pages.account import notices, report_mails, ssh_keys, webhooks
from portal.pages.account import sign_in_and_tokens as account
from portal.pages.alerts import views as alerts
from portal.pages.cluster import health as cluster_health
from portal.pages.cluster import queue, quota
from portal.pages.cluster import views as cluster
from portal.pages.files import views as files
from portal.pages.idle import people as idle_people
from portal.pages.idle import views as idle
from portal.pages.jobs import submit
from portal.pages.jobs import views as jobs
from portal.pages.notebooks import start_progress
from portal.pages.notebooks import views as notebooks
from portal.pages.reports import views as reports

urlpatterns = [
    path("", home.home, name="home"),
    path("jobs/", jobs.list_jobs, name="jobs"),
    path("jobs/new", submit.new_job, name="job_new"),
    path("jobs/new/sync", submit.sync_job_editor, name="job_sync"),
    path("j/<str:job_id>/", jobs.show_job, name="job"),
    path("j/<str:job_id>/stop", jobs.act_on_job, {"service": stop_job}, name="job_stop"),
    path("j/<str:job_id>/retry", jobs.act_on_job, {"service": retry_job}, name="job_retry"),
    path("j/<str:job_id>/hold", jobs.act_on_job, {"service": hold_job}, name="job_hold"),
    path("j/<str:job_id>/release", jobs.act_on_job, {"service": release_job}, name="job_release"),
    path("j/<str:job_id>/change", jobs.change, name="job_change"),
    path("j/<str:job_id>/settle", jobs.settle, name="job_settle"),
    path("j/<str:job_id>/resize", jobs.resize, name="job_resize"),
    path("j/<str:job_id>/log/<uuid:task_uuid>", jobs.download_log, name="job_log"),
    path("apps/authorize", apps.authorize, name="app_authorize"),
    path("terminal/<str:name>/", terminal.show_terminal, name="terminal"),
    path("notebooks/", notebooks.list_notebooks, name="notebooks"),
    path("notebooks/new", notebooks.new_notebook, name="notebook_new"),
    path("notebooks/preset", notebooks.start_preset, name="notebook_preset"),
    path("n/<str:notebook_id>/", notebooks.show_notebook, name="notebook"),
    path("n/<str:notebook_id>/open", start_progress.open_notebook, name="notebook_open"),
    path("n/<str:notebook_id>/start", notebooks.start, name="notebook_start"),
    path("n/<str:notebook_id>/stop", notebooks.stop, name="notebook_stop"),
    path("n/<str:notebook_id>/change", notebooks.change, name="notebook_change"),
    path("n/<str:notebook_id>/rename", notebooks.rename, name="notebook_rename"),
    path("n/<str:notebook_id>/clone", notebooks.clone, name="notebook_clone"),
    path("n/<str:notebook_id>/extend", notebooks.extend, name="notebook_extend"),
    path("n/<str:notebook_id>/delete", notebooks.delete, name="notebook_delete"),
    path("n/<str:notebook_id>/resume", idle.resume, name="notebook_resume"),
    path("queue/", queue.show_queue, name="queue"),
    path("cluster/", cluster.show_cluster, name="cluster"),
    path("cluster/gpus/", cluster.show_gpu_map, name="gpu_map"),
    path("cluster/images/", cluster.list_images, name="images"),
    path("cluster/checks/", cluster.show_checks, name="checks"),
    path("cluster/health/", cluster_health.show_health, name="health"),
    path("gpus/<str:uuid>/", cluster.show_gpu, name="gpu"),
    path("nodes/<str:name>/", cluster.show_node, name="node"),
    path("nodes/<str:name>/cordon", cluster.change_service, {"service": cordon_node}, name="node_cordon"),
    path("nodes/<str:name>/drain", cluster.change_service, {"service": drain_node}, name="node_drain"),
    path("nodes/<str:name>/uncordon", cluster.change_service, {"service": uncordon_node}, name="node_uncordon"),
    path("idle/", idle.show_idle, name="idle"),
    path("idle/people/", idle_people.show_people, name="idle_people"),
    path("idle/<str:job_id>/snooze", idle.snooze, name="idle_snooze"),
    path("idle/<str:job_id>/nudge", idle.nudge, name="idle_nudge"),
    path("idle/<str:job_id>/release", idle.release, name="idle_release"),
    path("idle/<str:job_id>/exempt", idle.exempt, name="idle_exempt"),
    path("idle/exemptions/<int:exemption_id>/end", idle.end_exemption, name="exemption_end"),
    path("quota/", quota.show_quota, name="quota"),
    path("reports/", reports.show_report, {"report": "usage"}, name="reports"),
    path("reports/<str:report>/", reports.show_report, name="report"),
    path("reports/<str:report>.csv", reports.download_report, name="report_csv"),
    path("files/", files.show_home, name="files"),
    path("files/team/<str:name>/", files.show_team, name="files_team"),
    path("files/view", files.view_file, name="file_view"),
    path("files/content", files.download_file, name="file_content"),
    path("files/archive", files.download_folder, name="file_archive"),
    path("files/image", files.show_image, name="file_image"),
    path("files/mkdir", files.make_folder, name="file_mkdir"),
    path("files/move", files.move_file, name="file_move"),
    path("files/delete", files.delete_file, name="file_delete"),
    path("sign-in/", account.sign_in, name="sign_in"),
    path("sign-in/<str:secret>", account.sign_in_by_link, name="sign_in_by_link"),
    path("join/<str:secret>", account.join, name="join"),
    path("sign-out/", account.sign_out, name="sign_out"),
    path("settings/look/", frame.set_look, name="set_look"),
    path("alerts/", alerts.list_alerts, name="alerts"),
    path("alerts/<int:alert_id>/acknowledge", alerts.acknowledge, name="alert_acknowledge"),
    path("alerts/<int:alert_id>/silence", alerts.silence, name="alert_silence"),
    path("alerts/<int:alert_id>/act", alerts.act, {"service": confirm_action}, name="alert_act"),
    path("alerts/<int:alert_id>/undo", alerts.act, {"service": undo_action}, name="alert_undo"),
    path("alerts/silences/<int:silence_id>/end", alerts.end, name="silence_end"),
    path("notices/", notices.list_notices, name="notices"),
    path("notices/bell", notices.show_bell, name="bell"),
    path("notices/read", notices.read_notices, name="notices_read"),
    path("settings/notifications/", notices.choose_notices, name="notifications"),
    path("settings/notifications/reports/<int:mail_id>/delete", report_mails.delete, name="report_mail_delete"),
    path("settings/notifications/stop/<str:secret>", report_mails.stop, name="report_mail_off"),
    path("settings/password/", account.change_password, name="password"),
    path("settings/tokens/", account.tokens, name="tokens"),
    path("settings/tokens/<int:token_id>/revoke", account.revoke, name="token_revoke"),
    path("settings/ssh-keys/", ssh_keys.ssh_keys, name="ssh_keys"),
    path("settings/ssh-keys/<int:key_id>/remove", ssh_keys.remove, name="ssh_key_remove"),
    path("settings/webhooks/", webhooks.list_webhooks, name="webhooks"),
    path("settings/webhooks/<int:webhook_id>/", webhooks.show_webhook, name="webhook"),
    path("settings/webhooks/<int:webhook_id>/test", webhooks.test, name="webhook_test"),
    path("settings/webhooks/<int:webhook_id>/switch", webhooks.switch, name="webhook_switch"),
    path("settings/webhooks/<int:webhook_id>/secret", webhooks.new_secret, name="webhook_secret"),
    path("settings/webhooks/<int:webhook_id>/delete", webhooks.delete, name="webhook_delete"),
    path("settings/webhooks/<int:webhook_id>/again/<int:delivery_id>", webhooks.send_again, name="webhook_again"),
    path("settings/invite/", account.invite, name="invite"),
]

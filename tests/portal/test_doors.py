"""Every door of the portal, knocked at by a visitor, by eve the stranger, and by a token that may do nothing.

DOORS is the whole truth about who gets in: a route of the URL resolver or a method of the API without a line here
fails; test_socket_doors has the websockets, gateway/test_app_doors the hosts of people's apps. The world behind the
doors is ada's: her running job, its task, her token; eve is in another team, bob leads hers.
"""

from datetime import timedelta
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone

from accounts.models import ApiToken, User
from accounts.scopes import SCOPES
from accounts.services import revoke_token
from accounts.ssh_keys import add_ssh_key
from common.secrets import digest_secret
from datasets.models import Dataset, DatasetVersion
from files.models import Upload
from jobs.models import Job
from jobs.task_access import derive_task_secret
from monitoring.models import Exemption, IdleRule, IdleWatch, ReportMail
from monitoring.report_mails.services import create_report_mail
from notebooks.services import create_notebook
from portal.api.permissions import AGENT, ANYBODY, SIGNED_IN
from portal.models import SavedView
from secret_store.services import set_secret
from sharing.tokens import create_notebook_token
from tests import make

SIGN_IN = 302  # to the sign-in page, and back afterwards
CLIENT = Client()  # one, since each builds all middlewares anew; nobody is signed in to it from one call to the next
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

# {(route, method): (an anonymous visitor, eve, ada's token without any scope)}
API = {
    ("api-me", "GET"): (401, 200, 200),
    ("api-me", "PATCH"): (401, 200, 403),
    ("api-tokens", "GET"): (401, 200, 403),
    ("api-tokens", "POST"): (401, 400, 403),
    ("api-token", "DELETE"): (401, 404, 403),
    ("api-ssh-keys", "GET"): (401, 200, 403),
    ("api-ssh-keys", "POST"): (401, 400, 403),
    ("api-ssh-key", "DELETE"): (401, 404, 403),
    ("api-notebooks", "GET"): (401, 200, 403),
    ("api-notebooks", "POST"): (401, 400, 403),
    ("api-notebook", "GET"): (401, 404, 403),
    ("api-notebook", "PATCH"): (401, 404, 403),
    ("api-notebook", "DELETE"): (401, 404, 403),
    ("api-job-shares", "GET"): (401, 404, 403),
    ("api-job-shares", "POST"): (401, 404, 403),
    ("api-job-share", "DELETE"): (401, 404, 403),
    ("api-job-rerun", "POST"): (401, 404, 403),
    ("api-job-diff", "GET"): (401, 404, 403),
    ("api-job-numbers", "GET"): (401, 404, 403),
    ("api-templates", "GET"): (401, 200, 403),
    ("api-templates", "POST"): (401, 400, 403),
    ("api-template", "GET"): (401, 404, 403),
    ("api-template-versions", "GET"): (401, 404, 403),
    ("api-template-versions", "POST"): (401, 404, 403),
    ("api-template-render", "POST"): (401, 404, 403),
    ("api-template-run", "POST"): (401, 404, 403),
    ("api-template-archive", "POST"): (401, 404, 403),
    ("api-template-restore", "POST"): (401, 404, 403),
    ("api-notebook-tokens", "GET"): (401, 404, 403),
    ("api-notebook-tokens", "POST"): (401, 404, 403),
    ("api-notebook-token", "DELETE"): (401, 404, 403),
    ("api-notebook-start", "POST"): (401, 404, 403),
    ("api-notebook-stop", "POST"): (401, 404, 403),
    ("api-notebook-clone", "POST"): (401, 404, 403),
    ("api-notebook-extend", "POST"): (401, 404, 403),
    ("api-arrays", "GET"): (401, 200, 403),
    ("api-array", "GET"): (401, 404, 403),
    ("api-array-stop", "POST"): (401, 404, 403),
    ("api-array-retry", "POST"): (401, 404, 403),
    ("api-services", "GET"): (401, 200, 403),
    ("api-services", "POST"): (401, 400, 403),
    ("api-service", "GET"): (401, 404, 403),
    ("api-service", "PATCH"): (401, 404, 403),
    ("api-service", "DELETE"): (401, 404, 403),
    ("api-service-wake", "POST"): (401, 404, 403),
    ("api-service-sleep", "POST"): (401, 404, 403),
    ("api-service-stop", "POST"): (401, 404, 403),
    ("api-service-rollback", "POST"): (401, 404, 403),
    ("api-service-promote", "POST"): (401, 404, 403),
    ("api-service-scale", "POST"): (401, 404, 403),
    ("api-service-metrics", "GET"): (401, 404, 403),
    ("api-service-revisions", "GET"): (401, 404, 403),
    ("api-service-keys", "GET"): (401, 404, 403),
    ("api-service-keys", "POST"): (401, 404, 403),
    ("api-service-key", "PATCH"): (401, 404, 403),
    ("api-service-key", "DELETE"): (401, 404, 403),
    ("api-service-usage", "GET"): (401, 404, 403),
    ("api-schedules", "GET"): (401, 200, 403),
    ("api-schedules", "POST"): (401, 400, 403),
    ("api-schedule", "GET"): (401, 404, 403),
    ("api-schedule", "PATCH"): (401, 404, 403),
    ("api-schedule", "DELETE"): (401, 404, 403),
    ("api-schedule-suspend", "POST"): (401, 404, 403),
    ("api-schedule-resume", "POST"): (401, 404, 403),
    ("api-schedule-run", "POST"): (401, 404, 403),
    ("api-schedule-runs", "GET"): (401, 404, 403),
    ("api-views", "GET"): (401, 200, 403),
    ("api-views", "POST"): (401, 400, 403),
    ("api-view", "DELETE"): (401, 404, 403),
    ("api-idle", "GET"): (401, 200, 403),
    ("api-idle-snooze", "POST"): (401, 404, 403),
    ("api-idle-nudge", "POST"): (401, 404, 403),
    ("api-idle-release", "POST"): (401, 404, 403),
    ("api-idle-people", "GET"): (401, 403, 403),
    ("api-exemptions", "GET"): (401, 200, 403),
    ("api-exemptions", "POST"): (401, 400, 403),
    ("api-exemption", "GET"): (401, 404, 403),
    ("api-exemption", "DELETE"): (401, 404, 403),
    ("api-idle-rules", "GET"): (401, 200, 403),
    ("api-idle-rules", "POST"): (401, 403, 403),
    ("api-idle-rules-preview", "POST"): (401, 403, 403),
    ("api-idle-rule", "GET"): (401, 200, 403),
    ("api-idle-rule", "DELETE"): (401, 403, 403),
    ("api-jobs", "GET"): (401, 200, 403),
    ("api-jobs", "POST"): (401, 400, 403),
    ("api-job", "GET"): (401, 404, 403),
    ("api-job", "PATCH"): (401, 404, 403),
    ("api-job-stop", "POST"): (401, 404, 403),
    ("api-job-retry", "POST"): (401, 404, 403),
    ("api-job-hold", "POST"): (401, 404, 403),
    ("api-job-release", "POST"): (401, 404, 403),
    ("api-job-resize", "POST"): (401, 404, 403),
    ("api-job-settle", "POST"): (401, 404, 403),
    ("api-job-logs", "GET"): (401, 404, 403),
    ("api-job-metrics", "GET"): (401, 404, 403),
    ("api-job-events", "GET"): (401, 404, 403),
    ("api-job-tasks", "GET"): (401, 404, 403),
    ("api-job-wait", "GET"): (401, 404, 403),
    ("api-job-levers", "GET"): (401, 404, 403),
    ("api-job-efficiency", "GET"): (401, 404, 403),
    ("api-jobs-plan", "POST"): (401, 400, 403),
    ("api-jobs-stop", "POST"): (401, 400, 403),
    ("api-jobs-retry", "POST"): (401, 400, 403),
    ("api-events", "GET"): (401, 200, 403),
    ("api-notices", "GET"): (401, 200, 403),
    ("api-notices-read", "POST"): (401, 200, 403),
    ("api-alerts", "GET"): (401, 200, 403),
    ("api-alerts-alertmanager", "POST"): (401, 400, 403),
    ("api-alert", "GET"): (401, 404, 403),
    ("api-alert-acknowledge", "POST"): (401, 404, 403),
    ("api-alert-act", "POST"): (401, 404, 403),
    ("api-alert-undo", "POST"): (401, 404, 403),
    ("api-alert-rules", "GET"): (401, 200, 403),
    ("api-alert-rules", "POST"): (401, 403, 403),
    ("api-alert-rule", "GET"): (401, 200, 403),
    ("api-alert-rule", "PATCH"): (401, 403, 403),
    ("api-alert-rule", "DELETE"): (401, 403, 403),
    ("api-alert-rule-backtest", "POST"): (401, 403, 403),
    ("api-silences", "GET"): (401, 200, 403),
    ("api-silences", "POST"): (401, 400, 403),
    ("api-silence", "GET"): (401, 404, 403),
    ("api-silence", "DELETE"): (401, 404, 403),
    ("api-secrets", "GET"): (401, 200, 403),
    ("api-secrets", "POST"): (401, 400, 403),
    ("api-secret", "DELETE"): (401, 404, 403),
    ("api-webhooks", "GET"): (401, 200, 403),
    ("api-webhooks", "POST"): (401, 400, 403),
    ("api-webhook", "GET"): (401, 404, 403),
    ("api-webhook", "PATCH"): (401, 404, 403),
    ("api-webhook", "DELETE"): (401, 404, 403),
    ("api-webhook-secret", "POST"): (401, 404, 403),
    ("api-webhook-test", "POST"): (401, 404, 403),
    ("api-deliveries", "GET"): (401, 404, 403),
    ("api-redeliver", "POST"): (401, 404, 403),
    ("api-codes", "POST"): (401, 415, 403),
    ("api-code", "GET"): (401, 404, 403),
    ("api-datasets", "GET"): (401, 200, 403),
    ("api-datasets", "POST"): (401, 400, 403),
    ("api-dataset", "GET"): (401, 404, 403),
    ("api-dataset", "PATCH"): (401, 404, 403),
    ("api-dataset-versions", "GET"): (401, 404, 403),
    ("api-dataset-version", "GET"): (401, 404, 403),
    ("api-dataset-version", "DELETE"): (401, 404, 403),
    ("api-dataset-version-restore", "POST"): (401, 404, 403),
    ("api-dataset-files", "GET"): (401, 404, 403),
    ("api-dataset-content", "GET"): (401, 404, 403),
    ("api-dataset-diff", "GET"): (401, 404, 403),
    ("api-environments", "GET"): (401, 200, 403),
    ("api-environment-build", "POST"): (401, 400, 403),
    ("api-environment-save", "POST"): (401, 404, 403),
    ("api-environment-packages", "GET"): (401, 404, 403),
    ("api-files", "GET"): (401, 200, 403),
    ("api-file-places", "GET"): (401, 200, 403),
    ("api-file-content", "GET"): (401, 400, 403),
    ("api-file-archive", "GET"): (401, 200, 403),
    ("api-file-content", "DELETE"): (401, 400, 403),
    ("api-file-move", "POST"): (401, 400, 403),
    ("api-file-mkdir", "POST"): (401, 400, 403),
    ("api-uploads", "POST"): (401, 400, 403),
    ("api-upload", "GET"): (401, 404, 403),
    ("api-upload", "PATCH"): (401, 415, 403),
    ("api-upload", "DELETE"): (401, 404, 403),
    ("api-pools", "GET"): (401, 200, 403),
    ("api-pools", "POST"): (401, 403, 403),
    ("api-pool", "GET"): (401, 200, 403),
    ("api-pool", "PATCH"): (401, 403, 403),
    ("api-windows", "GET"): (401, 200, 403),
    ("api-windows", "POST"): (401, 403, 403),
    ("api-window", "GET"): (401, 404, 403),
    ("api-window", "PATCH"): (401, 403, 403),
    ("api-window", "DELETE"): (401, 403, 403),
    ("api-volumes", "GET"): (401, 200, 403),
    ("api-volumes", "POST"): (401, 403, 403),
    ("api-volume", "GET"): (401, 404, 403),
    ("api-volume", "PATCH"): (401, 404, 403),
    ("api-volume", "DELETE"): (401, 404, 403),
    ("api-images", "GET"): (401, 200, 403),
    ("api-images", "POST"): (401, 400, 403),
    ("api-image", "GET"): (401, 404, 403),
    ("api-image", "PATCH"): (401, 404, 403),
    ("api-image", "DELETE"): (401, 404, 403),
    ("api-registries", "GET"): (401, 200, 403),
    ("api-registries", "POST"): (401, 400, 403),
    ("api-registry", "GET"): (401, 404, 403),
    ("api-registry", "PATCH"): (401, 404, 403),
    ("api-registry", "DELETE"): (401, 404, 403),
    ("api-nodes", "GET"): (401, 200, 403),
    ("api-node", "GET"): (401, 200, 403),
    ("api-node-checks", "GET"): (401, 200, 403),
    ("api-node-check-history", "GET"): (401, 200, 403),
    ("api-gpu-cordon", "POST"): (401, 403, 403),
    ("api-gpu-uncordon", "POST"): (401, 403, 403),
    ("api-node-cordon", "POST"): (401, 403, 403),
    ("api-node-drain", "POST"): (401, 403, 403),
    ("api-node-switch", "POST"): (401, 403, 403),
    ("api-node-uncordon", "POST"): (401, 403, 403),
    ("api-gpus", "GET"): (401, 200, 403),
    ("api-gpu-metrics", "GET"): (401, 200, 403),
    ("api-node-metrics", "GET"): (401, 200, 403),
    ("api-pool-metrics", "GET"): (401, 200, 403),
    ("api-team-metrics", "GET"): (401, 404, 403),
    ("api-findings", "GET"): (401, 403, 403),
    ("api-metrics", "GET"): (401, 403, 403),
    ("api-metrics-targets", "GET"): (401, 403, 403),
    ("api-agents", "GET"): (401, 200, 403),
    ("api-agents-invite", "POST"): (401, 403, 403),
    ("api-agents-enrol", "POST"): (400, 400, 400),
    ("api-agent", "GET"): (401, 404, 403),
    ("api-agent", "DELETE"): (401, 403, 403),
    ("api-agent-approve", "POST"): (401, 403, 403),
    ("api-agent-report", "POST"): (401, 403, 403),
    ("api-agent-logs", "POST"): (401, 403, 403),
    ("api-agent-slices", "POST"): (401, 403, 403),
    ("api-agent-samples", "POST"): (401, 403, 403),
    ("api-maintenance-list", "GET"): (401, 200, 403),
    ("api-maintenance-list", "POST"): (401, 403, 403),
    ("api-maintenance", "GET"): (401, 404, 403),
    ("api-maintenance", "PATCH"): (401, 403, 403),
    ("api-maintenance", "DELETE"): (401, 403, 403),
    ("api-prices", "GET"): (401, 403, 403),
    ("api-prices", "POST"): (401, 403, 403),
    ("api-price", "GET"): (401, 403, 403),
    ("api-price", "DELETE"): (401, 403, 403),
    ("api-report-day", "GET"): (401, 200, 403),
    ("api-report-energy", "GET"): (401, 200, 403),
    ("api-report-eta", "GET"): (401, 200, 403),
    ("api-report-failures", "GET"): (401, 200, 403),
    ("api-report-idle", "GET"): (401, 200, 403),
    ("api-report-waits", "GET"): (401, 200, 403),
    ("api-usage", "GET"): (401, 200, 403),
    ("api-search", "GET"): (401, 400, 400),
    ("api-announcements", "GET"): (401, 200, 200),
    ("api-announcements", "POST"): (401, 403, 403),
    ("api-announcement", "GET"): (401, 404, 404),
    ("api-announcement", "PATCH"): (401, 403, 403),
    ("api-announcement", "DELETE"): (401, 403, 403),
    ("api-audit", "GET"): (401, 403, 403),
    ("api-people", "GET"): (401, 403, 403),
    ("api-people", "POST"): (401, 403, 403),
    ("api-people-invite", "POST"): (401, 403, 403),
    ("api-person", "GET"): (401, 403, 403),
    ("api-person", "PATCH"): (401, 403, 403),
    ("api-person-link", "POST"): (401, 403, 403),
    ("api-teams", "GET"): (401, 200, 403),
    ("api-teams", "POST"): (401, 403, 403),
    ("api-team", "GET"): (401, 404, 403),
    ("api-team", "PATCH"): (401, 403, 403),
    ("api-members", "GET"): (401, 404, 403),
    ("api-members", "POST"): (401, 403, 403),
    ("api-member", "GET"): (401, 404, 403),
    ("api-member", "PATCH"): (401, 403, 403),
    ("api-member", "DELETE"): (401, 403, 403),
    ("api-quota", "GET"): (401, 404, 403),
    ("api-quota", "PATCH"): (401, 403, 403),
    ("api-quota", "DELETE"): (401, 403, 403),
    ("api-quotas-save", "POST"): (401, 403, 403),
    ("api-limits", "GET"): (401, 403, 403),
    ("api-limit", "GET"): (401, 403, 403),
    ("api-limit", "PATCH"): (401, 403, 403),
    ("api-quotas", "GET"): (401, 200, 403),
    ("api-queue", "GET"): (401, 200, 403),
    ("api-replay", "GET"): (401, 200, 403),
    ("api-history", "GET"): (401, 403, 403),
    ("api-capacity", "GET"): (401, 200, 403),
    ("api-version", "GET"): (200, 200, 200),
    ("api-openapi", "GET"): (200, 200, 200),
    ("api-job-schema", "GET"): (200, 200, 200),
    **{("api-nowhere", method): (404, 404, 404) for method in METHODS},
}
# Pages know sessions only: a token is nobody to them.
PAGES = {
    ("home", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("search", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("help", "GET"): (200, 200, 200),  # the documents, for anybody
    ("jobs", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("jobs_act", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("saved_view_save", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("saved_view_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_new", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("job_new", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("job_sync", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("job", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("job_stop", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_retry", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_hold", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_release", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_resize", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_change", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_label", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_settle", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_log", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("job_log_lines", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("job_log_times", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("job_log_search", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("app_authorize", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("app_authorize", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("terminal", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("notebooks", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notebook_new", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notebook_new", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("notebook_preset", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("notebook", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_open", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_start", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_stop", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_change", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_rename", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_clone", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_extend", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_resume", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("array", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("array_stop", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("array_retry", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("services", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("service_new", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("service_new", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("service", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("service", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_wake", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_sleep", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_stop", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_rollback", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_promote", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_scale", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_keys", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("service_keys", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_key_limits", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("service_key_end", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("schedules", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("schedule_new", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("schedule_new", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("schedule_times", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("schedule", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("schedule", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("schedule_suspend", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("schedule_resume", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("schedule_run", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("schedule_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_sharing", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("job_sharing", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_share_end", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_addresses", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_addresses", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_address_end", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("idle", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("idle_people", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("idle_snooze", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("idle_nudge", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("idle_release", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("idle_exempt", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("exemption_end", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("queue", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("cluster", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("gpu_map", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("replay", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("gpu", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("node", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("node_cordon", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("node_drain", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("gpu_cordon", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("gpu_uncordon", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("node_switch", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("node_uncordon", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("images", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("checks", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("health", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("quota", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("reports", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("report", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("report_csv", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("files", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("files_team", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("file_view", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("file_content", "GET"): (SIGN_IN, 409, SIGN_IN),
    ("file_archive", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("file_image", "GET"): (SIGN_IN, 409, SIGN_IN),
    ("file_mkdir", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("file_move", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("file_delete", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("sign_in", "GET"): (200, 302, 200),
    ("sign_in", "POST"): (400, 400, 400),
    ("sign_in_by_link", "GET"): (404, 404, 404),
    ("sign_in_by_link", "POST"): (404, 404, 404),
    ("join", "GET"): (404, 404, 404),
    ("join", "POST"): (404, 404, 404),
    ("sign_out", "POST"): (302, 302, 302),
    ("set_look", "POST"): (302, 302, 302),
    ("profile", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("profile", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("password", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("password", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("tokens", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("tokens", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("token_revoke", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("ssh_keys", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("ssh_keys", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("ssh_key_remove", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("alerts", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("alert_acknowledge", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("alert_silence", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("alert_act", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("alert_undo", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("silence_end", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notices", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("bell", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notices_read", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("notifications", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notifications", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("report_mail_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("report_mail_off", "GET"): (404, 404, 404),
    ("report_mail_off", "POST"): (404, 404, 404),
    ("datasets", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("datasets", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("dataset", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("dataset", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("dataset_stage", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("dataset_version", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("dataset_version_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("dataset_version_restore", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("dataset_file", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("environments", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("environments", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("notebook_save_environment", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("secrets", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("secrets", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("secret_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_rerun", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("jobs_compare", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("templates", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("template_new", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("template_new", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("template_check", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("template", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("template", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("template_preview", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("template_edit", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("template_edit", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("template_archive", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("template_restore", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhooks", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("webhooks", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("webhook", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("webhook", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_test", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_switch", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_secret", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_again", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("console", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_machines", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_machine_service", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_machine_service", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_machine_invite", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_approve", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_refuse", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_volumes", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_volumes", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_volume", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_volume", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_volume_delete", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_images", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_images", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_image", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_image", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_image_delete", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_login_add", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_login", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_login", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_login_delete", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_limits", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_limit", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_limit", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_people", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_people_csv", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_person_new", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_person_new", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_invite", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_person", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_person", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_person_link", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_access", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_membership", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_teams", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_teams", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_team", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_team", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_member_add", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_quotas", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_quotas", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_quotas_csv", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_quota_until", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_quota_undo", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("told_put_away", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("console_maintenance", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_maintenance_new", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_maintenance_new", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_maintenance_one", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_maintenance_one", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_maintenance_end", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_pools", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_pool_new", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_pool_new", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_pool", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_pool", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_pool_undo", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_windows", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_window_new", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_window_new", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_window", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_window", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_window_remove", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_idle_rules", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_idle_rule_new", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_idle_rule_new", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_idle_rule", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_idle_rule", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_idle_rule_delete", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_alert_rules", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_alert_rule_new", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_alert_rule_new", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_alert_rule", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_alert_rule", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_alert_rule_switch", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_alert_rule_delete", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_announcements", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_announcements", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_announcement_end", "POST"): (SIGN_IN, 403, SIGN_IN),
    ("console_audit", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("console_audit_csv", "GET"): (SIGN_IN, 403, SIGN_IN),
}
DOORS = API | PAGES
# The whole console is for admins and auditors: everybody else is sent away at every address of it.
CONSOLE = "admin:"
CONSOLE_WAYS = {"/sign-in/", "/", "/admin/", "/admin/login/", "/settings/password/"}  # each asks again

ALERTS = {"alerts:read", "alerts:write"}  # rules and their back-tests

KNOCKERS = ("anonymous", "stranger", "token without scope")


def routes():
    """(name with namespace, pattern) of every route of the resolver."""

    def walk(patterns, space=""):
        for pattern in patterns:
            if hasattr(pattern, "url_patterns"):
                yield from walk(pattern.url_patterns, f"{space}{pattern.namespace}:" if pattern.namespace else space)
            else:
                yield f"{space}{pattern.name}", pattern

    return list(walk(get_resolver().url_patterns))


ROUTES = dict(routes())
PLAIN = [name for name, _ in routes() if not name.startswith(CONSOLE)]
SCOPED = [
    name
    for name, pattern in routes()
    if name.startswith("api-") and not {SIGNED_IN, ANYBODY, AGENT} & set(pattern.callback.view_class.scopes.values())
]
# By what is in their address: a team's jobs are the lead's too.
OF_ADA_ALONE = [
    name
    for name, pattern in routes()
    if name == "terminal"
    or {"notebook_id", "token_id", "key_id", "upload_id", "secret_id", "webhook_id", "silence_id", "mail_id", "view_id"}
    & set(pattern.pattern.regex.groupindex)
]


@pytest.fixture(scope="module")
def built(rows_of_file):
    """One world for all doors."""
    return build_world()


@pytest.fixture
def world(built, db, settings):
    """Knocked at without limits: hundreds of doors in a few seconds are many calls of one person."""
    settings.TESSERA_RATES = {name: (0, per_s) for name, (_, per_s) in settings.TESSERA_RATES.items()}
    return built


def build_world():
    cast = make.cast()
    job = make.job(cast.ada, name="secret-plan", gpu="1/4", pool="dev")
    cast.image = make.image(cast.bob, cast.nlp, alias="secret-plan")
    cast.login = make.login(cast.bob, cast.nlp)
    cast.volume = make.volume(make.admin("nora"), cast.nlp, name="secret-plan")
    cast.webhook = make.webhook(cast.ada, name="secret-plan")
    cast.own_secret = set_secret(actor=cast.ada, name="SECRET_PLAN", value="secret-plan")
    cast.array = make.array(cast.ada, name="secret-plan")
    cast.schedule = make.schedule(cast.ada, name="secret-plan")
    cast.service = make.service(cast.ada, name="secret-service")
    make.service_key(cast.service)
    cast.task = make.start(job)[0]
    cast.alert = make.alert("low_activity", "secret-plan", owners=[cast.ada.pk], teams=[cast.nlp.pk])
    cast.silence = make.silence(cast.ada, cast.alert.rule)
    cast.job = Job.objects.get(pk=job.pk)
    IdleWatch.objects.create(job=cast.job, since=timezone.now(), finding="idle", rung=1)
    cast.exemption = Exemption.objects.create(
        job=cast.job, reason="secret-plan", by=cast.bob, until=timezone.now() + timedelta(hours=1)
    )
    cast.report_mail = create_report_mail(ReportMail(user=cast.ada, report="usage", by="team"))
    cast.idle_rule = IdleRule.objects.create(kind="batch")
    cast.notebook = create_notebook(user=cast.ada, name="secret-plan", gpu="1/4")
    cast.notebook_token, _secret = create_notebook_token(actor=cast.ada, notebook=cast.notebook, name="secret-plan")
    cast.secret = make.token(cast.ada)
    cast.upload = Upload.objects.create(uuid=uuid4(), user=cast.ada, name="secret-plan", size=1)
    cast.token = ApiToken.objects.get()
    ApiToken.objects.update(scopes=[])
    cast.template = make.template(cast.ada, cast.nlp, name="secret-plan")
    cast.dataset = Dataset.objects.create(user=cast.ada, team=cast.nlp, name="secret-plan", newest=1)
    DatasetVersion.objects.create(dataset=cast.dataset, number=1, user=cast.ada, place="home", path="secret-plan")
    cast.key = add_ssh_key(user=cast.ada, key=make.ssh_key(), name="secret-plan")
    cast.view = SavedView.objects.create(user=cast.ada, name="secret-plan", query="?q=secret-plan")
    cast.gone, cast.admin = make.user("gone", cast.nlp), make.admin()
    cast.dead = dead_tokens(cast)
    cast.sessions = {who: make.session(person) for who, person in [("stranger", cast.eve), ("lead", cast.bob)]}
    cast.gone_session = make.session(cast.gone)
    cast.parts = list_parts(cast)
    cast.tokens = {"stranger": make.token(cast.eve), "lead": make.token(cast.bob), "token without scope": cast.secret}
    User.objects.filter(pk=cast.gone.pk).update(suspended_at=timezone.now())
    return cast


def dead_tokens(cast):
    """What may be sent as a token and is none: {what it is: the secret}."""
    dead = {"revoked": make.token(cast.ada), "expired": make.token(cast.ada), "of a suspended": make.token(cast.gone)}
    revoked, expired = (ApiToken.objects.get(digest=digest_secret(dead[name])) for name in ("revoked", "expired"))
    revoke_token(user=cast.ada, token_id=revoked.pk)
    ApiToken.objects.filter(pk=expired.pk).update(expires_at="2020-01-01T00:00Z")
    return {**dead, "of a running task": derive_task_secret(cast.task.uuid), "made up": "tes_nothing"}


NAMES = {
    **dict.fromkeys(("api-pool", "api-pool-metrics"), "dev"),
    **dict.fromkeys(("api-team", "api-team-metrics", "api-members", "api-member", "api-quota"), "nlp"),
    **dict.fromkeys(("api-person", "api-person-link", "api-limit"), "ada"),
}


def address(name, world):
    parts = {**world.parts, "name": NAMES.get(name, world.job.public_id if name == "terminal" else "n1")}
    return reverse(name, kwargs={part: parts[part] for part in parts_of(ROUTES[name])})


def list_parts(world):
    """What stands in addresses, but for `name`."""
    return {
        "job_id": world.job.public_id,
        "notebook_id": world.notebook.public_id,
        "task_uuid": world.task.uuid,
        "token_id": world.token.pk,
        "notebook_token_id": world.notebook_token.pk,
        "key_id": world.key.pk,
        "secret_id": world.own_secret.pk,
        "webhook_id": world.webhook.pk,
        "array_id": world.array.public_id,
        "schedule_id": world.schedule.public_id,
        "service_id": world.service.public_id,
        "number": 1,
        "service_key_id": world.service.keys.get().pk,
        "dataset_id": world.dataset.public_id,
        "version": 1,
        "view_id": world.view.pk,
        "template_id": world.template.public_id,
        "alert_id": world.alert.pk,
        "rule_id": world.alert.rule_id,
        "silence_id": world.silence.pk,
        "maintenance_id": 1,
        "window_id": 1,
        "person": "ada",
        "pool": "dev",
        "event_id": 1,
        "quota_id": 1,
        "announcement_id": 1,
        "key": "a1",
        "price_id": 1,
        "mail_id": world.report_mail.pk,
        "report": "usage",
        "idle_rule_id": world.idle_rule.pk,
        "exemption_id": world.exemption.pk,
        "image_id": world.image.pk,
        "volume_id": world.volume.pk,
        "login_id": world.login.pk,
        "delivery_id": world.webhook.deliveries.first().pk,
        "secret": "no-such-secret",
        "digest": "sha256:" + "0" * 64,
        "path": "nothing",
        "page": "",
        "upload_id": world.upload.uuid,
        "uuid": world.gpus[0].uuid,
    }


def parts_of(pattern):
    """The names in its address."""
    return list(pattern.pattern.regex.groupindex)


def knock(who, world, method, path):
    """As the API is called by programs and the pages by browsers: eve and the lead come with their own."""
    if path.startswith("/api/") or who not in world.sessions:
        return call(method, path, world.tokens.get(who))
    return call(method, path, session=world.sessions[who])


def call(method, path, token=None, session=None):
    headers = {"Origin": django_settings.TESSERA_PUBLIC_URL}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body, kind = ("{}", "application/json") if path.startswith("/api/") else ("", "application/x-www-form-urlencoded")
    CLIENT.cookies.clear()
    if session:
        CLIENT.cookies[django_settings.SESSION_COOKIE_NAME] = session
    answer = CLIENT.generic(method, path, body, content_type=kind, headers=headers)
    if answer.streaming:  # nobody reads it: what it holds open is given back, but for this test's own connection
        request_finished.disconnect(close_old_connections)
        answer.close()
        request_finished.connect(close_old_connections)
    return answer


def test_every_route_has_a_line():
    assert {name for name, _ in DOORS} == set(PLAIN)


def test_every_method_of_the_api_has_a_line():
    for name, pattern in routes():
        if name.startswith("api-") and name != "api-nowhere":
            for method in pattern.callback.view_class.scopes:
                assert (name, method) in API, f"{method} {name}"


def test_every_route_has_a_name_of_its_own():
    assert len(PLAIN) == len(set(PLAIN))


@pytest.mark.parametrize("name", PLAIN)
def test_a_door_opens_for_whom_the_table_says(world, name):
    for (route, method), expected in DOORS.items():
        if route == name:
            path = address(name, world)
            for who, status in zip(KNOCKERS, expected, strict=True):
                answer = knock(who, world, method, path)
                assert answer.status_code == status, f"{who}: {method} {path}"
                assert_nothing_of_adas(answer, who, world, path)
    world.job.refresh_from_db()
    assert (world.job.state, world.job.stop_requested_at, world.job.held_at) == ("RUNNING", None, None)
    assert ApiToken.objects.get(pk=world.token.pk).revoked_at is None


@pytest.mark.parametrize("name", PLAIN)
def test_a_method_without_a_line_is_refused(world, name):
    for method in METHODS:
        if (name, method) not in DOORS:
            answer = knock("stranger", world, method, address(name, world))
            assert answer.status_code in {404, 405}, f"{method} {name}"


@pytest.mark.parametrize("name", OF_ADA_ALONE)
def test_what_is_adas_alone_is_as_unknown_to_the_lead_of_her_team(world, name):
    for (route, method), (_visitor, stranger, _token) in DOORS.items():
        if route == name:
            answer = knock("lead", world, method, address(name, world))
            assert answer.status_code == stranger, f"{method} {name}"
            assert_nothing_of_adas(answer, "lead", world, address(name, world))


@pytest.mark.parametrize("name", [name for name in PLAIN if name.startswith("api-")])
def test_no_dead_token_opens_anything_of_the_api(world, name):
    for route, method in API:
        if route == name:
            for what, secret in world.dead.items():
                answer = call(method, address(name, world), secret)
                assert (answer.status_code, answer.json()["code"]) == (401, "bad_token"), f"{what}: {method} {name}"


@pytest.mark.parametrize("name", SCOPED)
def test_a_token_needs_the_scope_of_a_door_and_no_other(world, name):
    for method, needed in ROUTES[name].callback.view_class.scopes.items():
        for_admins = {"cluster:write", "metrics:scrape", "people:write", "quotas:write", "audit:read", *ALERTS} & set(
            needed
        ) or name.startswith(("api-price", "api-idle-people"))
        person = world.admin if for_admins else world.ada  # nobody else may
        without, alone = make.token(person, *set(SCOPES) - set(needed)), make.token(person, *needed)
        refused, answer = (call(method, address(name, world), token) for token in (without, alone))
        assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope"), f"{method} {name}"
        assert refused.json()["params"]["scope"] in needed
        assert answer.status_code not in {401, 403, 500}, f"{method} {name}"


@pytest.mark.parametrize("name", PLAIN)
def test_the_session_of_a_suspended_person_is_nobodys(world, name):
    for (route, method), (visitor, *_others) in DOORS.items():
        if route == name:
            answer = call(method, address(name, world), session=world.gone_session)
            assert answer.status_code == visitor, f"{method} {name}"


def assert_nothing_of_adas(answer, who, world, path):
    """To sign in is a way back to this address; and no answer at all holds what is ada's alone."""
    if answer.status_code == SIGN_IN and who != "stranger":
        assert urlsplit(answer["Location"]).path in {"/sign-in/", "/"}
    elif who != "token without scope":
        shown = "" if answer.streaming else answer.content.decode().replace(path, "")  # an address may be echoed
        assert "secret-plan" not in shown and str(world.task.uuid) not in shown


def test_the_console_lets_nobody_in_but_auditors_and_admins(world):
    plain = [name for name in ROUTES if name.startswith(CONSOLE) and not name.endswith(":None")]
    assert plain
    for name in plain:
        path = console_address(name)
        for who in KNOCKERS:
            for method in ("GET", "POST"):
                answer = knock(who, world, method, path)
                assert answer.status_code in {302, 403, 404, 405}, f"{who}: {method} {path}"
                if answer.status_code == 302:
                    assert urlsplit(answer["Location"]).path in CONSOLE_WAYS, path


def console_address(name):
    pattern = ROUTES[name]
    parts = parts_of(pattern)
    known = {"object_id": "1", "content_type_id": "1", "app_label": name, "url": "x"}
    if "app_label" in parts:
        known["app_label"] = next(iter(_labels(pattern)))
    return reverse(name, kwargs={part: known[part] for part in parts})


def _labels(pattern):
    """The app labels that the console's index route takes, out of its regular expression."""
    return pattern.pattern.regex.pattern.split("(?P<app_label>")[1].split(")")[0].split("|")

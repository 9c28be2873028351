"""API addresses. Each name has a line in tests/portal/test_doors.py."""

from django.urls import path, re_path, register_converter
from django.urls.converters import StringConverter

from portal.api import about, search
from portal.api.cluster import agents, health, history, maintenance, nodes, pools, quota_writes, quotas, replay
from portal.api.datasets import datasets, environments
from portal.api.events import audit, events, notices, webhooks
from portal.api.files import files, uploads, volumes
from portal.api.jobs import (
    arrays,
    code_uploads,
    copies,
    efficiency,
    images,
    jobs,
    logs,
    numbers,
    plans,
    saved_views,
    shares,
    templates,
)
from portal.api.monitoring import (
    alert_rules,
    alerts,
    day_use,
    energy,
    eta,
    failures,
    foreign_alerts,
    idle,
    idle_people,
    idle_report,
    metrics,
    prices,
    usage,
    waits,
)
from portal.api.notebooks import notebooks
from portal.api.notebooks import tokens as notebook_tokens
from portal.api.people import announcements, me, people, secrets, ssh_keys, teams
from portal.api.schedules import schedules
from portal.api.services import services


class NotebookId(StringConverter):
    """nb-51."""

    regex = "nb-[1-9][0-9]{0,17}"


class JobId(StringConverter):
    """job-412, with no more digits than an id can have."""

    regex = "job-[1-9][0-9]{0,17}"


class ArrayId(StringConverter):
    regex = "arr-[1-9][0-9]{0,17}"


class ScheduleId(StringConverter):
    """sch-7."""

    regex = "sch-[1-9][0-9]{0,17}"


class ServiceId(StringConverter):
    """svc-7."""

    regex = "svc-[1-9][0-9]{0,17}"


class DatasetId(StringConverter):
    """ds-3."""

    regex = "ds-[1-9][0-9]{0,17}"


class Name(StringConverter):
    regex = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


class TemplateId(StringConverter):
    """tpl-4, or the name of an example."""

    regex = "[a-z][a-z0-9-]{0,62}"


class Digest(StringConverter):
    regex = "sha256:[0-9a-f]{64}"


class Number(StringConverter):
    regex = "[1-9][0-9]{0,17}"

    def to_python(self, value: str) -> int:  # type: ignore[override]
        return int(value)


for name, converter in (
    ("job", JobId),
    ("array", ArrayId),
    ("schedule", ScheduleId),
    ("dataset", DatasetId),
    ("service", ServiceId),
    ("api_notebook", NotebookId),
    ("called", Name),
    ("template", TemplateId),
    ("digest", Digest),
    ("number", Number),
):
    register_converter(converter, name)

DATASET_VERSION = "datasets/<dataset:dataset_id>/versions/<number:version>"

urlpatterns = [
    path("me", me.Me.as_view(), name="api-me"),
    path("me/tokens", me.Tokens.as_view(), name="api-tokens"),
    path("me/tokens/<number:token_id>", me.TokenDetail.as_view(), name="api-token"),
    path("me/ssh-keys", ssh_keys.SshKeys.as_view(), name="api-ssh-keys"),
    path("me/ssh-keys/<number:key_id>", ssh_keys.SshKeyDetail.as_view(), name="api-ssh-key"),
    path("me/views", saved_views.SavedViews.as_view(), name="api-views"),
    path("me/views/<number:view_id>", saved_views.SavedViewDetail.as_view(), name="api-view"),
    path("idle", idle.IdleList.as_view(), name="api-idle"),
    path("idle/<job:job_id>:snooze", idle.IdleSnooze.as_view(), name="api-idle-snooze"),
    path("idle/<job:job_id>:nudge", idle.IdleNudge.as_view(), name="api-idle-nudge"),
    path("idle/<job:job_id>:release", idle.IdleRelease.as_view(), name="api-idle-release"),
    path("idle-people", idle_people.IdlePeople.as_view(), name="api-idle-people"),
    path("exemptions", idle.ExemptionList.as_view(), name="api-exemptions"),
    path("exemptions/<number:exemption_id>", idle.ExemptionDetail.as_view(), name="api-exemption"),
    path("idle-rules", idle.RuleList.as_view(), name="api-idle-rules"),
    path("idle-rules:preview", idle.RulePreview.as_view(), name="api-idle-rules-preview"),
    path("idle-rules/<number:idle_rule_id>", idle.RuleDetail.as_view(), name="api-idle-rule"),
    path("jobs", jobs.JobList.as_view(), name="api-jobs"),
    path("jobs/<job:job_id>", jobs.JobDetail.as_view(), name="api-job"),
    path("jobs/<job:job_id>:stop", jobs.JobStop.as_view(), name="api-job-stop"),
    path("jobs/<job:job_id>:retry", jobs.JobRetry.as_view(), name="api-job-retry"),
    path("jobs/<job:job_id>:hold", jobs.JobHold.as_view(), name="api-job-hold"),
    path("jobs/<job:job_id>:release", jobs.JobRelease.as_view(), name="api-job-release"),
    path("jobs/<job:job_id>:settle", jobs.JobSettle.as_view(), name="api-job-settle"),
    path("jobs/<job:job_id>:resize", jobs.JobResize.as_view(), name="api-job-resize"),
    path("jobs/<job:job_id>/logs", logs.JobLogs.as_view(), name="api-job-logs"),
    path("jobs/<job:job_id>/events", jobs.JobEvents.as_view(), name="api-job-events"),
    path("jobs/<job:job_id>/tasks", jobs.JobTasks.as_view(), name="api-job-tasks"),
    path("jobs/<job:job_id>/metrics", metrics.JobMetrics.as_view(), name="api-job-metrics"),
    path("jobs/<job:job_id>/numbers", numbers.JobNumbers.as_view(), name="api-job-numbers"),
    path("jobs/<job:job_id>/shares", shares.JobShares.as_view(), name="api-job-shares"),
    path("jobs/<job:job_id>/shares/<called:person>", shares.JobShare.as_view(), name="api-job-share"),
    path("jobs/<job:job_id>/wait", jobs.JobWait.as_view(), name="api-job-wait"),
    path("jobs/<job:job_id>/efficiency", efficiency.JobEfficiency.as_view(), name="api-job-efficiency"),
    path("jobs/<job:job_id>/levers", plans.JobLevers.as_view(), name="api-job-levers"),
    path("arrays", arrays.ArrayList.as_view(), name="api-arrays"),
    path("arrays/<array:array_id>", arrays.ArrayDetail.as_view(), name="api-array"),
    path("arrays/<array:array_id>:stop", arrays.ArrayStop.as_view(), name="api-array-stop"),
    path("arrays/<array:array_id>:retry", arrays.ArrayRetry.as_view(), name="api-array-retry"),
    path("services", services.Services.as_view(), name="api-services"),
    path("services/<service:service_id>", services.ServiceDetail.as_view(), name="api-service"),
    path("services/<service:service_id>:wake", services.ServiceWake.as_view(), name="api-service-wake"),
    path("services/<service:service_id>:sleep", services.ServiceSleep.as_view(), name="api-service-sleep"),
    path("services/<service:service_id>:stop", services.ServiceStop.as_view(), name="api-service-stop"),
    path("services/<service:service_id>:rollback", services.ServiceRollback.as_view(), name="api-service-rollback"),
    path("services/<service:service_id>:promote", services.ServicePromote.as_view(), name="api-service-promote"),
    path("services/<service:service_id>:scale", services.ServiceScale.as_view(), name="api-service-scale"),
    path("services/<service:service_id>/metrics", metrics.ServiceMetrics.as_view(), name="api-service-metrics"),
    path("services/<service:service_id>/revisions", services.ServiceRevisions.as_view(), name="api-service-revisions"),
    path("services/<service:service_id>/keys", services.ServiceKeys.as_view(), name="api-service-keys"),
    path(
        "services/<service:service_id>/keys/<number:service_key_id>",
        services.ServiceKeyDetail.as_view(),
        name="api-service-key",
    ),
    path("services/<service:service_id>/usage", services.ServiceUsage.as_view(), name="api-service-usage"),
    path("schedules", schedules.Schedules.as_view(), name="api-schedules"),
    path("schedules/<schedule:schedule_id>", schedules.ScheduleDetail.as_view(), name="api-schedule"),
    path("schedules/<schedule:schedule_id>:suspend", schedules.ScheduleSuspend.as_view(), name="api-schedule-suspend"),
    path("schedules/<schedule:schedule_id>:resume", schedules.ScheduleResume.as_view(), name="api-schedule-resume"),
    path("schedules/<schedule:schedule_id>:run", schedules.ScheduleRun.as_view(), name="api-schedule-run"),
    path("schedules/<schedule:schedule_id>/runs", schedules.ScheduleRuns.as_view(), name="api-schedule-runs"),
    path("jobs/<job:job_id>:rerun", copies.JobRerun.as_view(), name="api-job-rerun"),
    path("jobs/<job:job_id>/diff", copies.JobDiff.as_view(), name="api-job-diff"),
    path("datasets", datasets.Datasets.as_view(), name="api-datasets"),
    path("datasets/<dataset:dataset_id>", datasets.DatasetDetail.as_view(), name="api-dataset"),
    path("datasets/<dataset:dataset_id>/versions", datasets.Versions.as_view(), name="api-dataset-versions"),
    path(f"{DATASET_VERSION}", datasets.VersionDetail.as_view(), name="api-dataset-version"),
    path(f"{DATASET_VERSION}:restore", datasets.VersionRestore.as_view(), name="api-dataset-version-restore"),
    path(f"{DATASET_VERSION}/files", datasets.VersionFiles.as_view(), name="api-dataset-files"),
    path(f"{DATASET_VERSION}/content", datasets.VersionContent.as_view(), name="api-dataset-content"),
    path("environments", environments.Environments.as_view(), name="api-environments"),
    path("environments:build", environments.EnvironmentBuild.as_view(), name="api-environment-build"),
    path(f"{DATASET_VERSION}/packages", environments.VersionPackages.as_view(), name="api-environment-packages"),
    path(f"{DATASET_VERSION}/diff", datasets.VersionDiff.as_view(), name="api-dataset-diff"),
    path("templates", templates.TemplateList.as_view(), name="api-templates"),
    path("templates/<template:template_id>", templates.TemplateDetail.as_view(), name="api-template"),
    path(
        "templates/<template:template_id>/versions", templates.TemplateVersions.as_view(), name="api-template-versions"
    ),
    path("templates/<template:template_id>:render", templates.TemplateRender.as_view(), name="api-template-render"),
    path("templates/<template:template_id>:run", templates.TemplateRun.as_view(), name="api-template-run"),
    path("templates/<template:template_id>:archive", templates.TemplateArchive.as_view(), name="api-template-archive"),
    path("templates/<template:template_id>:restore", templates.TemplateRestore.as_view(), name="api-template-restore"),
    path("jobs:plan", plans.JobsPlan.as_view(), name="api-jobs-plan"),
    path("jobs:stop", jobs.JobsStop.as_view(), name="api-jobs-stop"),
    path("jobs:retry", jobs.JobsRetry.as_view(), name="api-jobs-retry"),
    path("announcements", announcements.AnnouncementList.as_view(), name="api-announcements"),
    path(
        "announcements/<number:announcement_id>",
        announcements.AnnouncementDetail.as_view(),
        name="api-announcement",
    ),
    path("search", search.Search.as_view(), name="api-search"),
    path("audit", audit.AuditLog.as_view(), name="api-audit"),
    path("events", events.Events.as_view(), name="api-events"),
    path("notices", notices.Notices.as_view(), name="api-notices"),
    path("notices:read", notices.ReadNotices.as_view(), name="api-notices-read"),
    path("alerts", alerts.AlertList.as_view(), name="api-alerts"),
    path("alerts:alertmanager", foreign_alerts.AlertsFromAlertmanager.as_view(), name="api-alerts-alertmanager"),
    path("alerts/<number:alert_id>", alerts.AlertDetail.as_view(), name="api-alert"),
    path("alerts/<number:alert_id>:acknowledge", alerts.AlertAcknowledge.as_view(), name="api-alert-acknowledge"),
    path("alerts/<number:alert_id>:act", alerts.AlertAct.as_view(), name="api-alert-act"),
    path("alerts/<number:alert_id>:undo", alerts.AlertUndo.as_view(), name="api-alert-undo"),
    path("alert-rules", alert_rules.AlertRuleList.as_view(), name="api-alert-rules"),
    path("alert-rules/<number:rule_id>", alert_rules.AlertRuleDetail.as_view(), name="api-alert-rule"),
    path(
        "alert-rules/<number:rule_id>:backtest", alert_rules.AlertRuleBacktest.as_view(), name="api-alert-rule-backtest"
    ),
    path("silences", alerts.SilenceList.as_view(), name="api-silences"),
    path("silences/<number:silence_id>", alerts.SilenceDetail.as_view(), name="api-silence"),
    path("secrets", secrets.Secrets.as_view(), name="api-secrets"),
    path("secrets/<number:secret_id>", secrets.SecretDetail.as_view(), name="api-secret"),
    path("webhooks", webhooks.Webhooks.as_view(), name="api-webhooks"),
    path("webhooks/<number:webhook_id>", webhooks.WebhookDetail.as_view(), name="api-webhook"),
    path("webhooks/<number:webhook_id>:new-secret", webhooks.WebhookSecret.as_view(), name="api-webhook-secret"),
    path("webhooks/<number:webhook_id>:test", webhooks.WebhookTest.as_view(), name="api-webhook-test"),
    path("webhooks/<number:webhook_id>/deliveries", webhooks.Deliveries.as_view(), name="api-deliveries"),
    path(
        "webhooks/<number:webhook_id>/deliveries/<number:delivery_id>:redeliver",
        webhooks.Redeliver.as_view(),
        name="api-redeliver",
    ),
    path("notebooks", notebooks.NotebookList.as_view(), name="api-notebooks"),
    path("notebooks/<api_notebook:notebook_id>", notebooks.NotebookDetail.as_view(), name="api-notebook"),
    path(
        "notebooks/<api_notebook:notebook_id>/tokens",
        notebook_tokens.NotebookTokens.as_view(),
        name="api-notebook-tokens",
    ),
    path(
        "notebooks/<api_notebook:notebook_id>/tokens/<number:notebook_token_id>",
        notebook_tokens.NotebookTokenDetail.as_view(),
        name="api-notebook-token",
    ),
    path("notebooks/<api_notebook:notebook_id>:start", notebooks.NotebookStart.as_view(), name="api-notebook-start"),
    path("notebooks/<api_notebook:notebook_id>:stop", notebooks.NotebookStop.as_view(), name="api-notebook-stop"),
    path("notebooks/<api_notebook:notebook_id>:clone", notebooks.NotebookClone.as_view(), name="api-notebook-clone"),
    path(
        "notebooks/<api_notebook:notebook_id>:save-environment",
        environments.EnvironmentSave.as_view(),
        name="api-environment-save",
    ),
    path("notebooks/<api_notebook:notebook_id>:extend", notebooks.NotebookExtend.as_view(), name="api-notebook-extend"),
    path("code", code_uploads.CodeUpload.as_view(), name="api-codes"),
    path("code/<digest:digest>", code_uploads.CodeDetail.as_view(), name="api-code"),
    path("files", files.FolderView.as_view(), name="api-files"),
    path("files/places", files.Places.as_view(), name="api-file-places"),
    path("files/content", files.Content.as_view(), name="api-file-content"),
    path("files/archive", files.FolderContent.as_view(), name="api-file-archive"),
    path("files:move", files.Move.as_view(), name="api-file-move"),
    path("files:mkdir", files.Mkdir.as_view(), name="api-file-mkdir"),
    path("files/uploads", uploads.Uploads.as_view(), name="api-uploads"),
    path("files/uploads/<uuid:upload_id>", uploads.UploadDetail.as_view(), name="api-upload"),
    path("pools", pools.PoolList.as_view(), name="api-pools"),
    path("pools/<called:name>", pools.PoolDetail.as_view(), name="api-pool"),
    path("pools/<called:name>/metrics", metrics.PoolMetrics.as_view(), name="api-pool-metrics"),
    path("windows", pools.WindowList.as_view(), name="api-windows"),
    path("windows/<number:window_id>", pools.WindowDetail.as_view(), name="api-window"),
    path("images", images.ImageList.as_view(), name="api-images"),
    path("images/<number:image_id>", images.ImageDetail.as_view(), name="api-image"),
    path("volumes", volumes.VolumeList.as_view(), name="api-volumes"),
    path("volumes/<number:volume_id>", volumes.VolumeDetail.as_view(), name="api-volume"),
    path("registries", images.RegistryList.as_view(), name="api-registries"),
    path("registries/<number:login_id>", images.RegistryDetail.as_view(), name="api-registry"),
    path("nodes", nodes.NodeList.as_view(), name="api-nodes"),
    path("nodes/<called:name>", nodes.NodeDetail.as_view(), name="api-node"),
    path("nodes/<called:name>/metrics", metrics.NodeMetrics.as_view(), name="api-node-metrics"),
    path("nodes/<called:name>/checks", nodes.NodeChecks.as_view(), name="api-node-checks"),
    path("nodes/<called:name>/checks/history", nodes.NodeCheckHistory.as_view(), name="api-node-check-history"),
    path("nodes/<called:name>:cordon", nodes.NodeCordon.as_view(), name="api-node-cordon"),
    path("nodes/<called:name>:drain", nodes.NodeDrain.as_view(), name="api-node-drain"),
    path("nodes/<called:name>:switch", nodes.NodeSwitch.as_view(), name="api-node-switch"),
    path("nodes/<called:name>:uncordon", nodes.NodeUncordon.as_view(), name="api-node-uncordon"),
    path("gpus", nodes.GpuList.as_view(), name="api-gpus"),
    path("gpus/<called:uuid>:cordon", nodes.GpuCordon.as_view(), name="api-gpu-cordon"),
    path("gpus/<called:uuid>:uncordon", nodes.GpuUncordon.as_view(), name="api-gpu-uncordon"),
    path("gpus/<called:uuid>/metrics", metrics.GpuMetrics.as_view(), name="api-gpu-metrics"),
    path("findings", health.FindingList.as_view(), name="api-findings"),
    path("agents", agents.AgentList.as_view(), name="api-agents"),
    path("agents:invite", agents.AgentInvite.as_view(), name="api-agents-invite"),
    path("agents:enrol", agents.AgentEnrol.as_view(), name="api-agents-enrol"),
    path("agents/<called:name>", agents.AgentDetail.as_view(), name="api-agent"),
    path("agents/<called:name>:approve", agents.AgentApprove.as_view(), name="api-agent-approve"),
    path("agents/<called:name>:report", agents.AgentReport.as_view(), name="api-agent-report"),
    path("agents/<called:name>:slices", agents.AgentSlices.as_view(), name="api-agent-slices"),
    path("agents/<called:name>:samples", agents.AgentSamples.as_view(), name="api-agent-samples"),
    path("agents/<called:name>:logs", agents.AgentLogs.as_view(), name="api-agent-logs"),
    path("maintenance", maintenance.MaintenanceList.as_view(), name="api-maintenance-list"),
    path("maintenance/<number:maintenance_id>", maintenance.MaintenanceDetail.as_view(), name="api-maintenance"),
    path("people", people.PersonList.as_view(), name="api-people"),
    path("people:invite", people.PersonInvite.as_view(), name="api-people-invite"),
    path("people/<called:name>", people.PersonDetail.as_view(), name="api-person"),
    path("people/<called:name>:link", people.PersonLink.as_view(), name="api-person-link"),
    path("teams", teams.TeamList.as_view(), name="api-teams"),
    path("teams/<called:name>", teams.TeamDetail.as_view(), name="api-team"),
    path("teams/<called:name>/members", teams.MemberList.as_view(), name="api-members"),
    path("teams/<called:name>/members/<called:person>", teams.MemberDetail.as_view(), name="api-member"),
    path("teams/<called:name>/metrics", metrics.TeamMetrics.as_view(), name="api-team-metrics"),
    path("prices", prices.PriceList.as_view(), name="api-prices"),
    path("prices/<number:price_id>", prices.PriceDetail.as_view(), name="api-price"),
    path("reports/day", day_use.DayUseView.as_view(), name="api-report-day"),
    path("reports/energy", energy.EnergyReportView.as_view(), name="api-report-energy"),
    path("reports/eta", eta.EtaReportView.as_view(), name="api-report-eta"),
    path("reports/failures", failures.FailureReportView.as_view(), name="api-report-failures"),
    path("reports/idle", idle_report.IdleReportView.as_view(), name="api-report-idle"),
    path("reports/waits", waits.WaitReportView.as_view(), name="api-report-waits"),
    path("usage", usage.Usage.as_view(), name="api-usage"),
    path("quotas", quotas.Quotas.as_view(), name="api-quotas"),
    path("quotas:save", quota_writes.QuotasSave.as_view(), name="api-quotas-save"),
    path("quotas/<called:name>/<called:pool>", quota_writes.QuotaDetail.as_view(), name="api-quota"),
    path("limits", quota_writes.LimitList.as_view(), name="api-limits"),
    path("limits/<called:name>", quota_writes.LimitDetail.as_view(), name="api-limit"),
    path("queue", nodes.QueueView.as_view(), name="api-queue"),
    path("cluster/replay", replay.ReplayView.as_view(), name="api-replay"),
    path("cluster/history", history.HistoryView.as_view(), name="api-history"),
    path("capacity", nodes.Capacity.as_view(), name="api-capacity"),
    path("version", about.Version.as_view(), name="api-version"),
    path("openapi.json", about.Description.as_view(), name="api-openapi"),
    path("job.schema.json", about.JobSchema.as_view(), name="api-job-schema"),
    re_path(r"^(?P<path>.*)$", about.Nowhere.as_view(), name="api-nowhere"),
]

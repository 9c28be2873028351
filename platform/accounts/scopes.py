"""What a token may be used for. Without imports: the job file names scopes, too."""

SCOPES = (
    "jobs:read",
    "jobs:write",
    "cluster:read",
    "cluster:write",
    "notebooks:read",
    "notebooks:write",
    "services:call",
    "idle:write",
    "files:read",
    "files:write",
    "tokens:write",
    "profile:write",
    "secrets:write",
    "webhooks:write",
    "reports:read",
    "metrics:scrape",
    "metrics:tasks",
    "alerts:read",
    "alerts:write",
    "people:write",
    "quotas:write",
    "audit:read",
)
JOB_SCOPES = tuple(scope for scope in SCOPES if scope != "tokens:write")
"""Those that a job's own token may have: it makes nothing that would outlive the job."""

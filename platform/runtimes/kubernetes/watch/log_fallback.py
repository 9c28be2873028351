"""Fallback for logs that no agent delivered: read an ended pod's log from the API server (newest 10 MiB only)."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from common.steady_clock import steady_now
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.pods.views import build_pod_path, build_view, is_tombstone, read_task_uuid
from runtimes.log_masking import NO_MASK, LogMask
from runtimes.log_store import LogStore

log = logging.getLogger("tessera.kubernetes")

MOST = 32 << 20
PATIENCE = timedelta(minutes=10)
"""How long an unreachable kubelet may delay forgetting the pod."""
NO_LOG = b"unable to retrieve container logs for", b"failed to try resolving symlinks in path"
"""What a kubelet returns as log text for a removed container or file."""


def fetch_log(api: ApiServer, pod: Mapping[str, Any], store: LogStore, mask: LogMask = NO_MASK) -> None:
    """Store the pod's log, masked, if none is stored. Raises Unavailable if worth a retry."""
    now = steady_now()
    if is_tombstone(pod) or store.size(read_task_uuid(pod)):
        return
    view = build_view(pod, now=now)
    if view.started_at is None:
        return
    meta = pod["metadata"]
    try:
        text = api.read_log(f"{build_pod_path(pod)}/log", MOST)
    except Rejected as words:
        log.info("there is no log of %s any more: %s", meta["name"], words)
    except Unavailable as away:
        if view.ended_at is not None and now - view.ended_at < PATIENCE:
            raise
        log.warning("the log of %s is given up: %s", meta["name"], away)
    else:
        if not text.startswith(NO_LOG):
            store.append(view.uuid, 0, mask.cover(text, is_last=True))

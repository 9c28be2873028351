"""What `tessera doctor` checks: database, clock, disk, loops, processes, agents, machines, runtime, orphans, lost
tasks.
"""

import time
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone
from django.utils.module_loading import import_string

from accounts.models import Team
from cluster.agents import SILENT_AFTER
from cluster.models import Agent, Node
from common.disk import free_mib
from runtimes.contract.errors import Unavailable
from runtimes.contract.node import OWN_NETWORK
from runtimes.contract.runtime import Finding, Runtime
from scheduler.health.lost_tasks import find_lost_tasks
from scheduler.health.platform_parts import (
    find_engine_faults,
    find_machine_faults,
    find_platform_faults,
    find_service_faults,
)
from scheduler.models import Lease
from scheduler.reconcile.orphans import load_orphans, never_ran
from scheduler.runtime import get_runtime

CLOCK_NOTE_S = 5
LITTLE_MIB = 1024
STUCK_AFTER_S = 60
LOOPS = {"cycle": "the scheduler", "reconcile": "what follows the machines"}


def run_installation_checks(*, probe: bool = False) -> list[Finding]:
    """Return all findings. probe: allow checks that run something."""
    runtime = get_runtime()
    found = [_database(), *_clock(), *_disk(), *_loops(), *_agents(), *_orphans(runtime), *find_lost_tasks()]
    found += [*find_platform_faults(), *find_service_faults(), *find_engine_faults(), *find_machine_faults()]
    found += _networks()
    if dotted := runtime.capabilities.examine:
        numbers = Team.objects.order_by("gid").values_list("gid", flat=True)
        found += import_string(dotted)(runtime, list(numbers), probe)
    return found


def _database() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8, current_setting('server_version')")
        there, version = cursor.fetchone()
    apart = abs(time.time() - there)
    words = f"PostgreSQL {version.split()[0]} answers; its clock and ours are {apart:.0f} s apart."
    if apart > CLOCK_NOTE_S:
        return Finding("database", "note", words, "Let a time service (chrony) set the clocks of all machines.")
    return Finding("database", "ok", words)


def _clock() -> Iterator[Finding]:
    """Tell a jump of a clock that deadlines do not follow yet."""
    jumps = Lease.objects.filter(name__in=LOOPS, last_ok_at__isnull=False).values_list("clock_jump_s", flat=True)
    if jump := max(jumps, key=abs, default=0):
        where = "forth" if jump > 0 else "back"
        words = f"The clock jumped {where} by {timedelta(seconds=abs(jump))} (hours:minutes:seconds)."
        steady = f"they follow it when it has been steady for {settings.TESSERA_CLOCK_STEADY_S} s."
        remedy = f"Nothing ends, starts or is deleted for it: {steady} Let a time service (chrony) set all clocks."
        yield Finding("clock", "note", words, remedy)


def _disk() -> Iterator[Finding]:
    """Check the disk that the database shares with people's files."""
    if least := settings.TESSERA_DISK_RESERVE_MIB:
        free = free_mib()
        words = f"{free} MiB are free on the disk of {settings.TESSERA_DATA}."
        if free < least:
            remedy = "Delete files that nobody needs: nothing new is accepted below"
            yield Finding("disk", "bad", words, f"{remedy} {least} MiB.")
        elif free < LITTLE_MIB:
            yield Finding("disk", "note", words, f"Free some space soon: below {least} MiB nothing new is accepted.")
        else:
            yield Finding("disk", "ok", words)


def _loops() -> Iterator[Finding]:
    """Check when each loop last succeeded."""
    last = dict(Lease.objects.filter(name__in=LOOPS).values_list("name", "last_ok_at"))
    for name, words in LOOPS.items():
        at = last.get(name)
        age = (timezone.now() - at).total_seconds() if at else None
        if age is None or age > STUCK_AFTER_S:
            when = "has never succeeded" if age is None else f"last succeeded {age:.0f} s ago"
            remedy = "Look at the logs of beat and the workers, and of watch on a cluster."
            yield Finding(name, "bad", f"The loop of {words} {when}.", remedy)
        else:
            yield Finding(name, "ok", f"The loop of {words} goes round.")


def _agents() -> Iterator[Finding]:
    """Check the agents of nodes with real cards."""
    with_cards = Node.objects.present().filter(gpus__simulated=False, gpus__removed_at=None).distinct()
    names = sorted(with_cards.values_list("name", flat=True))
    heard = dict(Agent.objects.filter(revoked_at=None).values_list("node_name", "reported_at"))
    missing = [name for name in names if name not in heard]
    silent = [name for name, at in heard.items() if at is None or timezone.now() - at > SILENT_AFTER]
    if missing:
        remedy = f"Let an agent in: tessera agent add {missing[0]}"
        yield Finding("agents", "note", f"No agent speaks for {', '.join(missing[:5])}.", remedy)
    if silent:
        remedy = "Look at the logs of the agent there."
        yield Finding("agents", "bad", f"Nothing is heard of the agents of {', '.join(sorted(silent)[:5])}.", remedy)
    if not missing and not silent:
        words = f"All {len(heard)} agents report." if heard else "No machine here needs an agent."
        yield Finding("agents", "ok", words)


def _networks() -> Iterator[Finding]:
    """Tell of machines where jobs of several teams share one network."""
    if Team.objects.count() < 2:
        return
    for node in Node.objects.present().order_by("name"):
        told = node.facts.get("network", OWN_NETWORK)  # of clusters, which have a network policy, nothing is told
        if told != OWN_NETWORK:
            what = f"Jobs of several teams share the network of {node.name}: each can connect to the others' ports."
            yield Finding("network", "note", what, told)


def _orphans(runtime: Runtime) -> Iterator[Finding]:
    """Report orphans; another check reports an unreachable runtime."""
    try:
        found = load_orphans(runtime.list_containers())
    except Unavailable:
        return
    ran = sorted((view for view in found if not never_ran(view)), key=lambda view: view.uuid)
    if ran:
        where = ", ".join(f"{view.uuid} on {view.node}" for view in ran[:3])
        more = f" and {len(ran) - 3} more" if len(ran) > 3 else ""
        remedy = "Look at them: manage.py strangers. End one that nobody needs: manage.py strangers --end UUID"
        yield Finding("strangers", "bad", f"No job knows of the container {where}{more}: it is left alone.", remedy)
    elif found:
        words = f"{len(found)} containers that never ran are known to no job: they are removed by themselves."
        yield Finding("strangers", "note", words)

"""Build the job spec of a replica."""

from dataclasses import replace

from jobs.jobfile.spec import JobSpec
from jobs.models import JobKind
from services.models import Revision, Service

LABEL, REVISION = "service", "revision"


def build_replica_spec(service: Service, revision: Revision, *, preemptible: bool) -> JobSpec:
    """Return the spec of one replica. preemptible: unless its file says."""
    spec = revision.job_spec
    port = revision.serving.port
    return replace(
        spec,
        kind=JobKind.SERVICE.value,
        serve=None,
        name=service.name,
        team=service.team.name,
        ports=spec.ports if port in spec.ports else (*spec.ports, port),
        preemptible=preemptible if spec.preemptible is None else spec.preemptible,
        retry_times=0,  # the controller starts another one, and counts crashes
        labels={**spec.labels, LABEL: service.public_id, REVISION: str(revision.number)},
    )

"""API of machines' agents: invitation, enrolment, approval and reports."""

from collections import Counter
from typing import cast

from django.conf import settings
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from cluster.agents import (
    REPORT_EVERY_S,
    approve_agent,
    check_agents,
    enrol_agent,
    invite_agent,
    revoke_agent,
    take_report,
)
from cluster.models import Agent, Node
from common.errors import NotFound, NotPermitted
from jobs.log_ingest import MOST_BYTES, Piece, get_log_pace, store_pieces
from jobs.running_slices import take_uses
from monitoring.samples.ingest import Taken, take_samples
from monitoring.samples.pace import get_sample_pace
from portal.api.authentication import AgentAuthentication, TokenAuthentication
from portal.api.cluster.agent_shapes import (
    AgentShape,
    ApproveAsk,
    EnrolAsk,
    EnrolledShape,
    InvitationShape,
    InviteAsk,
    LogsAnswer,
    LogsAsk,
    ReportAnswer,
    ReportAsk,
    SamplesAnswer,
    SamplesAsk,
    SlicesAnswer,
    SlicesAsk,
)
from portal.api.http.bodies import JSON, media_type, parse_json, read_json, read_packed_body
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.permissions import AGENT, ANYBODY
from portal.api.view import ApiView, read_query
from portal.wording.agents import command_of

READ, WRITE = ("cluster:read",), ("cluster:write",)
MOST_SAMPLES = 64 * 1024
"""Bytes of one body."""


class AgentList(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_agents"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(AgentShape, "AgentList"))
    def get(self, request: Request) -> Response:
        """List machines with an agent by name, also revoked ones."""
        return all_of(check_agents(Agent.objects.all()), AgentShape, **read_query(request, FieldsQuery))


class AgentDetail(ApiView):
    scopes = {"GET": READ, "DELETE": WRITE}
    operations = {"GET": "get_agent", "DELETE": "revoke_agent"}

    @extend_schema(responses=AgentShape)
    def get(self, request: Request, name: str) -> Response:
        agent = Agent.objects.filter(node_name=name).first()
        if agent is None:
            raise NotFound(kind="agent", id=name)
        return Response(_show(agent))

    @extend_schema(responses={204: OpenApiResponse(None, "Its key speaks no more.")})
    def delete(self, request: Request, name: str) -> Response:
        """Revoke its key for good. Its last report stays, and what runs there goes on."""
        require(request.user, "node.change")
        revoke_agent(actor=request.user.as_actor, node_name=name)
        return Response(status=204)


class AgentInvite(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "invite_agent"}

    @extend_schema(request={JSON: InviteAsk}, responses={201: OpenApiResponse(InvitationShape)})
    def post(self, request: Request) -> Response:
        """Create a token that enrols a machine's agent once, soon; it replaces an earlier one."""
        require(request.user, "node.change")
        row, token = invite_agent(actor=request.user.as_actor, node_name=read_json(request, InviteAsk)["node"])
        said = {"node": row.node_name, "token": token, "expires_at": row.expires_at, "command": command_of(token)}
        return Response(InvitationShape(said).data, status=201)


class AgentEnrol(ApiView):
    scopes = {"POST": ANYBODY}
    operations = {"POST": "enrol_agent"}
    refusals = {"POST": ("401", "403", "409")}

    @extend_schema(request={JSON: EnrolAsk}, responses=EnrolledShape)
    def post(self, request: Request) -> Response:
        """Bind the key to the machine of the token. Repeating it with the same key changes nothing."""
        return Response(EnrolledShape(enrol_agent(**read_json(request, EnrolAsk))).data)


class AgentApprove(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "approve_agent"}
    refusals = {"POST": ("409",)}

    @extend_schema(request={JSON: ApproveAsk}, responses=AgentShape)
    def post(self, request: Request, name: str) -> Response:
        """Approve new cards, and cards that report more than before. Refused if something else than `seen` waits by
        now.
        """
        require(request.user, "node.change")
        asked = read_json(request, ApproveAsk)
        return Response(_show(approve_agent(actor=request.user.as_actor, node_name=name, **asked)))


class AgentReport(ApiView):
    authentication_classes = [AgentAuthentication, TokenAuthentication]
    scopes = {"POST": AGENT}
    operations = {"POST": "report"}

    @extend_schema(request={JSON: ReportAsk}, responses=ReportAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Report the machine and its cards. Nothing raises what an administrator approved."""
        held = take_report(_agent(request, name), read_json(request, ReportAsk))
        return Response(ReportAnswer({"held_back": held, "next_in_s": REPORT_EVERY_S}).data)


class AgentLogs(ApiView):
    authentication_classes = [AgentAuthentication, TokenAuthentication]
    scopes = {"POST": AGENT}
    operations = {"POST": "bring_logs"}
    refusals = {"POST": ("503",)}

    @extend_schema(request={JSON: LogsAsk}, responses=LogsAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Send logs of the machine's tasks. Repeating changes nothing: each piece has its offset in the log."""
        agent = _agent(request, name)
        pieces = [Piece(**piece) for piece in read_json(request, LogsAsk)["logs"]]
        pause_s, ask_every_s = get_log_pace()
        known = store_pieces(agent, pieces)
        said = {
            "logs": known,
            "most_bytes": MOST_BYTES,
            "pause_s": pause_s,
            "ask_every_s": ask_every_s,
            "moments": True,
        }
        return Response(LogsAnswer(said).data)


class AgentSamples(ApiView):
    authentication_classes = [AgentAuthentication, TokenAuthentication]
    scopes = {"POST": AGENT}
    operations = {"POST": "send_samples"}

    @extend_schema(request={JSON: SamplesAsk}, responses=SamplesAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Send what the machine's cards and tasks have used, as totals. A value that is no sense is dropped, and the
        rest is taken. Repeating changes nothing.
        """
        agent = _agent(request, name)
        media_type(request, JSON)
        sent = parse_json(read_packed_body(request, MOST_SAMPLES))
        wanted = settings.TESSERA_SAMPLE_S > 0
        node = Node.objects.present().filter(name=agent.node_name).first() if wanted else None
        taken = take_samples(node, sent) if node is not None else Taken(0, 0, Counter())
        said = {"taken": taken.taken, "next": taken.next, "every_s": get_sample_pace(name)}
        return Response(SamplesAnswer(said).data)


class AgentSlices(ApiView):
    authentication_classes = [AgentAuthentication, TokenAuthentication]
    scopes = {"POST": AGENT}
    operations = {"POST": "tell_slices"}

    @extend_schema(request={JSON: SlicesAsk}, responses=SlicesAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Report tasks' use of their slices, and which is above its slice; the platform ends that one. Repeating
        changes nothing.
        """
        taken = take_uses(_agent(request, name), read_json(request, SlicesAsk)["slices"])
        return Response(SlicesAnswer({"taken": taken}).data)


def _agent(request: Request, name: str) -> Agent:
    """Return the calling agent. Raises NotPermitted for another machine's."""
    agent = cast(Agent, request.auth)
    if agent.node_name != name:
        raise NotPermitted("not_your_machine", own=agent.node_name, asked=name)
    return agent


def _show(agent: Agent) -> dict:
    (judged,) = check_agents([agent])
    return AgentShape(judged).data

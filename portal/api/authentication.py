"""Authentication by token, agent key or portal session."""

from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import translation
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts.models import ApiToken, User
from accounts.services import note_use
from cluster.agents import KEY, find_agent
from cluster.models import Agent
from common.errors import NotPermitted, NotSignedIn
from common.secrets import digest_secret
from portal.access.request_origin import mark_origin

SCHEME = "bearer"


class TokenAuthentication(BaseAuthentication):
    """Authorization: Bearer tes_...; `request.auth` is the ApiToken. Never taken from URLs."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != SCHEME:
            return None
        token = ApiToken.objects.live().filter(digest=digest_secret(secret.strip())).select_related("user").first()
        if token is None:
            raise NotSignedIn("bad_token")
        note_use(token)
        mark_origin(token.user, request._request, via=token.prefix)
        token.user.acting_token = token
        _speak_language_of(token.user, request)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tessera"'


class AgentCaller:
    """`request.user` of an agent's call."""

    is_authenticated = True

    def __init__(self, agent: Agent):
        self.pk, self.agent = agent.pk, agent


class AgentAuthentication(BaseAuthentication):
    """Authorization: Bearer tag_...; `request.auth` is the Agent."""

    def authenticate(self, request: Request) -> tuple[AgentCaller, Agent] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != SCHEME or not secret.strip().startswith(KEY):
            return None
        agent = find_agent(secret.strip())
        if agent is None:
            raise NotSignedIn("bad_agent_key")
        return AgentCaller(agent), agent

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tessera agent"'


class SessionAuthentication(BaseAuthentication):
    """The portal's session, for its scripts; changes need the CSRF token."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = getattr(request._request, "user", None)
        if user is None or not user.is_authenticated or not user.is_active:
            return None
        _check_csrf(request._request)
        return user, None


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> str:  # type: ignore[override]
        return reason


def _check_csrf(request: HttpRequest) -> None:
    check = _CsrfCheck(lambda request: None)  # type: ignore[arg-type,return-value]
    check.process_request(request)
    if check.process_view(request, None, (), {}):
        raise NotPermitted("csrf_failed")


def _speak_language_of(user: User, request: Request) -> None:
    """Default to the owner's language. LookMiddleware deactivates it."""
    if user.language and "Accept-Language" not in request.headers:
        translation.activate(user.language)
        request._request.LANGUAGE_CODE = user.language

"""API of a notebook's tokens: addresses for editors."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.access.app_links import link_to_notebook
from portal.api.http.bodies import JSON, read_json
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.notebooks.notebooks import find_notebook
from portal.api.view import ApiView, read_query
from sharing.tokens import create_notebook_token, end_notebook_token

SCOPE = ("tokens:write",)


class NotebookTokenShape(serializers.Serializer):
    """A notebook's token without its secret. prefix: how the secret begins. expires_at: null = never by itself.

    made_by: id of the API token that created it and whose end ends it, too; null if a person did.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    made_by = serializers.IntegerField(source="made_by_id", allow_null=True)


class NewNotebookTokenShape(NotebookTokenShape):
    """secret, url: shown only in this answer. url: the address of the Jupyter server, with the secret."""

    secret = serializers.CharField()
    url = serializers.CharField()


class NotebookTokenAsk(serializers.Serializer):
    """name: what uses it. days: until it expires; null or left out = until it is ended."""

    name = serializers.CharField(max_length=64)
    days = serializers.IntegerField(required=False, allow_null=True)


class NotebookTokens(ApiView):
    scopes = {"GET": SCOPE, "POST": SCOPE}
    operations = {"GET": "list_notebook_tokens", "POST": "create_notebook_token"}
    refusals = {"POST": ("503",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(NotebookTokenShape, "NotebookTokenList"))
    def get(self, request: Request, notebook_id: str) -> Response:
        """List a notebook's tokens, newest first."""
        notebook = find_notebook(request, notebook_id)
        return all_of(notebook.tokens.all(), NotebookTokenShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: NotebookTokenAsk}, responses={201: OpenApiResponse(NewNotebookTokenShape)})
    def post(self, request: Request, notebook_id: str) -> Response:
        """Create a token that opens this notebook as an existing Jupyter server to an editor, and nothing else."""
        notebook, asked = find_notebook(request, notebook_id), read_json(request, NotebookTokenAsk)
        link = link_to_notebook(notebook)
        token, secret = create_notebook_token(actor=request.user, notebook=notebook, made_by=request.auth, **asked)
        made = {"secret": secret, "url": f"{link}?token={secret}"}
        return Response({**NotebookTokenShape(token).data, **made}, status=201)


class NotebookTokenDetail(ApiView):
    scopes = {"DELETE": SCOPE}
    operations = {"DELETE": "end_notebook_token"}

    @extend_schema(responses={204: OpenApiResponse(None, "It works no more.")})
    def delete(self, request: Request, notebook_id: str, notebook_token_id: int) -> Response:
        """End a notebook's token; what it has opened is closed."""
        notebook = find_notebook(request, notebook_id)
        end_notebook_token(actor=request.user, notebook=notebook, token_id=notebook_token_id)
        return Response(status=204)

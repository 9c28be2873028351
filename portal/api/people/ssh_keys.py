"""API of the caller's SSH keys."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.ssh_keys import LONGEST_LINE, NAME_MAX, add_ssh_key, remove_ssh_key
from portal.api.http.bodies import JSON, read_json
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query


class SshKeyShape(serializers.Serializer):
    """kind: such as ssh-ed25519. fingerprint: as `ssh-keygen -l` prints it. expires_at: null = never.

    made_by: id of the token that added it and whose end ends it, too; null if a person did.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    kind = serializers.CharField()
    fingerprint = serializers.CharField()
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    made_by = serializers.IntegerField(source="made_by_id", allow_null=True)


class SshKeyAsk(serializers.Serializer):
    """key: the one line of a .pub file. name: else the key's comment. expires_at: when it stops working; left out, when
    the asking token does.
    """

    key = serializers.CharField(max_length=LONGEST_LINE)
    name = serializers.CharField(max_length=NAME_MAX, required=False, allow_blank=True)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class SshKeys(ApiView):
    scopes = {"GET": ("tokens:write",), "POST": ("tokens:write",)}
    operations = {"GET": "list_ssh_keys", "POST": "add_ssh_key"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(SshKeyShape, "SshKeyList"))
    def get(self, request: Request) -> Response:
        """List one's own SSH keys."""
        return all_of(request.user.ssh_keys.all(), SshKeyShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: SshKeyAsk}, responses={201: OpenApiResponse(SshKeyShape)})
    def post(self, request: Request) -> Response:
        """Add a public key for SSH to one's notebooks and jobs. It never outlives the asking token."""
        row = add_ssh_key(user=request.user, made_by=request.auth, **read_json(request, SshKeyAsk))
        return Response(SshKeyShape(row).data, status=201)


class SshKeyDetail(ApiView):
    scopes = {"DELETE": ("tokens:write",)}
    operations = {"DELETE": "remove_ssh_key"}

    @extend_schema(responses={204: OpenApiResponse(None, "It opens nothing any more.")})
    def delete(self, request: Request, key_id: int) -> Response:
        """Remove one of one's own keys; its sessions end within five seconds."""
        remove_ssh_key(user=request.user, key_id=key_id)
        return Response(status=204)

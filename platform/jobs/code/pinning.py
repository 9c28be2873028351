"""Pin the code of a job: a branch or tag is a commit from when the job is accepted."""

from collections.abc import Mapping
from dataclasses import replace

from django.conf import settings

from accounts.models import Team, User
from common.errors import FieldError, InvalidInput
from common.secrets import Unreadable
from jobs.code.git_code import SECRET, read_git
from jobs.code.git_refs import Reach, Unresolved, find_commit
from jobs.jobfile.spec import JobSpec, change_code
from secret_store.models import Secret
from secret_store.services import open_secret


def pin_code(user: User, team: Team, spec: JobSpec) -> JobSpec:
    """Return the spec with the commit of each repository that it names. Raises InvalidInput.

    Asks servers: call it outside of transactions, once the spec's secrets are resolved.
    """
    roles = {f"/roles/{role.name}/code": spec.secrets | role.secrets for role in spec.roles}
    known: dict[tuple[str, str], str] = {}

    def pin(text: str, pointer: str) -> str:
        code = read_git(text)
        if code is None or code.commit:
            return text
        token = _open_token(user, team, roles.get(pointer, spec.secrets))
        asked = (text, token)
        if asked not in known:
            if token and not code.keeps_secrets:
                raise InvalidInput([FieldError(pointer, "git_token_in_clear", {"secret": SECRET})])
            try:
                known[asked] = find_commit(code, token, Reach(settings.TESSERA_GIT_PRIVATE, settings.TESSERA_GIT_CA))
            except Unresolved as unresolved:
                raise InvalidInput([_describe(code.url, code.ref, pointer, unresolved)]) from None
        return replace(code, commit=known[asked]).text

    return change_code(spec, pin)


def _open_token(user: User, team: Team, wishes: Mapping[str, str]) -> str:
    """Return the value of the secret for repositories, if the spec names it and it is there."""
    if SECRET not in wishes:
        return ""
    owner = {"team": team} if wishes[SECRET].startswith("team:") else {"user": user}
    row = Secret.objects.filter(name=SECRET, **owner).first()
    try:
        return open_secret(row) if row else ""
    except Unreadable:
        return ""


def _describe(url: str, ref: str, pointer: str, unresolved: Unresolved) -> FieldError:
    said = {"url": url, "ref": ref, "secret": SECRET, "status": unresolved.status}
    codes = {
        "unknown_ref": "git_unknown_ref",
        "denied": "git_denied",
        "refused": "git_refused",
        "too_many_refs": "git_too_many_refs",
        "forbidden_address": "git_forbidden",
    }
    return FieldError(pointer, codes.get(unresolved.why, "git_unreachable"), said)

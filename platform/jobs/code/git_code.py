"""Code in a Git repository, as a job file names it: git+https://host/path@ref, and how a task fetches it."""

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

PREFIX = "git+"
SECRET = "GIT_TOKEN"  # noqa: S105 - its name
"""The secret by which a private repository is read: a token, or user:token."""
USUAL_USER = "oauth2"
"""For hosts that take any user beside a token: GitHub, GitLab, Gitea."""
TEXT = (
    r"git\+https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,200}[A-Za-z0-9])?(:[0-9]{1,5})?/[A-Za-z0-9._~/+-]{1,250}"
    r"(@[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}(:[0-9a-f]{40})?)?"
)
_PARTS = re.compile(r"git\+(?P<url>https?://[^@]+)(@(?P<ref>[^:]+)(:(?P<commit>.+))?)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HERE = ("localhost", "127.0.0.1")

_FETCH = """(
command -v git >/dev/null || {{ echo 'The code cannot be fetched: there is no git here. Use an image that has it.' >&2
exit 127; }}
fetch() {{
  GIT_TERMINAL_PROMPT=0 git -c credential.helper= {login} -c protocol.allow=never \\
    -c protocol.{scheme}.allow=always \\
    -c http.followRedirects=false \\
    -c http.lowSpeedLimit=1000 -c http.lowSpeedTime=60 fetch --quiet --no-recurse-submodules "$@"
}}
git -c init.defaultBranch=main init --quiet . &&
{{ fetch --depth 1 {url} {commit} 2>/dev/null || fetch {url} '+refs/*:refs/fetched/*'; }} &&
git -c core.hooksPath=/dev/null -c advice.detachedHead=false checkout --quiet --detach {commit}
) || {{ echo {failed} >&2; exit 1; }}
cd ./{workdir} || exit
"""
_LOGIN = """-c credential.helper='!f() {{
test "$1" = get && t=$(cat "$TESSERA_SECRETS/{secret}") || exit 0
case $t in *:*) u=${{t%%:*}} t=${{t#*:}} ;; *) u={user} ;; esac
printf "username=%s\\npassword=%s\\n" "$u" "$t"
}}; f'"""


@dataclass(frozen=True)
class GitCode:
    """url: http or https. ref: a branch, a tag or a whole commit. commit: what it was when the job was accepted."""

    url: str
    ref: str = "HEAD"
    commit: str = ""

    @property
    def text(self) -> str:
        """As a job file has it."""
        return f"{PREFIX}{self.url}@{self.ref}" + (f":{self.commit}" if self.commit else "")

    @property
    def keeps_secrets(self) -> bool:
        """Whether a token may be sent there: encrypted, or to this machine."""
        parts = urlsplit(self.url)
        return parts.scheme == "https" or parts.hostname in _HERE


def is_git(code: str | None) -> bool:
    return code is not None and code.startswith(PREFIX)


def read_git(text: str) -> GitCode | None:
    """Read what a job file says; None where it names no repository."""
    if not re.fullmatch(TEXT, text):
        return None
    parts = _PARTS.fullmatch(text)
    assert parts  # TEXT is narrower
    code = GitCode(parts["url"], parts["ref"] or "HEAD", parts["commit"] or "")
    return replace(code, commit=code.ref) if not code.commit and _COMMIT.fullmatch(code.ref) else code


def list_repositories(spec: Mapping[str, Any]) -> list[tuple[str, GitCode]]:
    """List what a stored spec fetches from Git: (role, or "" for the job's own; the code)."""
    said = [("", spec.get("code")), *((name, role.get("code")) for name, role in (spec.get("roles") or {}).items())]
    return [(name, git) for name, text in said if text and (git := read_git(text))]


def without_commit(text: str) -> str:
    """Return the code with what its ref means now, whatever it meant once; other code stays."""
    code = read_git(text)
    return replace(code, commit="").text if code else text


def find_from_top(folder: str, code: str | None, workdir: str) -> str:
    """Return where a folder lies for what starts beside the command: that is at the top of code which is fetched."""
    return folder if not is_git(code) or folder.startswith("~") else posixpath.join(workdir, folder)


def build_fetch(code: GitCode, workdir: str, *, private: bool) -> str:
    """Return shell lines that fetch a pinned commit into the top of the code, before the command that follows them.

    They begin at the top of the code and end in the working directory, and run as the task does: with its account,
    network and time. Nothing of the repository runs: no hook, no submodule, no other protocol. No redirect is
    followed, so that the token goes to this server alone. private: whether the task has the secret; its value is in no
    argument.
    """
    login = _LOGIN.format(secret=SECRET, user=USUAL_USER) if private and code.keeps_secrets else ""
    failed = f"The code could not be fetched: {code.text}"
    return _FETCH.format(
        login=login,
        scheme=urlsplit(code.url).scheme,
        url=shlex.quote(code.url),
        commit=code.commit,
        failed=shlex.quote(failed),
        workdir=shlex.quote(workdir),
    )

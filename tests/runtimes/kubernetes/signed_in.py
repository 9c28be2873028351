"""Kubeconfigs of bin/cluster's cluster whose program prints credentials that soon expire."""

import json
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtimes.kubernetes.api.credentials import CredentialSource
from tests.exec_credential import issued, user_of
from tests.local_cluster import local_place
from tests.reverse_proxy import kubeconfig_of
from tests.token_proxy import TokenProxy


class SignedIn:
    """kubeconfig: with the program. log: of the credentials that it gave."""

    def __init__(self, kubeconfig: Path, log: Path):
        self.kubeconfig, self.log = kubeconfig, log

    def runs(self) -> int:
        return len(issued(self.log))

    def is_refused(self, number: int) -> bool:
        """Whether the server refuses who shows this credential."""
        shown, cluster = issued(self.log)[number], json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        headers = {"Authorization": f"Bearer {shown['token']}"} if "token" in shown else {}
        if "token" not in shown:
            with tempfile.NamedTemporaryFile("w") as both:
                both.write(shown["clientCertificateData"] + shown["clientKeyData"])
                both.flush()
                tls.load_cert_chain(both.name)
        request = urllib.request.Request(f"{cluster['server']}/api/v1/nodes?limit=1", headers=headers)
        try:
            urllib.request.urlopen(request, context=tls, timeout=10).close()
        except urllib.error.HTTPError as refused:
            return refused.code == 401
        except OSError:  # cut, since it expired meanwhile
            pass
        return False


@contextmanager
def with_tokens(admin: Path, lives_s: float, home: Path) -> Iterator[SignedIn]:
    """Through a proxy that knows them."""
    with TokenProxy(CredentialSource(admin), lives_s, home / "issued") as proxy:
        yield SignedIn(proxy.kubeconfig, home / "issued")


@contextmanager
def with_certificates(admin: Path, lives_s: float, home: Path) -> Iterator[SignedIn]:
    """Straight to the API server, which looks at the certificate's end in each request."""
    certificates, path = local_place().certificates, home / "kubeconfig"
    user = user_of(lives_s, home / "issued", certificates / "ca.crt", certificates / "ca.key")
    path.write_text(json.dumps(kubeconfig_of(json.loads(admin.read_text())["clusters"][0]["cluster"], user)))
    yield SignedIn(path, home / "issued")


WAYS = {"token": with_tokens, "certificate": with_certificates}

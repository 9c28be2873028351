"""The API server's address and our credentials: loaded by the official client, renewed before they expire.

The official client alone renews tokens only, and where an `exec` program gives short-lived ones, it runs it for each
request.
"""

import errno
import logging
import os
import ssl
import tempfile
import threading
import time
from dataclasses import dataclass

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from runtimes.contract.errors import Unavailable

log = logging.getLogger("tessera.kubernetes")

EARLY_S = 10.0
"""How long before its expiry a credential is renewed: clocks differ, and a request takes its time."""
READ_AGAIN_S = 60.0
"""How often credentials without an expiry are read again: the kubelet, for one, writes new tokens into the file."""
RETRY_S = 5.0
"""Least time between two renewals, whatever the server refuses or a program says."""
CONNECTIONS = 16
ALIVE = tcp_keepalive_socket_options(idle=15, interval=5, count=3)
"""A peer is given up after 30 s of silence: middleboxes forget idle connections."""


class BadKubeconfig(ValueError):
    """Says what is missing and what to do."""


@dataclass(frozen=True)
class Credentials:
    """A client of the official library that signs in. tls: its context, for websockets. renew_at: in Unix time.

    by_certificate: a refusal may then be a connection that is cut, with no answer at all.
    """

    client: ApiClient
    tls: ssl.SSLContext
    by_certificate: bool
    renew_at: float

    @property
    def configuration(self) -> Configuration:
        return self.client.configuration

    @property
    def proxy(self) -> str | None:
        bypassed = should_bypass_proxies(self.configuration.host, self.configuration.no_proxy or "")
        return None if bypassed else self.configuration.proxy


class CredentialSource:
    """Loads credentials from a kubeconfig, or from this pod's service account, and renews them. Thread-safe."""

    _loading = threading.Lock()  # of all sources: the official client shares temporary files among them

    def __init__(self, kubeconfig: str | os.PathLike | None = None, context: str = ""):
        """kubeconfig: paths as in KUBECONFIG. Raises BadKubeconfig, or Unavailable if its program fails."""
        self._kubeconfig, self._context = os.fspath(kubeconfig or ""), context
        with self._loading:
            self._current = self._load()
        self._renew_at, self._tried_at = self._current.renew_at, time.time()

    def current(self) -> Credentials:
        """Return credentials that are valid as far as known. May run the kubeconfig's program."""
        if time.time() >= self._renew_at:
            with self._loading:
                if time.time() >= self._renew_at:
                    self._renew()
        return self._current

    def report_status(self, used: Credentials, status: int) -> None:
        """Take an answer to these credentials (0: none came). Refused ones are renewed before the next request."""
        is_refused = status == 401 or (not status and used.by_certificate)
        if is_refused and used is self._current:
            self._renew_at = min(self._renew_at, self._tried_at + RETRY_S)

    def close(self) -> None:
        self._current.client.close()

    def _renew(self) -> None:
        """Replace the credentials, or keep them where that fails. Meanwhile others wait."""
        self._tried_at, renew_at = time.time(), time.time() + RETRY_S
        try:
            fresh = self._load()
            if fresh.configuration.host == self._current.configuration.host:
                self._current.client.close()  # idle connections; what is being asked goes on
                self._current, renew_at = fresh, fresh.renew_at
            else:
                log.error("%s names another cluster now: restart to use it", self._kubeconfig)
        except (BadKubeconfig, Unavailable) as wrong:
            log.error("the credentials of the cluster cannot be renewed: %s", wrong)
        self._renew_at = renew_at

    def _load(self) -> Credentials:
        configuration = Configuration()
        if not self._kubeconfig:
            return build_credentials(configuration, _read_pod(configuration))
        with tempfile.TemporaryDirectory(prefix="tessera-") as folder:  # of keys that the kubeconfig itself holds
            return build_credentials(configuration, self._read_kubeconfig(configuration, folder))

    def _read_kubeconfig(self, configuration: Configuration, folder: str) -> float:
        """Fill the configuration; return when to renew it."""
        paths = self._kubeconfig
        try:
            merged = KubeConfigMerger(paths)
            if merged.config is None:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            loader = KubeConfigLoader(
                merged.config,
                active_context=self._context or None,
                config_base_path=None,
                config_persister=merged.save_changes,  # an OIDC provider may replace the refresh token
                temp_file_path=folder,
            )
        except OSError as error:
            raise BadKubeconfig(f"The kubeconfig {paths} cannot be read: {error.strerror}.") from error
        except Exception as error:  # the official client raises of all kinds at what people write
            raise BadKubeconfig(f"The kubeconfig {paths} cannot be understood: {_describe_error(error)}") from None
        chosen = loader.current_context
        self._context = chosen["name"]  # stays, whatever becomes the current one
        try:
            loader.load_and_set(configuration)
        except Exception as error:
            raise BadKubeconfig(f"The kubeconfig {paths} cannot be used: {_describe_error(error)}") from None
        if not configuration.host.startswith("https://"):
            raise BadKubeconfig(f"The kubeconfig {paths} names the server {configuration.host}: only https is spoken.")
        user = merged.config["users"].get_with_name(chosen["context"].get("user"), safe=True)
        if user and "exec" in user["user"] and not (configuration.api_key or configuration.cert_file):
            raise Unavailable(f"The program that signs in for {paths} gave no credentials. The log has its words.")
        now, expiry = time.time(), getattr(loader, "expiry", None)
        return max(expiry.timestamp() - EARLY_S, now + RETRY_S) if expiry else now + READ_AGAIN_S


def build_credentials(configuration: Configuration, renew_at: float) -> Credentials:
    """Return a client of this configuration. Its files are not needed any more. Raises BadKubeconfig."""
    try:
        tls = _build_tls(configuration)
    except (OSError, ValueError) as wrong:
        raise BadKubeconfig(f"The certificates for {configuration.host} cannot be used: {wrong}") from wrong
    by_certificate = configuration.cert_file is not None
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    # A file with a token ends in a newline.
    configuration.api_key = {kind: key.strip() for kind, key in configuration.api_key.items()}
    configuration.refresh_api_key_hook = None
    configuration.retries = False
    configuration.socket_options, configuration.connection_pool_maxsize = ALIVE, CONNECTIONS
    client = ApiClient(configuration)
    client.user_agent = "tessera"
    client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = tls
    return Credentials(client, tls, by_certificate, renew_at)


def _read_pod(configuration: Configuration) -> float:
    try:
        load_incluster_config(configuration, try_refresh_token=False)
    except ConfigException as error:
        words = "There is no cluster: set KUBECONFIG to a kubeconfig file, or run in a pod of the cluster."
        raise BadKubeconfig(words) from error
    return time.time() + READ_AGAIN_S


def _describe_error(error: Exception) -> str:
    """Return the official client's words without the entry that they go on to quote, keys and all."""
    return str(error).partition(" in ")[0]


def _build_tls(configuration: Configuration) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls

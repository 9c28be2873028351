"""The cluster's certificate authority, certificates and kubeconfigs."""

import json
import subprocess
from pathlib import Path

from dev.cluster.paths import ADDRESS, API_PORT, DOMAIN, NODE_NAME, SERVICE_ADDRESS, ClusterPaths, Refusal, write

DAYS = "3650"
SERVICE = "kubernetes.default.svc"
SERVER_NAMES = ["localhost", "kubernetes", "kubernetes.default", SERVICE, f"{SERVICE}.{DOMAIN}"]
SERVER = ",".join([f"IP:127.0.0.1,IP:{ADDRESS},IP:{SERVICE_ADDRESS}", *(f"DNS:{name}" for name in SERVER_NAMES)])

# part: (subject, server names); the API server reads groups from O, the user from CN
PARTS = {
    "apiserver": ("/CN=kube-apiserver", SERVER),
    "apiserver-kubelet-client": ("/O=system:masters/CN=apiserver-kubelet-client", ""),
    "admin": ("/O=system:masters/CN=admin", ""),
    "controller-manager": ("/CN=system:kube-controller-manager", ""),
    "scheduler": ("/CN=system:kube-scheduler", ""),
    "proxy": ("/CN=system:kube-proxy", ""),
    "kwok": ("/O=system:masters/CN=kwok", ""),
    "dns": ("/O=system:masters/CN=dns", ""),
    "storage": ("/O=system:masters/CN=storage", ""),
    "kubelet": (f"/O=system:nodes/CN=system:node:{NODE_NAME}", f"IP:{ADDRESS},DNS:{NODE_NAME}"),
}
SERVES_ONLY = {"apiserver", "apiserver-kubelet-client"}


def make_certificates(paths: ClusterPaths) -> None:
    """Create missing certificates and kubeconfigs."""
    home = paths.certificates
    if not (home / "ca.crt").exists():
        make_key(home / "ca.key")
        request = ["req", "-x509", "-new", "-subj", "/CN=tessera-cluster", "-days", DAYS]
        openssl(*request, "-key", home / "ca.key", "-out", home / "ca.crt.new")
        (home / "ca.crt.new").replace(home / "ca.crt")
    if not (home / "service-accounts.pub").exists():
        openssl("genrsa", "-out", home / "service-accounts.key", "2048")
        openssl("rsa", "-in", home / "service-accounts.key", "-pubout", "-out", home / "service-accounts.pub")
    for part, (subject, names) in PARTS.items():
        if not (home / f"{part}.crt").exists():
            sign(home, part, subject, names)
        if part not in SERVES_ONLY:
            write(kubeconfig_of(paths, part), json.dumps(build_kubeconfig(home, part), indent=1))


def kubeconfig_of(paths: ClusterPaths, part: str) -> Path:
    return paths.state / f"{part}.kubeconfig"


def build_kubeconfig(home: Path, part: str) -> dict:
    """Return a kubeconfig, to be written as JSON, a subset of YAML."""
    server = {"server": f"https://{ADDRESS}:{API_PORT}", "certificate-authority": str(home / "ca.crt")}
    user = {"client-certificate": str(home / f"{part}.crt"), "client-key": str(home / f"{part}.key")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tessera", "cluster": server}],
        "users": [{"name": part, "user": user}],
        "contexts": [{"name": "tessera", "context": {"cluster": "tessera", "user": part}}],
        "current-context": "tessera",
    }


def sign(home: Path, part: str, subject: str, names: str) -> None:
    """Create a signed key pair. The certificate is written last, so its existence proves both."""
    request, extensions, signed = home / f"{part}.csr", home / f"{part}.ext", home / f"{part}.crt.new"
    extensions.write_text("extendedKeyUsage=serverAuth,clientAuth\n" + (f"subjectAltName={names}\n" if names else ""))
    make_key(home / f"{part}.key")
    openssl("req", "-new", "-key", home / f"{part}.key", "-subj", subject, "-out", request)
    authority = (home / "ca.crt", "-CAkey", home / "ca.key", "-CAcreateserial", "-days", DAYS)
    openssl("x509", "-req", "-in", request, "-extfile", extensions, "-out", signed, "-CA", *authority)
    signed.replace(home / f"{part}.crt")
    request.unlink()
    extensions.unlink()


def make_key(path: Path) -> None:
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Refusal(f"openssl {arguments[0]} failed:\n  {done.stderr.strip()}")

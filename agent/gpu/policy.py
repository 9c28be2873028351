"""When a task is warned about its GPU memory and when it is ended. Pure, without imports."""

WARN_AT, CALM_AT = 0.95, 0.90
SLACK = 0.05  # part of a slice that modules loaded into a full slice may add
LEAST_SLACK_MIB = 256


class GpuPolicy:
    """One task's policy. limits: MiB by uuid. samples: consecutive readings above that end it.

    kept: a library enforces the slice, so some excess is tolerated. guarded: limits in samples are followed.
    """

    def __init__(self, limits: dict[str, int], samples: int, *, kept: bool, guarded: bool = False):
        self.limits, self.samples, self.kept, self.guarded = dict(limits), samples, kept, guarded
        nothing = {"used_mib": 0, "peak_mib": 0, "refused": 0, "watched": True}
        self.cards = {uuid: {"limit_mib": mib} | nothing for uuid, mib in limits.items()}
        self.above = dict.fromkeys(limits, 0)
        self.warned: set[str] = set()

    def mark_unwatched(self, why: str) -> list[str]:
        """Mark the memory as unwatched until the next sample; return log lines once."""
        if not self._set_watched(False):
            return []
        return [f"The GPU memory of this task is not watched at the moment: {why}. The watch is started anew."]

    def evaluate(self, sample: dict[str, dict[str, int]]) -> tuple[list[str], str]:
        """Evaluate a sample: (log warnings, why the task must end or "")."""
        warnings, verdict = [], ""
        if self._set_watched(True):
            warnings.append("The GPU memory of this task is watched again.")
        for uuid in self.limits:
            seen = sample.get(uuid, {})
            if self.guarded:
                self.limits[uuid] = seen.get("limit_mib", self.limits[uuid])
            limit = self.limits[uuid]
            driver, counted = seen.get("used_mib", 0), seen.get("counted_mib", 0)
            card, used = self.cards[uuid], max(driver, counted)
            card |= {"limit_mib": limit, "used_mib": used, "peak_mib": max(card["peak_mib"], used)}
            card["refused"] = seen.get("refused", card["refused"])
            self.above[uuid] = self.above[uuid] + 1 if driver > limit + self._slack(limit) else 0
            if self.above[uuid] >= self.samples:
                verdict = f"It used {driver} MiB of GPU memory on {uuid}; its slice is {limit} MiB."
                if "counted_mib" in seen:
                    verdict += f" Through the library of its slice it had {counted} MiB."
            if self._is_near(uuid, used, limit):
                warnings.append(f"{used} of the {limit} MiB of this task's slice of {uuid} are in use.")
        return warnings, verdict

    def _set_watched(self, watched: bool) -> bool:
        """Return whether this changed."""
        changed = any(card["watched"] != watched for card in self.cards.values())
        for card in self.cards.values():
            card["watched"] = watched
        return changed

    def _slack(self, limit: int) -> int:
        return max(LEAST_SLACK_MIB, int(SLACK * limit)) if self.kept else 0

    def _is_near(self, uuid: str, used: int, limit: int) -> bool:
        if used < CALM_AT * limit:
            self.warned.discard(uuid)
        if used < WARN_AT * limit or uuid in self.warned:
            return False
        self.warned.add(uuid)
        return True

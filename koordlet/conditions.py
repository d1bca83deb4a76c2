"""What currently does not work, by name, for readiness and for one log line per change instead of one per cycle."""

import logging

logger = logging.getLogger("koord.koordlet.conditions")


class Conditions:
    """Named states; each is well or has a reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def well(self, name: str) -> None:
        """The thing works (again)."""
        if self._reasons.pop(name, None) is not None:
            logger.info("%s works again", name)

    def ill(self, name: str, reason: str) -> None:
        """The thing does not work; logged when it begins or its reason changes."""
        if self._reasons.get(name) != reason:
            self._reasons[name] = reason
            logger.warning("%s: %s", name, reason)

    def reason(self, name: str) -> str | None:
        """Why the thing does not work, None while it does."""
        return self._reasons.get(name)

    def summary(self) -> bool | str:
        """True when all is well, else every reason; the shape of a health check."""
        if not self._reasons:
            return True
        return "; ".join(f"{name}: {reason}" for name, reason in sorted(self._reasons.items()))

"""What currently does not work, by name, for readiness and for one log line per change instead of one per cycle."""

import logging

logger = logging.getLogger("koord.koordlet.conditions")


MAX_REMARKS = 200


class Conditions:
    """Named states; each is well or has a reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._remarks: set[str] = set()

    def well(self, name: str) -> None:
        """The thing works (again)."""
        if self._reasons.pop(name, None) is not None:
            logger.info("%s works again", name)

    def ill(self, name: str, reason: str) -> None:
        """The thing does not work; logged when it begins or its reason changes."""
        if self._reasons.get(name) != reason:
            self._reasons[name] = reason
            logger.warning("%s: %s", name, reason)

    def remark(self, text: str) -> None:
        """Say once what is worth knowing but no fault of this node's agent: a kernel without some feature."""
        if text not in self._remarks and len(self._remarks) < MAX_REMARKS:
            self._remarks.add(text)
            logger.warning("%s", text)

    def reason(self, name: str) -> str | None:
        """Why the thing does not work, None while it does."""
        return self._reasons.get(name)

    def summary(self) -> bool | str:
        """True when all is well, else every reason; the shape of a health check."""
        if not self._reasons:
            return True
        return "; ".join(f"{name}: {reason}" for name, reason in sorted(self._reasons.items()))

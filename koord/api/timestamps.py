"""RFC 3339 times of the wire as seconds since the epoch."""

from datetime import UTC, datetime


def parse_rfc3339(text: str) -> float:
    """Seconds since the epoch. Raises ValueError when the text is not RFC 3339 with a zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f'time "{text}" has no zone')
    return moment.timestamp()


def format_rfc3339(epoch_s: float) -> str:
    """Whole seconds in UTC, as metav1.Time is written: 2026-01-01T12:00:00Z."""
    return datetime.fromtimestamp(int(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_rfc3339_micro(epoch_s: float) -> str:
    """Microseconds in UTC, as metav1.MicroTime is written (leases, events)."""
    # Every log line has one: isoformat takes a fifth of strftime's time.
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"

"""Logs as one JSON object a line on stderr: ts, level, logger, component, message, extras."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Final

import msgspec

from koord.api.timestamps import format_rfc3339_micro

LEVELS: Final = ("debug", "info", "warning", "error")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Fields given as `extra=` become keys of their own; what is no JSON becomes its text."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def format(self, record: logging.LogRecord) -> str:
        """One line, without a line end."""
        fields: dict[str, object] = {
            "ts": format_rfc3339_micro(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "component": self._component,
            "message": _message(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in fields:
                fields[name] = value
        try:
            return self._encoder.encode(fields).decode()
        except (TypeError, ValueError, RecursionError, UnicodeEncodeError):
            return self._encoder.encode(
                {name: repr(value).encode("ascii", "backslashreplace").decode() for name, value in fields.items()}
            ).decode()


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return f"{record.msg} {record.args}"


def configure_logging(component: str, level: str = "info") -> None:
    """Send all logs of this process to stderr as JSON. Raises ValueError on an unknown level."""
    if level not in LEVELS:
        raise ValueError(f"log level {level!r}: must be one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(component))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for noisy in ("aiohttp.access", "kubernetes"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

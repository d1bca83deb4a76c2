"""Query parameters as typed options; what cannot be understood is a 400 that names it."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.apiserver import status

Parameters = Mapping[str, str]

FIELD_VALIDATIONS = ("Ignore", "Warn", "Strict")
TRUE_TEXTS = ("1", "t", "T", "true", "TRUE", "True")
FALSE_TEXTS = ("", "0", "f", "F", "false", "FALSE", "False")


def boolean(parameters: Parameters, name: str) -> bool:
    """A flag, False when absent. A bare `?watch` is true, as in Kubernetes. Raises StatusError 400."""
    if name not in parameters:
        return False
    text = parameters[name]
    if text == "" or text in TRUE_TEXTS:
        return True
    if text in FALSE_TEXTS:
        return False
    raise status.bad_request(f'{name}: invalid value "{text}": allowed: true, false')


def integer(parameters: Parameters, name: str) -> int | None:
    """A whole number, None when absent or empty. Raises StatusError 400."""
    text = parameters.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def version_number(text: str) -> int:
    """A resourceVersion as a number. Raises StatusError 400."""
    if not text.isdecimal():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise status.bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


@dataclass(frozen=True)
class ListOptions:
    """ListOptions. `timeout_s` ends a watch; `limit` 0 means no paging."""

    label_selector: str = ""
    field_selector: str = ""
    watch: bool = False
    bookmarks: bool = False
    send_initial_events: bool | None = None
    version: str = ""
    version_match: str = ""
    timeout_s: float | None = None
    limit: int = 0
    continue_token: str = ""


def list_options(parameters: Parameters) -> ListOptions:
    """Read and check ListOptions. Raises StatusError 400, or 422 for combinations that contradict themselves."""
    initial = boolean(parameters, "sendInitialEvents") if "sendInitialEvents" in parameters else None
    options = ListOptions(
        label_selector=parameters.get("labelSelector", ""),
        field_selector=parameters.get("fieldSelector", ""),
        watch=boolean(parameters, "watch"),
        bookmarks=boolean(parameters, "allowWatchBookmarks"),
        send_initial_events=initial,
        version=parameters.get("resourceVersion", ""),
        version_match=parameters.get("resourceVersionMatch", ""),
        timeout_s=integer(parameters, "timeoutSeconds"),
        limit=max(0, integer(parameters, "limit") or 0),
        continue_token=parameters.get("continue", ""),
    )
    _check_list(options)
    return options


def _check_list(options: ListOptions) -> None:
    causes = []
    if options.watch and options.send_initial_events is not None and options.version_match != "NotOlderThan":
        causes.append(
            _forbidden(
                "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        )
    if options.watch and options.version_match and options.send_initial_events is None:
        causes.append(
            _forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        )
    if not options.watch and options.send_initial_events is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if not options.watch and options.version_match:
        causes.extend(_match_causes(options))
    if options.version:
        version_number(options.version)
    if causes:
        raise status.invalid("meta.k8s.io", "ListOptions", "", causes)


def _match_causes(options: ListOptions) -> list[status.Cause]:
    match = options.version_match
    if match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
        return [status.Cause("FieldValueNotSupported", text, "resourceVersionMatch")]
    if not options.version:
        return [
            _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        ]
    if options.continue_token:
        return [_forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")]
    if match == "Exact" and options.version == "0":
        return [
            _forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        ]
    return []


def _forbidden(field: str, text: str) -> status.Cause:
    return status.Cause("FieldValueForbidden", f"Forbidden: {text}", field)


@dataclass(frozen=True)
class WriteOptions:
    """What create, update and patch share. `force` belongs to server-side apply.

    `stated_validation`: the request itself says how fields are to be validated.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    stated_validation: bool = False
    force: bool = False


def write_options(parameters: Parameters) -> WriteOptions:
    """Read and check. Raises StatusError 400 or 422."""
    validation = parameters.get("fieldValidation", "") or "Warn"
    if validation not in FIELD_VALIDATIONS:
        told = ", ".join(f'"{text}"' for text in FIELD_VALIDATIONS)
        text = f'Unsupported value: "{validation}": supported values: {told}'
        raise status.invalid(
            "meta.k8s.io", "CreateOptions", "", [status.Cause("FieldValueNotSupported", text, "fieldValidation")]
        )
    return WriteOptions(
        dry_run=dry_run(parameters.get("dryRun", "")),
        field_manager=parameters.get("fieldManager", ""),
        field_validation=validation,
        stated_validation=bool(parameters.get("fieldValidation", "")),
        force=boolean(parameters, "force"),
    )


def dry_run(text: str) -> bool:
    """Whether `All` is asked for. Raises StatusError 422 for other values."""
    if text in ("", "All"):
        return bool(text)
    cause = status.Cause("FieldValueNotSupported", f'Unsupported value: "{text}": supported values: "All"', "dryRun")
    raise status.invalid("meta.k8s.io", "CreateOptions", "", [cause])

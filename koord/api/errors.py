"""Errors that pure code raises about what a person wrote."""


class InvalidInput(ValueError):  # noqa: N818 - named by what it says, as the docs and logs do
    """A value that somebody wrote cannot be used; retrying will not help.

    object_ref: the object as a person would name it, `ClusterColocationProfile/spark`.
    field: the path inside it, `spec.probability`.
    value: what was found, clipped for logs.
    allowed: what would have been accepted, in words.
    """

    MAX_VALUE_CHARS = 200

    def __init__(self, object_ref: str, field: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > self.MAX_VALUE_CHARS:
            shown = shown[: self.MAX_VALUE_CHARS] + "…"
        super().__init__(f"{object_ref}: {field}: invalid value {shown}: allowed: {allowed}")
        self.object_ref = object_ref
        self.field = field
        self.value = value
        self.allowed = allowed

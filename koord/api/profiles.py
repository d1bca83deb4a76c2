"""config.koordinator.sh/v1alpha1 ClusterColocationProfile."""

import msgspec

from koord.api.objects import ObjectMeta, Struct
from koord.api.selectors import LabelSelector


class ClusterColocationProfileSpec(Struct, frozen=True):
    """What a profile matches and what it does; every field is optional.

    probability: percent of the matching pods that it applies to, an int or "40%"; absent means all.
    patch: strategic merge patch of a Pod, kept as raw JSON.
    """

    namespace_selector: LabelSelector | None = None
    selector: LabelSelector | None = None
    probability: int | str | None = None
    qos_class: str = ""
    priority_class_name: str = ""
    koordinator_priority: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    label_keys_mapping: dict[str, str] = {}
    annotation_keys_mapping: dict[str, str] = {}
    label_suffixes: dict[str, str] = {}
    scheduler_name: str = ""
    patch: msgspec.Raw = msgspec.Raw(b"")


class ClusterColocationProfile(Struct, frozen=True):
    """A rule that marks pods for colocation at creation."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterColocationProfileSpec = ClusterColocationProfileSpec()

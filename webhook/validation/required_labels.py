"""Labels that pods must carry, by the rules of ConfigMap pod-enhanced-validator-config (gate
EnablePodEnhancedValidator)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from koord.api import names
from koord.api.errors import InvalidInput
from koord.api.objects import Pod, Struct

CONFIG_NAME = "pod-enhanced-validator-config"
SKIP_LABEL = "pod.koordinator.sh/skip-enhanced-validation"


class Rule(Struct, frozen=True):
    """Pods outside the white-listed namespaces carry these labels, whatever their values."""

    name: str = ""
    required_labels: tuple[str, ...] = ()
    namespace_whitelist: tuple[str, ...] = ()


class RequiredLabels(msgspec.Struct, frozen=True):
    """The rules in force."""

    rules: tuple[Rule, ...] = ()

    def problem(self, pod: Pod) -> str:
        """The first rule that the pod does not keep, in words; "" when it keeps all or is exempt."""
        labels = pod.metadata.labels
        if labels.get(SKIP_LABEL) == "true":
            return ""
        for rule in self.rules:
            if pod.metadata.namespace in rule.namespace_whitelist:
                continue
            missing = [key for key in rule.required_labels if key not in labels]
            if len(missing) == 1:
                return f"required label '{missing[0]}' is missing (rule {rule.name!r} of {CONFIG_NAME})"
            if missing:
                return f"required labels are missing: [{' '.join(missing)}] (rule {rule.name!r} of {CONFIG_NAME})"
        return ""


def parse(data: Mapping[str, str] | None) -> RequiredLabels:
    """The rules of the ConfigMap's data; none when it is absent or not enabled. Raises InvalidInput."""
    if data is None or data.get("enable", "").strip().lower() != "true":
        return RequiredLabels()
    text = data.get("rules", "").strip()
    try:
        return RequiredLabels(msgspec.json.decode(text, type=tuple[Rule, ...]) if text else ())
    except msgspec.MsgspecError as error:
        reference = f"ConfigMap/{names.CONFIG_NAMESPACE}/{CONFIG_NAME}"
        allowed = f'a JSON list of {{"name", "requiredLabels", "namespaceWhitelist"}} ({error})'
        raise InvalidInput(reference, "data.rules", text, allowed) from None

"""Admission as the API server does it: defaulting, Priority, webhooks over TLS, validation.

What the API server calls:

* `chain.AdmissionChain(reader, services)` and `await chain.admit(request) -> Admitted`. It answers
  for every write of every kind, subresources and DELETE included, and raises StatusError to refuse.
  Custom resources are pruned, defaulted and validated in it, too: the chain reads their
  CustomResourceDefinition from the reader and compiles each version's schema once.
* `schema.compile_schema(open_api_v3_schema) -> StructuralSchema` with `prune(obj) -> list[str]`
  (paths dropped), `apply_defaults(obj)` and `validate(obj) -> list[FieldError]`.
* `services.ServiceDirectory`: where "namespace/name" of a webhook's service listens.
* `sandbox.lifecycle.eviction.evict(reader, namespace, name, eviction, now) -> Granted`: the
  decision of the eviction subresource; the caller stores `Granted.budget` and deletes the pod.
"""

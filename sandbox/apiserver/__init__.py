"""A Kubernetes API server in one process: storage, REST verbs, watches, discovery and OpenAPI over HTTPS.

The composition is `server.ApiServer(storage, kinds, admission, ...)`. `storage.Storage` is also what admission and
the life-cycle code read; `kinds.builtin_kinds()` is the registry that CustomResourceDefinitions extend while the
server runs; `status.StatusError` is how any part refuses a request.
"""

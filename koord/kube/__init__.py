"""Talk to the API server: connect, read, write, watch, lead, record events.

Nothing here decides anything about colocation. Bodies are decoded straight into
the slim structs of `koord.api`; Kubernetes' generated models are never used.
"""

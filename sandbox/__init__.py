"""One process that is a Kubernetes cluster, and the demo that runs Koord on it."""

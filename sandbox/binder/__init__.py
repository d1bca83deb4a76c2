"""Places pending pods on nodes, as kube-scheduler does in the plain cases."""

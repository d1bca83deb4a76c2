"""A cluster with a manager in it, as the manager's own tests make one."""

from tests.manager.conftest import client, fleet, kubeconfig, run_manager

__all__ = ["client", "fleet", "kubeconfig", "run_manager"]

"""The nodes of the sandbox: this machine with real processes in real cgroups, and simulated ones."""

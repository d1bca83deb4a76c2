"""The demo: a web service and batch executors on this machine, measured alone, plain and under Koord.

Layout: workloads (`service`, `executor`, `loadgen` with its pure `arrivals`), measuring (`accounting`,
`observer`), pure evaluation (`statistics`, `result`, `noise`), what is applied to the cluster
(`manifests`, `kubectl`), running it (`supervisor`, `components`, `experiment`, `session`) and telling it
(`screen`, `table`, `svg`, `plots`, `report`).
"""

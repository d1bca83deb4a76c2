"""Server-side printing: the columns that `kubectl get` shows.

`columns` is the vocabulary, `pods`, `workloads`, `cluster`, `policy` and `custom` know the kinds, `render` builds the
Table documents. All pure; the time is passed in.
"""

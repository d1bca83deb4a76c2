"""What the server knows of fields: their types, who owns them, and how applied configurations merge.

`types` is the vocabulary; `builtin` and `custom` describe the kinds in it; `decode` reads a document against it;
`ownership` keeps metadata.managedFields, `merge` is the core of server-side apply.
"""

"""Kubernetes' protobuf encoding, read only: Go clients of built-in kinds send nothing else.

`fields.yaml` is the table of field numbers, made from the Go sources; `protobuf` reads bodies with it.
"""

"""Certificates of the admission webhook: a CA, serving certificates, their store, and trust in them."""

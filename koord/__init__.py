"""The kernel of Koord: what every component shares and nothing that only one needs.

`koord.api` is pure (vocabulary, quantities, selectors, the kinds as typed structs);
`koord.kube` talks to an API server; `koord.process` runs a component.
"""

__version__ = "0.1.0"

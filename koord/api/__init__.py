"""The vocabulary of the wire: names, quantities, selectors, classes and the kinds. Pure: no I/O, no clock."""

"""How much of a node can be sold again as batch resources, and when the node object must be written. Pure."""

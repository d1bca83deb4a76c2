"""What ends objects: evictions and budgets, garbage collection, namespace deletion, pod clean-up."""

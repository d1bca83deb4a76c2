"""Keeping best-effort work within what production leaves: how much, by which knob, and when to give it back."""

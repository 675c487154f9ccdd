"""Attack the toolkit with texts that are slow, that raise, or that are read differently in a stream.

    python -m tests.hostile --budget 600

Rooms register generators of attacks (`frame.attacks`); each runs at growing sizes against a time limit.
"""

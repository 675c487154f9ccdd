"""Keep two published designs as they were, rule for rule, faults included, so that others can be compared with them."""

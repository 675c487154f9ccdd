"""Hold demo worlds that cases can act in; everything in them is invented."""

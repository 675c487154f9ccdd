"""Hold demo worlds that cases can act in; everything in them is invented.

A world is made from a start, has `.tools` that really run, and a `.state` that they read and change:

    >>> from toolkit.worlds import load_world
    >>> house = load_world("home", {"rooms": {"study": {"light": 40}}})
    >>> house.state["rooms"]["study"]["light"]
    40

`world` (what a world is) · `travel`, `home`, `lab`, `marketplace` (the four that come along).
Not here: cases that use them (`data/cases/runs`), running those (`toolkit.evaluation`).
"""

from toolkit.worlds.world import WORLDS, DictWorld, World, WorldError, load_world

__all__ = ["WORLDS", "DictWorld", "World", "WorldError", "load_world"]

"""Let the replayers' modules find each other, run as scripts or collected by pytest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

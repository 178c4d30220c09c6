"""Reads boards with Grafana's own types and writes back what it understood: `python board_shape.py FILE ...`, JSON by file.

Runs in the Python of the parts, which has them; knows nothing of this project.
"""

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()
print(json.dumps({name: json.loads(JSONEncoder().encode(Dashboard.from_json(json.loads(Path(name).read_text()))))
                  for name in sys.argv[1:]}))  # fmt: skip

"""Write the annotations in an export of Label Studio, "JSON-MIN", as corrections.

python examples/from_label_studio.py project-1.json > corrections.jsonl
supdocnade train photos --add scenes --corrections corrections.jsonl -o better-scenes
"""

import json
import sys
from pathlib import Path
from typing import Any


def read_choices(value: Any) -> list[str]:
    """Return what was chosen: Label Studio writes one as a string and several as an object."""
    chosen: list[str] = value["choices"] if isinstance(value, dict) else [value] if value else []
    return chosen


def convert(export: str) -> None:
    rows = json.loads(Path(export).read_text(encoding="utf-8"))
    # Of several annotations of a photograph, the last line of a file of corrections counts.
    for row in sorted(rows, key=lambda row: str(row["updated_at"])):
        chosen = {"label": row.get("label"), "tags": read_choices(row.get("tags"))}
        line = {name: value for name, value in chosen.items() if value}
        print(json.dumps({"file_name": row["file_name"], **line}))


if __name__ == "__main__":
    convert(sys.argv[1])

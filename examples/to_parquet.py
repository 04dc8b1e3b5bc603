"""Write predictions as a table of Parquet, for pandas, Polars, DuckDB or Spark.

supdocnade predict scenes photos -o predictions
python examples/to_parquet.py predictions predictions.parquet
"""

import json
import sys
from pathlib import Path

import pyarrow
from pyarrow import parquet


def convert(predictions: str, output: str) -> None:
    files = sorted(Path(predictions).glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = {name: [row.get(name) for row in rows] for name in columns}
    parquet.write_table(pyarrow.table(table), output)


if __name__ == "__main__":
    convert(*sys.argv[1:3])

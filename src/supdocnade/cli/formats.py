"""A prediction as a line: of JSON, of CSV, or for people."""

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from supdocnade.cli.console import percent
from supdocnade.evaluation.names import plain_name

if TYPE_CHECKING:
    from supdocnade.scene.predictions import Prediction

CSV_HEADER = "file,label,probability,unsure,tags,tag_probabilities"


def tags_of(prediction: "Prediction", top: int | None) -> tuple[tuple[str, float], ...]:
    """Return the tags to give: the `top` best, or those that the photograph deserves."""
    return prediction.tags if top is None else prediction.ranked_tags[:top]


def as_object(prediction: "Prediction", top: int | None = None) -> dict[str, Any]:
    """Return a prediction as `--json` prints it."""
    return {
        "file": prediction.name,
        "label": prediction.label,
        "probability": prediction.probability,
        "unsure": prediction.unsure,
        "probabilities": prediction.probabilities,
        "tags": [
            {"tag": tag, "probability": probability}
            for tag, probability in tags_of(prediction, top)
        ],
    }


def json_line(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as one line of JSON, in ASCII."""
    return json.dumps(as_object(prediction, top), allow_nan=False)


def csv_line(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as one line under `CSV_HEADER`; tags are separated by |."""
    tags = tags_of(prediction, top)
    cells = [
        prediction.name,
        prediction.label or "",
        "" if prediction.probability is None else f"{prediction.probability:.6f}",
        "true" if prediction.unsure else "false",
        "|".join(tag for tag, _ in tags),
        "|".join(f"{probability:.6f}" for _, probability in tags),
    ]
    line = io.StringIO()
    # With another end of line, breaks within a name would not be quoted.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n")


def text_line(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as people read it: `a.jpg: coast 93 %; sea 98 %, sky 71 %`."""
    parts = []
    if prediction.label is not None and prediction.probability is not None:
        unsure = " (unsure)" if prediction.unsure else ""
        label = plain_name(prediction.label)
        parts.append(f"{label} {percent(prediction.probability)}{unsure}")
    tags = [
        f"{plain_name(tag)} {percent(probability)}" for tag, probability in tags_of(prediction, top)
    ]
    parts.append(", ".join(tags) if tags else "no tags")
    return f"{plain_name(prediction.name)}: {'; '.join(parts)}"

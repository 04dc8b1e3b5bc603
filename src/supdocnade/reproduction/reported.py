"""What the paper reports as numbers, and where in its text they stand.

Zheng, Zhang, Larochelle, "A Supervised Neural Autoregressive Topic Model for Simultaneous Image
Classification and Annotation". Its curves (figures on Scene15, LabelMe and UIUC-Sports) have no
numbers in the text, and are not read off here.
"""

from typing import NamedTuple

CLASSIFICATION = "section “Image Classification”, last paragraph"
ANNOTATION = "section “Simultaneous Classification and Annotation”, paragraph on annotation"
MMLDA = "section “Simultaneous Classification and Annotation”, paragraph on MMLDA"


class Reported(NamedTuple):
    """A figure in the paper's text."""

    dataset: str
    method: str
    metric: str
    value: float
    """In per cent."""
    where: str
    whose: str = "the paper"


REPORTED = (
    Reported("scene15", "SupDocNADE, 45-topic configuration", "accuracy", 73.36, CLASSIFICATION),
    Reported(
        "scene15",
        "hybrid topic/neural network model, 45-topic configuration",
        "accuracy",
        70.1,
        CLASSIFICATION,
        "Wan et al., as the paper cites them",
    ),
    Reported("labelme", "SupDocNADE, 200 topics", "f_measure", 43.87, ANNOTATION),
    Reported("labelme", "DocNADE, 200 topics", "f_measure", 43.32, ANNOTATION),
    Reported(
        "labelme",
        "sLDA",
        "f_measure",
        38.7,
        ANNOTATION,
        "Wang, Blei and Fei-Fei 2009, as the paper cites them",
    ),
    Reported(
        "labelme", "MMLDA", "f_measure", 46.64, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
    Reported(
        "labelme", "MMLDA", "accuracy", 81.47, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
    Reported("uiuc", "SupDocNADE, 200 topics", "f_measure", 46.95, ANNOTATION),
    Reported("uiuc", "DocNADE, 200 topics", "f_measure", 46.38, ANNOTATION),
    Reported(
        "uiuc",
        "sLDA",
        "f_measure",
        35.0,
        ANNOTATION,
        "Wang, Blei and Fei-Fei 2009, as the paper cites them",
    ),
    Reported(
        "uiuc", "MMLDA", "f_measure", 44.51, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
    Reported(
        "uiuc", "MMLDA", "accuracy", 74.65, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
)

"""The model card of a scene model, and what of its training photographs a model carries.

A card is Markdown with a YAML header, as the Hugging Face Hub shows it. All of its figures are
those that the model stores.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from supdocnade.metrics import share_interval
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.text import clean_name
from supdocnade.visual_words.describer import NetworkDescriber

STRIPPED = "stripped"
"""Entry of `FittedScene.data` of a model without the names and tags of its photographs."""

_HEADER = """---
library_name: supdocnade
pipeline_tag: image-classification
tags:
- image-classification
- topic-model
---"""


def is_stripped(fitted: FittedScene) -> bool:
    """Return whether `strip_scene` made a model."""
    return bool(fitted.data.get(STRIPPED))


def strip_scene(fitted: FittedScene) -> FittedScene:
    """Return a model without thumbnails, patches, names, digests and tags of photographs.

    It predicts the same. It keeps the word counts and classes of its training photographs, by which
    it recognises unfamiliar ones; more photographs cannot be added to it.
    """
    training_set = fitted.training_set
    names = [f"photograph {number}" for number in range(1, len(training_set.photographs) + 1)]
    anonymous = replace(training_set.photographs, names=names, keys=names, tags=[None] * len(names))
    images = tuple(
        replace(image, name=f"held-out photograph {number}", tags=None)
        for number, image in enumerate(fitted.held_out.images, start=1)
    )
    words, description = fitted.stored_words
    patches = {name: np.zeros_like(words[name]) for name in ("examples", "n_examples")}
    return replace(
        fitted,
        stored_words=({**words, **patches}, description),
        held_out=replace(fitted.held_out, images=images),
        training_set=replace(training_set, photographs=anonymous),
        thumbnails=Thumbnails(),
        data={**fitted.data, STRIPPED: True},
    )


def describe_contents(fitted: FittedScene) -> list[str]:
    """Return sentences about what of its training photographs a model carries."""
    photographs = fitted.training_set.photographs
    kept = f"the word counts and classes of {len(photographs)} photographs"
    if is_stripped(fitted):
        return [f"The model carries {kept}, without pictures, names and tags."]
    n_tagged = sum(tags is not None for tags in photographs.tags)
    n_patches = int(fitted.stored_words[0]["n_examples"].sum())
    return [
        f"The model carries thumbnails of {len(fitted.thumbnails.pictures)} photographs and "
        f"{n_patches} patches cut out of photographs.",
        f"It carries {kept}, their paths, such as {clean_name(photographs.names[0])}, and digests "
        f"of their contents, and the tags of {n_tagged}.",
    ]


def model_card(fitted: FittedScene, name: str, *, licence: str | None = None) -> str:
    """Return the model card of a model.

    Parameters
    ----------
    name : of the model, for headings and examples.
    licence : of the model, an identifier of the Hub such as "cc-by-4.0"; None: not stated.
    """
    header = (
        _HEADER
        if licence is None
        else _HEADER.replace("tags:\n", f"license: {clean_name(licence)}\ntags:\n")
    )
    parts = [
        header,
        f"# {clean_name(name)}",
        f"A model of supdocnade: it predicts {_outputs(fitted)} of photographs, and shows which "
        "parts of a photograph support them.",
        "## Results",
        _describe_results(fitted),
        "## Training data",
        _describe_data(fitted),
        "## Features",
        _describe_features(fitted),
        "## Use",
        _use(name),
        "## What the files carry",
        " ".join(describe_contents(fitted)),
    ]
    return "\n\n".join(parts) + "\n"


def _outputs(fitted: FittedScene) -> str:
    counts = ((len(fitted.classes), "classes"), (len(fitted.tag_names), "tags"))
    return " and ".join(f"{count} {noun}" for count, noun in counts if count) or "topics"


def _describe_results(fitted: FittedScene) -> str:
    """Return a table of the figures on the held-out photographs."""
    figures, n_images = fitted.held_out.figures, fitted.held_out.n_images
    if not n_images:
        return "No photographs were held out, so nothing was measured."
    rows: list[Sequence[str]] = []
    if "mean_average_precision" in figures:
        n_classes = int(figures["n_classes"])
        title = f"mean average precision of labels ({n_classes} labels)"
        rows.append((title, f"{figures['mean_average_precision']:.3f}"))
    if "accuracy" in figures and len(fitted.classes) > 1:
        n_labelled = int(figures["n_labelled"])
        low, high = share_interval(round(figures["accuracy"] * n_labelled), n_labelled)
        rows.append(
            (
                f"{'all labels right' if fitted.several_labels else 'accuracy of the class'} "
                f"({n_labelled} photographs)",
                f"{100 * figures['accuracy']:.1f} % (95 % interval {100 * low:.1f} to "
                f"{100 * high:.1f} %)",
            )
        )
    if "f_measure" in figures:
        n_tagged = int(figures["n_tagged"])
        rows.append(
            (f"F-measure of five tags ({n_tagged} photographs)", f"{figures['f_measure']:.3f}")
        )
    for figure, title in (
        ("class_calibration_error", "calibration error of class probabilities"),
        ("tag_calibration_error", "calibration error of tag probabilities"),
    ):
        if figure in figures:
            rows.append((title, f"{100 * figures[figure]:.1f} %"))
    return (
        f"On {n_images} photographs that were held out, by a model of the others; the settings "
        "were chosen on the same photographs, so the figures are slightly optimistic.\n\n"
        + _table(("figure", "value"), rows)
    )


def _describe_data(fitted: FittedScene) -> str:
    data = fitted.data
    text = (
        f"{data['n_images']} photographs, {data['n_unlabelled']} of them without a class and "
        f"{data['n_tagged']} with known tags."
    )
    if fitted.classes:
        rows = [(label, str(data["images_of_class"][label])) for label in fitted.classes]
        text += "\n\n" + _table(("class", "photographs"), rows)
    if fitted.tag_names:
        text += f"\n\nTags: {', '.join(_escape(tag) for tag in fitted.tag_names)}."
    return text


def _describe_features(fitted: FittedScene) -> str:
    describer = fitted.encoder.describer
    used = f"{fitted.encoder.n_words} visual words, {fitted.network.config.n_topics} topics."
    if not isinstance(describer, NetworkDescriber):
        return f"Dense SIFT descriptors, {used} No pretrained network is needed."
    try:
        licence = describer.network.licence
    except ValueError:  # The network is not installed here.
        licence = "not known here"
    return (
        f"The pretrained network {_escape(fitted.settings.features)}, {used} Its weights are not "
        f"part of this model and must be installed; their licence: {_escape(licence)}."
    )


def _use(name: str) -> str:
    code = f'model = SceneModel.from_pretrained("{clean_name(name)}")'
    return (
        f"```python\nfrom supdocnade import SceneModel\n\n{code}\n"
        'model.predict(["photo.jpg"])\nmodel.annotate(["photo.jpg"])\n```'
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *([_escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape(text: str) -> str:
    """Return a name of the user as one cell of a table, without markup."""
    escaped = clean_name(text)
    for character in "\\|<>[]`*_":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped

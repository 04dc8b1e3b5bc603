"""Sharing of models: model cards, models without photographs, and the Hugging Face Hub.

A card is Markdown with a YAML header, as the Hub shows it. All of its figures are those that the
model stores. Nothing is sent to the Hub or fetched from it (extra `hub`) but the model that is
named. Telemetry is switched off before the package of the Hub is imported. Of a model on the Hub
only its own two files are fetched, and they pass the same checks as a file from anywhere.
"""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from supdocnade.errors import BackendUnavailable, StorageError, install_command
from supdocnade.metrics import share_interval
from supdocnade.scene.persistence import DESCRIPTION, SCENE, save_scene
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.text import clean_name
from supdocnade.visual_words.describer import NetworkDescriber

CARD = "README.md"
"""Name of the model card in a repository of the Hub."""

_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)

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
    network = _escape(fitted.settings.features)
    if fitted.encoder.sift_encoder is not None:
        network += " and dense SIFT descriptors"
    return (
        f"The pretrained network {network}, {used} The weights of the network are not part of this "
        f"model and must be installed; their licence: {_escape(licence)}."
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


def write_shared_model(
    fitted: FittedScene,
    params: dict[str, Any],
    folder: Path,
    name: str,
    *,
    licence: str | None = None,
) -> None:
    """Write a model and its card to a new folder, as the Hub takes them.

    Parameters
    ----------
    params : as for `save_scene`.
    name, licence : as for `model_card`.
    """
    save_scene(fitted, params, folder)
    (folder / CARD).write_text(model_card(fitted, name, licence=licence), encoding="utf-8")


def _import_hub() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import huggingface_hub
    except ImportError as error:
        raise BackendUnavailable(
            f"the Hub needs an extra that is not installed: {install_command('hub')}."
        ) from error
    return huggingface_hub


@contextmanager
def _hub_errors(name: str, verb: str) -> Iterator[None]:
    """Turn the errors of the Hub, of its names and of the network into a `StorageError`."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise StorageError(f"{name} cannot be {verb}: {reason.rstrip('.')}.") from error
    except Exception as error:
        # The Hub's package passes on the errors of its HTTP client, whose classes vary.
        if type(error).__module__.split(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
            raise
        raise StorageError(f"{name} cannot be {verb}: {error}.") from error


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise StorageError(
            f"there is no folder {name}, and it is no name of the Hub, such as owner/model."
        )


class HubMixin:
    """The methods of `SceneModel` for the Hub, with the arguments of `huggingface_hub`'s mixin.

    That mixin is not used, since the package is not needed for anything else.
    """

    if TYPE_CHECKING:

        def _fitted(self) -> FittedScene: ...

        def _plain_seed(self) -> int | None: ...

        @classmethod
        def load(cls, folder: str | Path) -> Self:
            """Return a model that `save` wrote."""

    def push_to_hub(
        self,
        repo_id: str,
        *,
        strip: bool = False,
        licence: str | None = None,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Upload a model of supdocnade",
    ) -> str:
        """Upload the model and its model card to the Hugging Face Hub (extra `hub`).

        A warning says what of the training photographs the model carries.

        Parameters
        ----------
        repo_id : "owner/model"; it is created if it does not exist.
        strip : leave out pictures, names and tags of the training photographs, see `strip_scene`.
        licence : of the model, for its card.
        private, token, commit_message : as for the `push_to_hub` of `huggingface_hub`.

        Returns
        -------
        The address of the commit.
        """
        fitted = strip_scene(self._fitted()) if strip else self._fitted()
        warnings.warn(" ".join(describe_contents(fitted)), stacklevel=2)
        _check_name(repo_id)
        api = _import_hub().HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
        with TemporaryDirectory() as temporary, _hub_errors(repo_id, "uploaded"):
            folder, seed = Path(temporary) / "model", {"random_state": self._plain_seed()}
            write_shared_model(fitted, seed, folder, repo_id, licence=licence)
            api.create_repo(repo_id, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo_id, folder_path=folder, commit_message=commit_message
            )
        return str(commit.commit_url)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
    ) -> Self:
        """Return a model of a folder, or of the Hugging Face Hub (extra `hub`).

        It passes the same checks as by `load`.

        Parameters
        ----------
        pretrained_model_name_or_path : a folder, or "owner/model" on the Hub.
        revision, token, cache_dir, force_download, local_files_only : as for the `from_pretrained`
            of `huggingface_hub`; a folder needs none.
        """
        name = os.fspath(pretrained_model_name_or_path)
        if os.path.isdir(name):
            return cls.load(name)
        _check_name(name)
        hub = _import_hub()
        with _hub_errors(name, "fetched"):
            folder = hub.snapshot_download(
                name,
                allow_patterns=[SCENE, DESCRIPTION],
                endpoint=os.environ.get("HF_ENDPOINT"),
                revision=revision,
                token=token,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
            )
        return cls.load(folder)

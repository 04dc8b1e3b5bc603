"""Sharing of models: model cards, models without photographs, and the Hugging Face Hub."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from supdocnade.errors import BackendUnavailable, StorageError, install_command
from supdocnade.metrics import share_interval
from supdocnade.scene.persistence import DESCRIPTION, SCENE, save_scene
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.text import clean_name
from supdocnade.visual_words.describer import NetworkDescriber


def is_stripped(fitted: FittedScene) -> bool:
    """Return whether `strip_scene` made a model."""
    return bool(fitted.data.get("stripped"))


def strip_scene(fitted: FittedScene) -> FittedScene:
    """Return a model that predicts the same, without pictures and names of photographs.

    The tags of photographs that vote for tags stay, but not the spellings and rare tags that only
    the training set has.
    """
    photographs = fitted.training_set.photographs
    names = [f"photograph {number}" for number in range(1, len(photographs) + 1)]
    anonymous = replace(photographs, names=names, keys=names, tags=[None] * len(names))
    images = tuple(
        replace(image, name=f"held-out photograph {number}", tags=None)
        for number, image in enumerate(fitted.held_out.images, start=1)
    )
    return replace(
        fitted,
        held_out=replace(fitted.held_out, images=images),
        training_set=replace(fitted.training_set, photographs=anonymous),
        thumbnails=Thumbnails(),
        data={**fitted.data, "stripped": True},
    )


def describe_contents(fitted: FittedScene) -> list[str]:
    """Return sentences about what of its training photographs a model carries."""
    photographs = fitted.training_set.photographs
    features = "" if fitted.training_set.features_BF is None else ", features"
    kept = f"the word counts{features} and classes of {len(photographs):,} photographs"
    if is_stripped(fitted):
        tags = "" if fitted.votes is None else f", and the tags of {len(fitted.votes.row_T):,}"
        return [f"The model carries {kept}{tags}, without pictures and names."]
    return [
        f"The model carries thumbnails of {len(fitted.thumbnails.pictures):,} photographs.",
        f"It carries {kept}, their paths, such as {clean_name(photographs.names[0])}, digests of "
        f"their contents, and the tags of {len(photographs) - photographs.tags.count(None):,}.",
    ]


def model_card(fitted: FittedScene, name: str, *, licence: str | None = None) -> str:
    """Return the model card of a model: Markdown with a YAML header, as the Hub shows it."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(trim_blocks=True, undefined=StrictUndefined)
    environment.filters["plain"], markup = clean_name, re.compile(r"[\\|<>\[\]`*_]")
    environment.filters["cell"] = lambda text: markup.sub(r"\\\g<0>", clean_name(text))
    environment.filters["percent"] = lambda share: f"{100 * share:.1f} %"
    environment.filters["number"] = lambda number: f"{number:,}"
    text = Path(__file__).with_name("model_card.md").read_text(encoding="utf-8")
    metrics, describer, weights = fitted.held_out.metrics, fitted.encoder.describer, None
    n_labelled = int(metrics.get("n_labelled", 0))
    if isinstance(describer, NetworkDescriber):
        with suppress(ValueError):  # The network is not installed here.
            weights = describer.network.description.licence
    return environment.from_string(text + "\n").render(
        fitted=fitted, name=name, licence=licence, metrics=metrics, weights=weights,
        interval=share_interval(round(metrics.get("accuracy", 0) * n_labelled), n_labelled),
        contents=describe_contents(fitted),
    )  # fmt: skip


def write_shared_model(
    fitted: FittedScene, folder: Path, name: str, licence: str | None = None
) -> None:
    """Write a model and its card to a new folder, as the Hub takes them."""
    save_scene(fitted, folder)
    (folder / "README.md").write_text(model_card(fitted, name, licence=licence), encoding="utf-8")


def upload(folder: Path, name: str, message: str, private: bool | None, token: str | None) -> str:
    """Upload the folder of a shared model to the Hub; return the address of the commit."""
    with _hub(name, "uploaded", token) as api:
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=name, folder_path=folder, commit_message=message)
    return str(commit.commit_url)


def download(name: str, token: str | None = None, **options: Any) -> Path:
    """Fetch the two files of a model, and nothing else, from the Hub; return their folder."""
    with _hub(name, "fetched", token) as api:
        return Path(api.snapshot_download(name, allow_patterns=[SCENE, DESCRIPTION], **options))


@contextmanager
def _hub(name: str, verb: str, token: str | None) -> Iterator[Any]:
    """Return the API of the Hub, whose errors become a `StorageError` in the block."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise BackendUnavailable(f"the Hub needs an extra: {install_command('hub')}.") from error
    if name.count("/") != 1 or name.startswith("."):
        raise StorageError(f"there is no folder {name}; a name of the Hub is owner/model.")
    try:
        yield HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    except Exception as error:  # Its HTTP client has errors of its own.
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise StorageError(f"{name} cannot be {verb}: {reason.rstrip('.')}.") from error

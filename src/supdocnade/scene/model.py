"""SceneModel: classes, tags, topics and explanations of photographs."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import (
    check_count,
    check_settings,
    copy_settings,
    document_settings,
    plain_settings,
    same_setting,
    setting,
)
from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords
from supdocnade.estimators.inputs import read_seed
from supdocnade.estimators.persistence import plain_seed
from supdocnade.estimators.settings import DocNADESettings, SupDocNADESettings, settings_of
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.estimators.topic_model import DocNADE, TopicModel
from supdocnade.folders.photo_sources import expand_folders
from supdocnade.folders.tags import Tags
from supdocnade.images.reading import SkippedImage, check_images
from supdocnade.runs import (
    DEVICES,
    EpochCallback,
    ProgressCallback,
    RunOptions,
    no_progress,
)
from supdocnade.scene.attribution import Explanation, explain_image
from supdocnade.scene.corpus_photographs import load_corpus_words
from supdocnade.scene.dataset import read_photographs
from supdocnade.scene.fitting import extend_scene, fit_scene, fit_scene_corpus
from supdocnade.scene.persistence import load_scene, save_scene
from supdocnade.scene.prediction import FittedScene, Prediction, iter_predictions
from supdocnade.scene.references import Compared
from supdocnade.scene.settings import SceneSettings, place_settings
from supdocnade.scene.sharing import (
    describe_contents,
    download,
    is_stripped,
    strip_scene,
    upload,
    write_shared_model,
)
from supdocnade.schema import plain
from supdocnade.visual_words.encoder import encode_all
from supdocnade.visual_words.settings import VisualWordSettings


@document_settings
@dataclass(eq=False, repr=False)
class SceneModel(BaseEstimator):  # type: ignore[misc]
    """Learns classes and tags of photographs.

    Attributes
    ----------
    fitted_ : FittedScene
        The fitted model.
    skipped_ : tuple of SkippedImage
        Photographs that could not be read.
    """

    features: str | None = setting(
        None,
        'Description of patches: "sift" (the default), or the name of a network; `supdocnade '
        "features` lists and imports networks. The features of whole photographs by a network "
        "enter the topic model, too.",
        group="model",
    )
    _: KW_ONLY
    words: BagOfVisualWords | None = setting(
        None,
        "How visual words are learned; by default `BagOfVisualWords.for_photographs(features)`. "
        "There are fewer words than it says if the photographs have few different patches.",
        group="model",
    )
    topics: TopicModel | None = setting(
        None,
        "How topics are learned; by default `SupDocNADE.for_photographs(features)`. `DocNADE` "
        "learns them without the classes.",
        kind="SupDocNADE or DocNADE",
        group="model",
    )
    n_topics: int | None = setting(
        None, "Number of topics, in place of the number of `topics`.", least=1, group="model"
    )
    damping: float | None = same_setting(SceneSettings, "damping", group="model")
    min_tag_count: int = same_setting(SceneSettings, "min_tag_count", group="model")
    held_out: float = same_setting(SceneSettings, "held_out", group="model")
    random_state: Any = setting(
        None, "An integer makes every result reproducible.", kind="int or RandomState", group="run"
    )
    n_jobs: int | None = setting(None, "Workers. The result does not depend on it.", group="run")
    device: str = setting(
        "auto",
        'Where a network runs and topics are learned: "auto" takes a GPU if there is one and '
        "enough to do. A GPU may change the last bits of a result. This and the other parameters "
        "of the run stand in place of those of `words` and `topics`.",
        choices=DEVICES,
        group="run",
    )
    on_error: str = setting(
        "raise",
        "What to do about photographs that cannot be read; those skipped are in `skipped_`.",
        choices=("raise", "skip"),
        group="run",
    )
    cache: str | Path | None = setting(
        None, "Stores the words of photographs by content.", kind="path of a folder", group="run"
    )
    checkpoint: str | Path | None = setting(
        None, "`fit` resumes from it after an interruption.", kind="path of a folder", group="run"
    )

    def fit(
        self,
        images: Any,
        labels: Sequence[Any] | None = None,
        tags: Sequence[Tags] | None = None,
        *,
        progress: ProgressCallback | None = None,
        on_epoch: EpochCallback | None = None,
    ) -> Self:
        """Learn from photographs.

        Parameters
        ----------
        images : a folder with one sub-folder per class and optional metadata, or another place
            (docs/sources.md); or a list of paths, addresses, bytes of files, arrays or PIL images;
            or a `Corpus` of encoded photographs, which need not fit into memory. With a corpus, the
            visual words stored in it are used, an SVM learns from at most 10,000 photographs, and
            `fit_more` cannot add to the model.
        labels : their classes, None where unknown. By default, those of the corpus.
        tags : a list of tags per photograph, None where unknown. By default, those of the corpus.
        progress : called with the stage, the units done and their total.
        on_epoch : called with the metrics after every epoch of topics. A fit has several stages, so
            the names of the metrics begin with the stage, such as "learning/loss".
        """
        options = self._options(progress, on_epoch)
        if isinstance(images, Corpus):
            words = load_corpus_words(images)
            settings = self._check(str(words.settings.features))
            self.fitted_ = fit_scene_corpus(
                images, labels, tags, words, settings, read_seed(self.random_state), options
            )
            self.skipped_: tuple[SkippedImage, ...] = ()
            return self
        word_settings, settings = self.check()
        photographs = read_photographs(images, labels, tags)
        self.fitted_, self.skipped_ = fit_scene(
            photographs, word_settings, settings, read_seed(self.random_state), options
        )
        return self

    def fit_more(
        self,
        images: Any,
        labels: Sequence[Any] | None = None,
        tags: Sequence[Tags] | None = None,
        *,
        progress: ProgressCallback | None = None,
        on_epoch: EpochCallback | None = None,
    ) -> Self:
        """Learn from more photographs, together with the previous training set.

        The visual words stay; everything else is chosen and learned again. If a photograph occurs
        again, its new label and tags replace the old ones.

        Parameters
        ----------
        images, labels, tags, progress, on_epoch : as for `fit`.
        """
        previous = self._fitted()
        n_stored, n_images = len(previous.training_set.photographs), previous.data["n_images"]
        if n_stored < n_images:
            raise InvalidArgument(
                f"this model was fitted on a corpus of {n_images} photographs, but stores only "
                f"{n_stored} of them; encode all photographs as a corpus, and fit on it."
            )
        if is_stripped(previous):
            raise InvalidArgument(
                "this model was stripped of the tags of its training photographs; add photographs "
                "to the model that it was made from."
            )
        (words, settings), options = self.check(), self._options(progress, on_epoch)
        before = plain_settings(previous.words.settings)
        for name, value in plain_settings(words).items():
            if plain(value, name) != plain(before[name], name):
                raise InvalidArgument(
                    f"{name} must be as before, {before[name]!r}: the visual words stay; "
                    f"got {value!r}."
                )
        photographs = read_photographs(images, labels, tags)
        self.fitted_, self.skipped_ = extend_scene(
            previous, photographs, settings, read_seed(self.random_state), options
        )
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes that the model knows."""
        return np.array(self._fitted().classes, object)

    @property
    def tag_names_(self) -> NDArray[Any]:
        """The tags that the model knows."""
        return np.array(self._fitted().tag_names, object)

    def predict(self, images: Any) -> NDArray[Any]:
        """Return the classes of photographs.

        Parameters
        ----------
        images : a folder or another place (docs/sources.md), or a list of paths, places, bytes,
            arrays or PIL images.
        """
        fitted, proba_BC = self._with_classes(), self.predict_proba(images)
        labels: NDArray[Any] = np.array(fitted.classes, object)[proba_BC.argmax(axis=1)]
        return labels

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, (photographs, classes).

        Parameters
        ----------
        images : as for `predict`.
        """
        return self._with_classes().class_proba(self._compare(images))

    def transform(self, images: Any) -> NDArray[np.float32]:
        """Return the topic features of photographs, (photographs, topics).

        Parameters
        ----------
        images : as for `predict`.
        """
        topics: NDArray[np.float32] = self._compare(images).topics_BH
        return topics

    def annotate(self, images: Any, top: int | None = 5) -> list[tuple[str, ...]]:
        """Return the tags of photographs, the best first.

        Parameters
        ----------
        images : as for `predict`.
        top : number of tags. If None, return the tags whose probability is at least the fitted
            threshold.
        """
        if top is not None:
            check_count("top", top, least=1)
        found = []
        for each in self.iter_predictions(images):
            assert isinstance(each, Prediction), "an unreadable photograph raises"
            found.append(tuple(tag for tag, _ in each.best_tags(top)))
        return found

    def iter_predictions(
        self, images: Any, *, on_error: str = "raise"
    ) -> Iterator[Prediction | SkippedImage]:
        """Yield the predictions for photographs in their order, as they are read.

        Parameters
        ----------
        images : as for `predict`.
        on_error : "raise", or "skip" to yield a `SkippedImage` for an image that cannot be read.
        """
        options = replace(self._options(), on_error=on_error)
        return iter_predictions(self._fitted(), expand_folders(images), options)

    def explain(
        self, image: Any, *, label: str | None = None, tag: str | None = None
    ) -> Explanation:
        """Return the attribution of a class or a tag to the patches of a photograph.

        Parameters
        ----------
        image : a path, bytes of a file, an array or a PIL image.
        label : the class to explain. By default, the predicted class.
        tag : the tag to explain, instead of a class.
        """
        return explain_image(self._fitted(), image, label=label, tag=tag, device=self.device)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder; an existing model is replaced as a whole or not at all.

        It contains thumbnails of some photographs: whoever has the model can see them.

        Parameters
        ----------
        folder : a new one, or one that holds a model.
        """
        save_scene(self._fitted(), Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign one raises `StorageError`.

        Parameters
        ----------
        folder : of the model.
        """
        fitted = load_scene(Path(folder))
        settings = fitted.settings
        known = SupDocNADE if isinstance(settings.topics, SupDocNADESettings) else DocNADE
        model = cls(
            words=BagOfVisualWords(**vars(fitted.words.settings)),
            topics=known(**vars(settings.topics)),
            **{name: value for name, value in vars(settings).items() if name != "topics"},
        )
        model.fitted_, model.skipped_ = fitted, ()
        return model

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
        strip : leave out pictures and names of the training photographs, and tags that the model
            does not need.
        licence : of the model, for its card.
        private, token, commit_message : as for the `push_to_hub` of `huggingface_hub`.

        Returns
        -------
        The address of the commit.
        """
        fitted = strip_scene(self._fitted()) if strip else self._fitted()
        warnings.warn(" ".join(describe_contents(fitted)), stacklevel=2)
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            write_shared_model(fitted, folder, repo_id, licence)
            return upload(folder, repo_id, commit_message, private, token)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Return a model from a folder or from the Hugging Face Hub (extra `hub`).

        A model of the Hub passes the same checks as one that `load` reads.

        Parameters
        ----------
        pretrained_model_name_or_path : a folder, or "owner/model" on the Hub.
        options : of `huggingface_hub.snapshot_download`, such as `revision` and `token`.
        """
        name = os.fspath(pretrained_model_name_or_path)
        return cls.load(name if os.path.isdir(name) else download(name, **options))

    def check(self) -> tuple[VisualWordSettings, SceneSettings]:
        """Return the settings of words, and all others, or raise `InvalidArgument`."""
        words, features = self.words, self.features
        if words is None:
            words = BagOfVisualWords.for_photographs("sift" if features is None else features)
        elif not isinstance(words, BagOfVisualWords):
            raise InvalidArgument(f"words must be a BagOfVisualWords, got {words!r}.")
        elif features is not None and features != words.features:
            raise InvalidArgument(
                f"features must be those of words, {words.features!r}, got {features!r}."
            )
        if callable(words.features):
            raise InvalidArgument(
                "features must be 'sift' or the name of a network, which supdocnade features "
                f"--import FILE imports, got {words.features!r}."
            )
        words.check()
        return copy_settings(VisualWordSettings, words), self._check(words.features)

    def _check(self, features: str) -> SceneSettings:
        """Return the settings beside those of words with these features."""
        topics: DocNADESettings | None = self.topics
        if topics is None:
            topics = SupDocNADESettings.for_photographs(features)
        elif not isinstance(topics, TopicModel):
            raise InvalidArgument(f"topics must be a SupDocNADE or DocNADE, got {topics!r}.")
        check_settings(self)
        changes = {} if self.n_topics is None else {"n_topics": self.n_topics}
        settings = copy_settings(
            SceneSettings,
            self,
            topics=settings_of(topics, **changes),
            random_state=plain_seed(self.random_state),
        )
        settings.check()
        return settings

    def _compare(self, images: Any) -> Compared:
        """Return photographs beside those of the training set."""
        fitted = self._fitted()
        encoded = encode_all(fitted.encoder, check_images(expand_folders(images)), self._options())
        return fitted.compare_counts(encoded.counts, encoded.global_features)

    def _options(
        self, progress: ProgressCallback | None = None, on_epoch: EpochCallback | None = None
    ) -> RunOptions:
        return RunOptions(
            n_jobs=self.n_jobs,
            device=self.device,
            on_error=self.on_error,
            cache=None if self.cache is None else Path(self.cache),
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            progress=progress or no_progress,
            on_epoch=on_epoch,
        )

    def _fitted(self) -> FittedScene:
        check_is_fitted(self, "fitted_")
        fitted: FittedScene = self.fitted_
        return fitted

    def _with_classes(self) -> FittedScene:
        fitted = self._fitted()
        if not fitted.classes:
            raise InvalidArgument("this model was fitted without labels, it knows no classes.")
        return fitted


def scene_model(features: str = "sift", **settings: Any) -> SceneModel:
    """Return a model, not fitted, with settings of words and topics given by their names alone.

    Parameters
    ----------
    settings : in place of those of the recipe, as `supdocnade train --set` gives them.
    """
    placed = place_settings(settings)
    return SceneModel(
        words=BagOfVisualWords.for_photographs(features, **placed["words"]),
        topics=SupDocNADE.for_photographs(features, **placed["topics"]),
        **placed["scene"],
    )

"""Models on the Hugging Face Hub, or on a server with its API (extra `hub`).

Nothing is sent or fetched but the model that is named. Telemetry is switched off before the package
of the Hub is imported. Of a model on the Hub only its own two files are fetched, and they pass the
same checks as a file from anywhere.
"""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from supdocnade.errors import BackendUnavailable, StorageError, install_command
from supdocnade.scene.card import describe_contents, model_card, strip_scene
from supdocnade.scene.persistence import DESCRIPTION, SCENE, save_scene
from supdocnade.scene.prediction import FittedScene

CARD = "README.md"
"""Name of the model card in a repository of the Hub."""

_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)


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


def push_model(
    fitted: FittedScene,
    params: dict[str, Any],
    name: str,
    *,
    licence: str | None = None,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload a model of supdocnade",
) -> str:
    """Upload a model and its card to a repository of the Hub; return the address of the commit."""
    _check_name(name)
    hub = _import_hub()
    api = hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    with TemporaryDirectory() as temporary, _hub_errors(name, "uploaded"):
        folder = Path(temporary) / "model"
        write_shared_model(fitted, params, folder, name, licence=licence)
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=name, folder_path=folder, commit_message=commit_message)
    return str(commit.commit_url)


def find_model(name: str | os.PathLike[str], **options: Any) -> Path:
    """Return the folder of a model: a folder of this machine, or one fetched from the Hub.

    Parameters
    ----------
    options : `revision`, `token`, `cache_dir`, `force_download` and `local_files_only` of the Hub's
        `snapshot_download`.
    """
    if os.path.isdir(name):
        return Path(name)
    text = os.fspath(name)
    _check_name(text)
    hub = _import_hub()
    with _hub_errors(text, "fetched"):
        folder = hub.snapshot_download(
            text,
            allow_patterns=[SCENE, DESCRIPTION],
            endpoint=os.environ.get("HF_ENDPOINT"),
            **options,
        )
    return Path(folder)


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
        return push_model(
            fitted,
            {"random_state": self._plain_seed()},
            repo_id,
            licence=licence,
            private=private,
            token=token,
            commit_message=commit_message,
        )

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
        return cls.load(
            find_model(
                pretrained_model_name_or_path,
                revision=revision,
                token=token,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
            )
        )

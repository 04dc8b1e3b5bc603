"""Routes that open photographs of the gallery, and write the keywords that people gave them.

They do so only in the folders that the server was started with. Keywords go into sidecars; a record
lists them, and the server takes back what it has written.
"""

import mimetypes
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from fastapi import APIRouter
from fastapi.responses import FileResponse

from supdocnade.errors import StorageError
from supdocnade.folders.keyword_files import (
    KeywordWriter,
    UnwritableRecord,
    new_record,
    undo_command,
    undo_record,
)
from supdocnade.folders.photo_folder import EXTENSIONS
from supdocnade.gallery.photo_index import Gallery
from supdocnade.serving.problems import ApiError, openapi_responses
from supdocnade.serving.schemas import KeywordsOut, Number
from supdocnade.serving.service import Service

MAX_FAILED = 20
"""Sentences about photographs that cannot be given keywords."""


def photo_routes(service: Service) -> APIRouter:
    """Return the routes that open photographs."""
    routes = APIRouter(tags=["photographs"])
    errors = openapi_responses("no_gallery", "invalid_argument", "not_found", "not_named")

    @routes.get("/gallery/{number}/original", response_class=FileResponse, responses=errors)
    def original(number: Number) -> FileResponse:
        """Send the file of a photograph of the gallery."""
        path = named_path(service, service.gallery_with(number).paths[number])
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        return FileResponse(path, media_type=kind, headers={"Cache-Control": "private, no-cache"})

    _add_keyword_routes(service, routes)
    return routes


def _add_keyword_routes(service: Service, routes: APIRouter) -> None:
    writing = Lock()
    errors = openapi_responses("no_gallery", "not_named", "not_kept")

    @routes.get("/keywords", responses=errors)
    def written() -> KeywordsOut:
        """Tell how the keywords that this server has written are removed."""
        return _describe(service, 0)

    @routes.post("/keywords", responses=errors)
    def write() -> KeywordsOut:
        """Write the tags that people gave to photographs of the gallery into XMP sidecars."""
        gallery = service.get_gallery()
        with writing:
            return _write_keywords(service, gallery)

    @routes.post("/keywords/undo", responses=errors)
    def undo() -> KeywordsOut:
        """Remove all keywords that this server has written."""
        with writing:
            record, service.keyword_record = service.keyword_record, None
            results = [] if record is None else list(undo_record(record))
        failed = [str(each) for each in results if isinstance(each, StorageError)]
        if failed:
            service.keyword_record = record
        return _describe(service, len(results) - len(failed), failed)


def _write_keywords(service: Service, gallery: Gallery) -> KeywordsOut:
    """Write the tags that people gave to photographs in named folders."""
    if not service.photos:
        raise _not_named()
    record = service.keyword_record or Path(new_record().absolute())
    writer = KeywordWriter(record, service.fitted.tag_levels, predicted=False)
    failed: list[str] = []
    n_changed = n_elsewhere = 0
    for number, (_, tags, judged) in sorted(gallery.corrected.items()):
        keywords = [tag for tag, has in judged.items() if has] if tags is None else tags
        try:
            if keywords:
                path = named_path(service, gallery.paths[number])
                n_changed += bool(writer.write(os.fspath(path), keywords))
        except ApiError:
            n_elsewhere += 1
        except UnwritableRecord as error:
            raise ApiError("not_kept", str(error)) from error
        except StorageError as error:
            failed.append(str(error))
    if n_changed:
        service.keyword_record = record
    return _describe(service, n_changed, failed, n_elsewhere)


def _describe(
    service: Service, n_changed: int, failed: Sequence[str] = (), n_elsewhere: int = 0
) -> KeywordsOut:
    if len(failed) > MAX_FAILED:
        failed = [*failed[:MAX_FAILED], f"{len(failed) - MAX_FAILED} more cannot be written."]
    record = service.keyword_record
    undo = None if record is None else undo_command(record)
    return KeywordsOut(changed=n_changed, elsewhere=n_elsewhere, failed=list(failed), undo=undo)


def named_path(service: Service, path: str) -> Path:
    """Return the path of a photograph in a folder that the server was started with.

    The index names the photograph, and anybody may have made it: a link may lead out of the folder,
    and a file may be something else.
    """
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(folder) for folder in service.photos):
        raise _not_named()
    try:
        is_file = stat.S_ISREG(real.stat().st_mode)
    except OSError:
        is_file = False
    if not is_file or not real.name.lower().endswith(EXTENSIONS):
        raise ApiError("not_found", f"{real.name} is not a photograph, or it has gone.")
    return real


def _not_named() -> ApiError:
    return ApiError(
        "not_named",
        "this server was not started with the folder of the photographs; "
        "supdocnade serve --photos FOLDER lets the page open them.",
    )

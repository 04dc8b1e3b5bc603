"""Routes that open photographs of the gallery, and write the keywords that people gave them.

They do so only in the folders that the server was started with. Keywords go into sidecars; a record
lists them, and the server takes back what it has written.
"""

import mimetypes
import os
import stat
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
        changed = len(results) - len(failed)
        return KeywordsOut(changed=changed, failed=failed[:MAX_FAILED], undo=None)


def _write_keywords(service: Service, gallery: Gallery) -> KeywordsOut:
    """Write the keywords of all photographs in named folders that have been given tags."""
    if not service.photos:
        raise _not_named()
    record = service.keyword_record or Path(new_record().absolute())
    writer = KeywordWriter(record, service.fitted.tag_levels, predicted=False)
    failed: list[str] = []
    n_changed = 0
    for number in gallery.reviewed:
        tags = gallery.given(number)[1]
        try:
            path = named_path(service, gallery.paths[number])
            n_changed += bool(tags and writer.write(os.fspath(path), tags))
        except ApiError:
            continue
        except UnwritableRecord as error:
            raise ApiError("not_kept", str(error)) from error
        except StorageError as error:
            failed.append(str(error))
    if n_changed:
        service.keyword_record = record
    undo = undo_command(record) if service.keyword_record else None
    return KeywordsOut(changed=n_changed, failed=failed[:MAX_FAILED], undo=undo)


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

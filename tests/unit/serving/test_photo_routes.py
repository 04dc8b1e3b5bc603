import os

import pytest
from tests.serving import build_index, check_problem, make_client, photograph

from supdocnade.cli.serve import check_photos
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.keywords import read_keywords
from supdocnade.scene.corrections import CorrectionFile
from supdocnade.serving.service import ServeSettings


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    return build_index(tmp_path_factory.mktemp("photos"))


def test_originals_of_named_folders_are_sent(indexed):
    gallery, photos = indexed
    with make_client(gallery, photos=[photos / "coast"]) as client:
        assert client.get("/v1/model").json()["photos"] == [str(photos / "coast")]
        response = client.get("/v1/gallery/0/original")
        assert response.headers["content-type"] == "image/jpeg"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.content == photograph(0)
        elsewhere = client.get("/v1/gallery/23/original")
        assert "--photos FOLDER" in check_problem(elsewhere, 403, "not_named")
        check_problem(client.get("/v1/gallery/24/original"), 404, "not_found")
    with make_client(gallery) as client:
        check_problem(client.get("/v1/gallery/0/original"), 403, "not_named")


def test_nothing_else_is_sent(indexed, tmp_path):
    """A forged index may name any file; links lead anywhere."""
    gallery, _ = indexed
    named, secret = tmp_path / "named", tmp_path / "secret.jpg"
    named.mkdir()
    secret.write_bytes(b"secret")
    (named / "notes.txt").write_text("secret")
    (named / "link.jpg").symlink_to(secret)
    os.mkfifo(named / "pipe.jpg")
    for name, status, code in (
        (named / "notes.txt", 404, "not_found"),
        (named / "gone.jpg", 404, "not_found"),
        (named / "pipe.jpg", 404, "not_found"),
        (named / "link.jpg", 403, "not_named"),
        (named / ".." / "secret.jpg", 403, "not_named"),
        (f"{named}x/a.jpg", 403, "not_named"),
        ("s3://bucket/a.jpg", 403, "not_named"),
    ):
        with (
            pytest.MonkeyPatch.context() as patched,
            make_client(gallery, photos=[named]) as client,
        ):
            patched.setattr(gallery, "paths", [str(name)] * len(gallery))
            check_problem(client.get("/v1/gallery/3/original"), status, code)


def test_photographs_are_not_opened_for_everyone(tmp_path):
    check_photos([tmp_path], ServeSettings(allowed_hosts=("127.0.0.1",)))
    check_photos([tmp_path], ServeSettings(token="secret", check_host=False))
    for others in ({"check_host": False}, {"allowed_hosts": ("localhost", "photos.example")}):
        with pytest.raises(InvalidArgument, match="--photos needs a token"):
            check_photos([tmp_path], ServeSettings(**others))
    with pytest.raises(StorageError, match="there is no folder"):
        check_photos([tmp_path / "misspelt"], ServeSettings())


def test_accepted_tags_become_keywords_and_are_taken_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gallery, photos = build_index(tmp_path)
    file = CorrectionFile(tmp_path / "corrections.jsonl")
    with make_client(gallery, corrections=file, photos=[photos / "coast"]) as client:
        for number, tags in ((0, ["Dune"]), (1, []), (2, None), (3, ["sea", "boat"]), (23, ["x"])):
            sent = {"photograph": number, "label": "coast", "tags": tags}
            assert client.post("/v1/corrections", json=sent).status_code == 200
        damaged = photos / "coast" / "03.jpg.xmp"
        damaged.write_text("no XMP")
        written = client.post("/v1/keywords").json()
        (failed,) = written["failed"]
        assert failed.startswith(f"{damaged} is left unchanged: it is not XML")
        (record,) = tmp_path.glob("supdocnade-xmp-*.jsonl")
        assert written["undo"] == f"supdocnade tag --undo {record}"
        assert written["changed"] == 1
        sidecar = photos / "coast" / "00.jpg.xmp"
        assert read_keywords(sidecar.read_bytes()) == ["Dune"]
        assert {*photos.rglob("*.xmp")} == {sidecar, damaged}
        damaged.unlink()
        client.post(
            "/v1/corrections", json={"photograph": 4, "judged": {"sea": True, "ice": False}}
        )
        again = client.post("/v1/keywords").json()
        undo = written["undo"]
        assert again == {"changed": 2, "elsewhere": 1, "failed": [], "undo": undo}
        sidecar = photos / "coast" / "04.jpg.xmp"
        assert read_keywords(sidecar.read_bytes()) == ["sea"]
        assert client.get("/v1/keywords").json()["undo"] == undo
        undone = {"changed": 3, "elsewhere": 0, "failed": [], "undo": None}
        assert client.post("/v1/keywords/undo").json() == undone
        assert not [*photos.rglob("*.xmp")]
        assert client.post("/v1/keywords/undo").json()["changed"] == 0


def test_keywords_are_written_in_named_folders_alone(indexed):
    with make_client(indexed[0]) as client:
        check_problem(client.post("/v1/keywords"), 403, "not_named")
        foreign = client.post("/v1/keywords", headers={"Origin": "http://evil.example"})
        check_problem(foreign, 403, "foreign_page")
    with make_client() as client:
        check_problem(client.post("/v1/keywords"), 404, "no_gallery")
    with make_client(indexed[0], photos=[indexed[1]], token="secret") as client:
        check_problem(client.post("/v1/keywords"), 401, "unauthorized")

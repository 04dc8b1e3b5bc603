import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.disks import permissions_count

from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import (
    list_folder,
    read_folder,
    scan_folder,
)


def write_files(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def read(root):
    return {
        record.path.relative_to(root).as_posix(): (record.label, record.tags)
        for record in read_folder(root)
    }


def test_a_folder_that_names_several_classes_is_refused(tmp_path):
    write_files(tmp_path, "sea/b.jpg", "sea|sky/a.jpg")
    with pytest.raises(StorageError, match=r"the sub-folder sea\|sky: expected one class as label"):
        read_folder(tmp_path)


def test_folders_are_classes(tmp_path):
    write_files(tmp_path, "sea/b.jpg", "sea/a.JPG", "sea/2024/may/c.png", "forest/a.webp")
    write_files(
        tmp_path, "top.tiff", "_unlabelled/x.gif", "_unlabelled/sea/y.heic", "sea/_unlabelled/z.bmp"
    )
    assert list(read(tmp_path).items()) == [
        ("_unlabelled/sea/y.heic", (None, None)),
        ("_unlabelled/x.gif", (None, None)),
        ("forest/a.webp", ("forest", None)),
        ("sea/2024/may/c.png", ("sea", None)),
        ("sea/_unlabelled/z.bmp", ("sea", None)),
        ("sea/a.JPG", ("sea", None)),
        ("sea/b.jpg", ("sea", None)),
        ("top.tiff", (None, None)),
    ]


def test_hidden_and_other_files_are_skipped(tmp_path):
    write_files(tmp_path, ".hidden/a.jpg", "sea/.b.jpg", "sea/._c.jpg", "sea/notes.txt", "sea/jpg")
    write_files(tmp_path, "__MACOSX/sea/._d.jpg", "sea/Thumbs.db", "sea/d.jpg.part", "sea/e.jpeg")
    (tmp_path / "sea" / "folder.jpg").mkdir()
    assert list(read(tmp_path)) == ["sea/e.jpeg"]


def test_what_is_passed_over_is_said(tmp_path):
    write_files(tmp_path, "sea/a.jfif", "sea/b.MTS", "sea/c.mts", "sea/d.mp4", "sea/README")
    write_files(tmp_path, "sea/a.jfif.xmp", "sea/.hidden.mov", "__MACOSX/sea/a.jpg")
    write_files(tmp_path, "sea/@eaDir/a.jpg", "tags_free.tsv", "sea/table.csv")
    (tmp_path / "metadata.csv").write_text("file_name,tags\nsea/a.jfif,sky\n")
    found = scan_folder(tmp_path)
    assert [record.path.name for record in found.records] == ["a.jfif"]
    assert found.notes == (
        "ignored: 2 .mts, 1 .csv, 1 .mp4, 1 without ending.",
        "ignored: tags_free.tsv; tags are read from one of metadata.jsonl, metadata.csv.",
    )


def test_columns_and_lists_that_are_not_read_are_said(tmp_path):
    write_files(tmp_path, "sea/a.jpg")
    (tmp_path / "metadata.csv").write_text("file_name,author,date\nsea/a.jpg,sky,1999\n")
    (note,) = scan_folder(tmp_path).notes
    assert note == "metadata.csv: not read: author, date; the columns are file_name, label, tags."
    (tmp_path / "metadata.csv").unlink()
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "sea/a.jpg", "tags": "sea, sky"}\n')
    (note,) = scan_folder(tmp_path).notes
    assert "metadata.jsonl: 'sea, sky' is read as one tag; several" in note
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "sea/a.jpg", "tags": "sea, a|sky"}\n')
    assert scan_folder(tmp_path).notes == ()


@pytest.mark.parametrize(
    ("names", "expected", "advice"),
    [
        (["2019", "2020-07-14 Rome", "20210102", "100CANON", "07"], [None] * 5, "are not classes"),
        (["2019/Rome", "2020/Paris", "Scans"], ["2019", "2020", "Scans"], "--classes leaf"),
        (["12 coast", "forest 120190"], ["12 coast", "forest 120190"], None),
    ],
)
def test_folders_by_date_are_not_classes(names, expected, advice, tmp_path):
    write_files(tmp_path, *(f"{name}/a.jpg" for name in names))

    def found(classes):
        folder = scan_folder(tmp_path, classes=classes)
        records = {
            record.path.parent.relative_to(tmp_path).as_posix(): record for record in folder.records
        }
        return [records[name].label for name in names], folder.notes

    labels, notes = found(None)
    assert labels == expected
    assert notes == () if advice is None else advice in notes[0]
    assert found("top") == ([name.split("/")[0] for name in names], ())
    assert found("leaf") == ([name.split("/")[-1] for name in names], ())
    (tmp_path / "metadata.csv").write_text(f"file_name,label\n{names[0]}/a.jpg,sea\n")
    assert found(None)[0] == ["sea", *expected[1:]]
    assert found("none")[0] == [None] * len(names)


@settings(deadline=None)
@given(st.permutations(["b/1.jpg", "a/2.jpg", "a-b/3.jpg", "a/b/4.jpg", "ä/5.jpg", "B/6.jpg"]))
def test_the_order_of_the_file_system_does_not_matter(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("folder")
    write_files(root, *names)
    assert list_folder(root).photographs == [
        "B/6.jpg",
        "a/2.jpg",
        "a/b/4.jpg",
        "a-b/3.jpg",
        "b/1.jpg",
        "ä/5.jpg",
    ]


def test_links_are_followed_once_and_loops_end(tmp_path):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    write_files(root, "sea/a.jpg")
    write_files(elsewhere, "b.jpg", "deep/c.jpg")
    os.symlink(root, root / "sea" / "loop")
    os.symlink(root / "sea", root / "also_sea")
    os.symlink(elsewhere, root / "forest")
    os.symlink(elsewhere / "deep", root / "zoo")
    os.symlink(elsewhere / "b.jpg", root / "sea" / "linked.jpg")
    os.symlink(root / "ring", root / "ring")
    assert list(read(root)) == ["forest/b.jpg", "sea/a.jpg", "sea/linked.jpg", "zoo/c.jpg"]


def test_broken_links_count_as_photographs(tmp_path):
    write_files(tmp_path, "sea/a.jpg")
    os.symlink(tmp_path / "gone.jpg", tmp_path / "sea" / "b.jpg")
    os.mkfifo(tmp_path / "sea" / "pipe.jpg")
    os.symlink(tmp_path / "sea" / "pipe.jpg", tmp_path / "sea" / "to_pipe.jpg")
    assert list(read(tmp_path)) == ["sea/a.jpg", "sea/b.jpg"]


def test_a_subfolder_that_cannot_be_read_counts_as_a_photograph(tmp_path):
    write_files(tmp_path, "sea/a.jpg", "sea/secret/b.jpg")
    secret = tmp_path / "sea" / "secret"
    secret.chmod(0)
    with permissions_count():
        assert read(tmp_path) == {"sea/a.jpg": ("sea", None), "sea/secret": ("sea", None)}
        with pytest.raises(StorageError, match="secret cannot be read: Permission denied"):
            read_folder(secret)


def test_metadata_gives_tags_and_may_give_classes(tmp_path):
    write_files(tmp_path, "sea/a.jpg", "sea/b.jpg", "sea/c.jpg", "sea/d.jpg", "e.jpg")
    (tmp_path / "metadata.jsonl").write_text(
        '{"file_name": "sea/a.jpg", "tags": ["sky"]}\n'
        '{"file_name": "sea/b.jpg", "label": "coast", "tags": []}\n'
        '{"file_name": "sea/c.jpg", "label": null}\n'
        '{"file_name": "e.jpg", "label": "forest"}\n'
    )
    assert read(tmp_path) == {
        "e.jpg": ("forest", None),
        "sea/a.jpg": ("sea", ("sky",)),
        "sea/b.jpg": ("coast", ()),
        "sea/c.jpg": (None, None),
        "sea/d.jpg": ("sea", None),
    }


def test_columns_may_have_capitals_and_tags_may_be_keywords(tmp_path):
    write_files(tmp_path, "a.jpg", "b.jpg")
    (tmp_path / "metadata.csv").write_text("file_name,Label,Keywords\na.jpg,coast,sea|sky\n")
    assert read(tmp_path)["a.jpg"] == ("coast", ("sea", "sky"))
    (tmp_path / "metadata.csv").write_text("file_name,tags,keywords\nb.jpg,sea,sky\n")
    assert read(tmp_path)["b.jpg"] == (None, ("sea",))


def test_names_match_with_backslashes_and_other_unicode_composition(tmp_path):
    composed, decomposed = "m\u00fc/\u00e9.jpg", "mu\u0308/e\u0301.jpg"
    write_files(tmp_path, decomposed, "b/Foto 2.jpg", "b\\c.jpg", "b/c.jpg", "b/d.jpg")
    metadata = tmp_path / "metadata.csv"
    backslashes = ("b\\Foto 2.jpg", "b\\c.jpg", ".\\b\\d.jpg")
    rows = "".join(f"{name},sky\n" for name in (composed, *backslashes))
    metadata.write_text(f"file_name,tags\n{rows}")
    tags = {name: tags for name, (_, tags) in read(tmp_path).items()}
    # A file whose name has a backslash comes before a file in a folder.
    named = {decomposed, "b/Foto 2.jpg", "b\\c.jpg", "b/d.jpg"}
    assert tags == {**dict.fromkeys(named, ("sky",)), "b/c.jpg": None}
    metadata.write_text(f"file_name,tags\n{decomposed},sky\n{composed},sea\n")
    with pytest.raises(StorageError, match="line 3: expected each file once, got"):
        read_folder(tmp_path)


def test_folders_without_photographs_are_errors(tmp_path):
    with pytest.raises(StorageError, match=r"none cannot be read: No such file"):
        read_folder(tmp_path / "none")
    write_files(tmp_path, "file.jpg")
    with pytest.raises(StorageError, match=r"file\.jpg cannot be read: Not a directory"):
        read_folder(str(tmp_path / "file.jpg"))
    (tmp_path / "empty" / "sea").mkdir(parents=True)
    with pytest.raises(StorageError, match=r"empty contains no photographs .*\.dng\)"):
        read_folder(tmp_path / "empty")


def test_metadata_in_a_subfolder_is_an_error(tmp_path):
    (tmp_path / "coast").mkdir()
    (tmp_path / "coast" / "a.jpg").touch()
    (tmp_path / "coast" / "metadata.jsonl").touch()
    with pytest.raises(StorageError, match=r"coast/metadata\.jsonl must be in"):
        read_folder(tmp_path)

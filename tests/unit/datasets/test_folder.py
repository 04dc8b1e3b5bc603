import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supdocnade.datasets.folder import EXTENSIONS, photographs, read_folder
from supdocnade.errors import StorageError


def fill(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def read(root):
    return {
        record.path.relative_to(root).as_posix(): (record.label, record.tags)
        for record in read_folder(root)
    }


def test_folders_are_classes(tmp_path):
    fill(tmp_path, "sea/b.jpg", "sea/a.JPG", "sea/2024/may/c.png", "forest/a.webp")
    fill(
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


def test_what_is_hidden_or_no_photograph_is_passed_over(tmp_path):
    fill(tmp_path, ".hidden/a.jpg", "sea/.b.jpg", "sea/._c.jpg", "sea/notes.txt", "sea/jpg")
    fill(tmp_path, "__MACOSX/sea/._d.jpg", "sea/Thumbs.db", "sea/d.jpg.part", "sea/e.jpeg")
    (tmp_path / "sea" / "folder.jpg").mkdir()
    assert list(read(tmp_path)) == ["sea/e.jpeg"]


def test_every_format_that_is_decoded_has_an_extension(tmp_path):
    fill(tmp_path, *(f"{i}{extension.upper()}" for i, extension in enumerate(EXTENSIONS)))
    assert len(read(tmp_path)) == len(EXTENSIONS) == 11


@settings(deadline=None)
@given(st.permutations(["b/1.jpg", "a/2.jpg", "a-b/3.jpg", "a/b/4.jpg", "ä/5.jpg", "B/6.jpg"]))
def test_the_order_of_the_file_system_does_not_matter(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("folder")
    fill(root, *names)
    found = [path.as_posix() for path in photographs(root)]
    assert found == ["B/6.jpg", "a/2.jpg", "a/b/4.jpg", "a-b/3.jpg", "b/1.jpg", "ä/5.jpg"]


def test_links_are_followed_once_and_loops_end(tmp_path):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    fill(root, "sea/a.jpg")
    fill(elsewhere, "b.jpg", "deep/c.jpg")
    os.symlink(root, root / "sea" / "loop")
    os.symlink(root / "sea", root / "also_sea")
    os.symlink(elsewhere, root / "forest")
    os.symlink(elsewhere / "deep", root / "zoo")
    os.symlink(elsewhere / "b.jpg", root / "sea" / "linked.jpg")
    os.symlink(root / "ring", root / "ring")
    assert list(read(root)) == ["forest/b.jpg", "sea/a.jpg", "sea/linked.jpg", "zoo/c.jpg"]


def test_a_link_to_nothing_is_a_photograph_that_cannot_be_read(tmp_path):
    fill(tmp_path, "sea/a.jpg")
    os.symlink(tmp_path / "gone.jpg", tmp_path / "sea" / "b.jpg")
    os.mkfifo(tmp_path / "sea" / "pipe.jpg")
    os.symlink(tmp_path / "sea" / "pipe.jpg", tmp_path / "sea" / "to_pipe.jpg")
    assert list(read(tmp_path)) == ["sea/a.jpg", "sea/b.jpg"]


def test_metadata_gives_tags_and_may_give_classes(tmp_path):
    fill(tmp_path, "sea/a.jpg", "sea/b.jpg", "sea/c.jpg", "sea/d.jpg", "e.jpg")
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


def test_the_three_files_say_the_same(tmp_path):
    contents = {
        "metadata.jsonl": '{"file_name": "sea/a.jpg", "tags": ["sky", "sand"]}\n',
        "metadata.csv": "file_name,tags\nsea/a.jpg,sky|sand\n",
        "tags.tsv": "sea/a.jpg\tsky|sand\n",
    }
    fill(tmp_path, "sea/a.jpg", "sea/b.jpg")
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        assert read(tmp_path) == {"sea/a.jpg": ("sea", ("sky", "sand")), "sea/b.jpg": ("sea", None)}
        (tmp_path / name).unlink()


def test_lines_must_name_photographs(tmp_path):
    fill(tmp_path, "sea/a.jpg", "sea/notes.txt")
    for name, reason in (("sea/b.jpg", "does not exist"), ("sea/notes.txt", "is no photograph")):
        (tmp_path / "tags.tsv").write_text(f"sea/a.jpg\tsky\n{name}\tsky\n")
        with pytest.raises(
            StorageError, match=rf"tags\.tsv, line 2 names {name}, which {reason}\."
        ):
            read_folder(tmp_path)


def test_folders_without_photographs_are_named(tmp_path):
    with pytest.raises(StorageError, match=r"none cannot be read: No such file"):
        read_folder(tmp_path / "none")
    fill(tmp_path, "file.jpg")
    with pytest.raises(StorageError, match=r"file\.jpg cannot be read: Not a directory"):
        read_folder(str(tmp_path / "file.jpg"))
    (tmp_path / "empty" / "sea").mkdir(parents=True)
    with pytest.raises(StorageError, match=r"empty must hold photographs .*\.heif\), got none"):
        read_folder(tmp_path / "empty")


def test_metadata_where_nobody_looks_for_it_is_refused(tmp_path):
    (tmp_path / "coast").mkdir()
    (tmp_path / "coast" / "a.jpg").touch()
    (tmp_path / "coast" / "metadata.jsonl").touch()
    with pytest.raises(StorageError, match=r"coast/metadata\.jsonl must be in"):
        read_folder(tmp_path)

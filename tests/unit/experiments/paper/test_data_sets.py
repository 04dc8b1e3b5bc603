"""The readers on made-up folders of the published sizes, and on the data where it is at hand."""

from collections import Counter
from dataclasses import replace

import pytest
from experiments.paper.data_sets import (
    LABELME,
    SCENE15,
    UIUC_SPORTS,
    PhotoSet,
    read_labelme,
    read_photo_set,
    read_scene15,
    read_sports_annotations,
    read_uiuc_sports,
)
from tests.photosets import OTHER_NUMBERS

from supdocnade.errors import StorageError

AUTHORS = {
    **{name: name.lower() for name in ("Bedroom", "Industrial", "Kitchen", "LivingRoom", "Store")},
    **{"Suburb": "CALsuburb", "Office": "PARoffice"},
}


def make(root, classes, name=lambda label, i: f"{label}/image_{i:04}.jpg", size=0):
    """Write as many empty files of each class as published, by the `size`-th publication."""
    for label, sizes in classes.items():
        for i in range(1, sizes[min(size, len(sizes) - 1)] + 1):
            path = root / name(label, i)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return root


def sizes(records):
    return dict(Counter(record.label for record in records))


@pytest.mark.parametrize(
    "folder",
    [
        lambda label: label,
        lambda label: f"scene_categories/{AUTHORS.get(label, f'MIT{label.lower()}')}",
        lambda label: f"15-Scene Image Dataset/15-Scene/{list(SCENE15).index(label):02}",
    ],
)
def test_scene15_as_it_is_distributed(tmp_path, folder):
    make(tmp_path, SCENE15, lambda label, i: f"{folder(label)}/image_{i:04}.jpg")
    records = read_scene15(tmp_path)
    assert len(records) == 4485
    assert sizes(records) == {label: size for label, (size,) in SCENE15.items()}
    assert {record.tags for record in records} == {None}
    assert [record.label for record in records] == sorted(record.label for record in records)
    assert records[0].path == tmp_path / folder("Bedroom") / "image_0001.jpg"


def test_numbered_folders_need_their_published_sizes(tmp_path):
    make(tmp_path, SCENE15, lambda label, i: f"{list(SCENE15).index(label):02}/{i}.jpg")
    (tmp_path / "03" / "1.jpg").unlink()
    with pytest.raises(
        StorageError, match=r"03 must hold as many photographs as a class .* got 259"
    ):
        read_scene15(tmp_path)


def test_missing_classes_are_named(tmp_path):
    classes = {label: (1,) for label in SCENE15 if label not in ("Coast", "Store")}
    make(tmp_path, classes)
    with pytest.raises(
        StorageError, match="classes of Scene15, got no photographs of Coast, Store"
    ):
        read_scene15(tmp_path)
    with pytest.raises(StorageError, match="No such file"):
        read_scene15(tmp_path / "none")


def test_other_sizes_and_other_folders_are_a_warning(tmp_path):
    make(tmp_path, SCENE15)
    (tmp_path / "Coast" / "image_0001.jpg").unlink()
    with pytest.warns(UserWarning, match=r"published \(in brackets\): 359 of Coast \(360\)\.$"):
        records = read_scene15(tmp_path)
    assert len(records) == 4484
    (tmp_path / "Coast" / "image_0001.jpg").touch()
    make(tmp_path, {"Desert": (2,)})
    with pytest.warns(UserWarning, match=r"2 photographs outside .*, Desert/image_0001\.jpg among"):
        records = read_scene15(tmp_path)
    assert len(records) == 4485


@pytest.mark.parametrize("size", [0, 1])
def test_labelme_in_folders_or_in_one(tmp_path, size):
    make(tmp_path / "1", LABELME, lambda label, i: f"{label}/{label}_{i}.jpg", size)
    make(tmp_path / "2", LABELME, lambda label, i: f"spatial_envelope/{label}_{i}.jpg", size)
    folders, flat = (read_labelme(tmp_path / name, tags=None) for name in "12")
    assert len(folders) == (1600, 2688)[size]
    assert sizes(folders) == {label: both[size] for label, both in LABELME.items()}
    assert [(record.label, record.path.name) for record in folders] == [
        (record.label, record.path.name) for record in flat
    ]


@pytest.mark.parametrize("folder", ["{label}/", ""])
def test_labelme_tags(tmp_path, folder):
    def name(label, i):
        return folder.format(label=label) + f"{label}_{i}.jpg"

    make(tmp_path, LABELME, name)
    lines = ["file\ttags", "coast/coast_1.jpg\tsea_water|sky", "street/street_2.jpg\t"]
    (tmp_path / "tags_33.tsv").write_text("\n".join(lines))
    records = {record.path.name: record for record in read_labelme(tmp_path, "tags_33.tsv")}
    assert len(records) == 1600
    assert records["coast_1.jpg"].tags == ("sea_water", "sky")
    assert records["street_2.jpg"].tags == ()
    assert records["street_1.jpg"].tags is None
    (tmp_path / "tags_33.tsv").write_text("\n".join([*lines, "coast/coast_201.jpg\tsea"]))
    with pytest.raises(StorageError, match=r"line 4 names coast/coast_201\.jpg, which does not"):
        read_labelme(tmp_path, "tags_33.tsv")
    with pytest.raises(
        StorageError, match=r"must hold tags_free\.tsv, got no such file; tags=None"
    ):
        read_labelme(tmp_path)


@pytest.fixture
def sports(tmp_path):
    """The first publication of UIUC-Sports, with a line for each of its photographs."""
    make(tmp_path, UIUC_SPORTS)
    names = [
        f"{label} image_{i:04}.jpg"
        for label, sizes in UIUC_SPORTS.items()
        for i in range(1, sizes[0] + 1)
    ]
    (tmp_path / "uiuc-sports-info.txt").write_text("\n".join(names) + "\n")
    tags = ["athlete, net, athlete, net, floor, "] * (len(names) - 1) + [""]
    (tmp_path / "uiuc-sports-annotations.txt").write_text("\n".join(tags) + "\n")
    return tmp_path


def test_sports_tags_are_kept_once_in_their_order(sports):
    records = read_uiuc_sports(sports)
    assert sizes(records) == {label: some[0] for label, some in UIUC_SPORTS.items()}
    assert len(records) == 1579
    assert records[0].path == sports / "badminton" / "image_0001.jpg"
    assert {record.tags for record in records[:-1]} == {("athlete", "net", "floor")}
    assert records[-1].tags == ()
    assert records == read_sports_annotations(sports)


def test_sports_lines_and_photographs_may_differ_a_little(sports):
    (sports / "bocce" / "image_0001.jpg").rename(sports / "bocce" / "other.jpg")
    with pytest.warns(
        UserWarning, match=r"names 1 photographs .* bocce/image_0001\.jpg among them"
    ):
        records = read_uiuc_sports(sports)
    assert len(records) == 1579
    assert [record.path.name for record in records if record.tags is None] == ["other.jpg"]


def test_sports_photographs_under_other_names_have_no_tags(tmp_path):
    def name(label, i):
        folder = "RockClimbing" if label == "rockclimbing" else label
        return f"event_img/{folder}/Easy_Mid_{folder}_{i}.jpg"

    make(tmp_path, UIUC_SPORTS, name)
    assert sizes(read_uiuc_sports(tmp_path, tags=None))["rockclimbing"] == 194
    with pytest.raises(StorageError, match=r"must hold uiuc-sports-annotations\.txt"):
        read_uiuc_sports(tmp_path)
    (tmp_path / "uiuc-sports-info.txt").write_text("polo image_0001.jpg\n")
    (tmp_path / "uiuc-sports-annotations.txt").write_text("horse, \n")
    with pytest.raises(StorageError, match="got none that exists; tags=None reads them without"):
        read_uiuc_sports(tmp_path)


@pytest.mark.parametrize(
    ("names", "tags", "message"),
    [
        ("polo a.jpg\n", "horse\nhorse\n", r"must have as many lines as .*info\.txt, 1, got 2"),
        ("polo a.jpg\npolo\n", "a\nb\n", r"info\.txt, line 2: expected a class of UIUC-Sports"),
        ("chess a.jpg\n", "a\n", r"line 1: expected a class of UIUC-Sports .* got 'chess a\.jpg'"),
        ("polo a.jpg\npolo a.jpg\n", "a\nb\n", "line 2: expected each file once"),
    ],
)
def test_wrong_sports_lines_are_named(tmp_path, names, tags, message):
    (tmp_path / "uiuc-sports-info.txt").write_text(names)
    (tmp_path / "uiuc-sports-annotations.txt").write_text(tags)
    with pytest.raises(StorageError, match=message):
        read_sports_annotations(tmp_path)


@pytest.mark.filterwarnings(OTHER_NUMBERS)
def test_a_photo_set_on_disk_is_the_same(drawn, tmp_path):
    photos = read_photo_set("labelme", drawn)
    photos.save(tmp_path / "photographs.json")
    again = PhotoSet.load(tmp_path / "photographs.json")
    assert replace(again, paths=photos.paths).__dict__ == photos.__dict__
    (tmp_path / "photographs.json").write_text("[]")
    with pytest.raises(StorageError, match=r"photographs\.json must list photographs"):
        PhotoSet.load(tmp_path / "photographs.json")

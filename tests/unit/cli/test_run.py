from pathlib import Path

from supdocnade.cli.run import check_records
from supdocnade.folders.photo_folder import ImageRecord


def test_the_one_class_of_added_photographs_is_not_unusual(capsys):
    photos = Path("photos")
    records = [ImageRecord(photos / "coast" / name, "coast", None) for name in ("a.jpg", "b.jpg")]
    check_records(photos, records, quiet=False)
    assert "of one class, coast" in capsys.readouterr().err
    check_records(photos, records, extends=True, quiet=False)
    check_records(photos, records[:1], extends=True, quiet=False)
    assert capsys.readouterr().err == ""

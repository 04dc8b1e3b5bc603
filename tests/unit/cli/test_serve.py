import pytest
from tests.commands import supdocnade

from supdocnade.cli import model_commands
from supdocnade.cli.serve import _load_gallery
from supdocnade.errors import StorageError, install_command
from supdocnade.gallery.photo_index import Gallery


def test_a_model_is_served_without_the_index_of_an_older_one(monkeypatch, tmp_path, capsys):
    def refuse(folder, fitted):
        raise StorageError(f"{folder} was made with another model.")

    monkeypatch.setattr(Gallery, "load", refuse)
    model, index = tmp_path / "m", tmp_path / "m.index"
    assert _load_gallery(model, None, None, quiet=False) is None
    assert capsys.readouterr().err == ""
    index.mkdir()
    assert _load_gallery(model, None, None, quiet=False) is None
    expected = f"note: there is no gallery: {index} was made with another model.\n"
    assert capsys.readouterr().err == expected
    with pytest.raises(StorageError, match="another model"):
        _load_gallery(model, index, None, quiet=False)


def test_serving_other_machines_needs_a_token(monkeypatch, tmp_path):
    monkeypatch.delenv("SUPDOCNADE_TOKEN", raising=False)
    done = supdocnade("serve", tmp_path, "--host", "0.0.0.0", "--port", 0)
    assert done.code == 1
    assert "a token must be set (SUPDOCNADE_TOKEN)" in done.err
    assert done.err.count("\n") == 1
    # With a token, the next error is that of the model.
    monkeypatch.setenv("SUPDOCNADE_TOKEN", "secret")
    done = supdocnade("serve", tmp_path, "--host", "0.0.0.0", "--port", 0)
    assert "is not a model" in done.err


def test_missing_extra_is_message(monkeypatch, tmp_path):
    monkeypatch.setattr(model_commands, "SERVING", ("no_such_package",))
    done = supdocnade("serve", tmp_path)
    assert done.code == 1
    assert install_command("serve") in done.err
    assert "no_such_package" in done.err

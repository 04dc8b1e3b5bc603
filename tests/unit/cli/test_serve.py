import pytest
from tests.commands import supdocnade

from supdocnade.cli import serve
from supdocnade.errors import install_command


def test_serving_other_machines_needs_a_token(monkeypatch, tmp_path):
    monkeypatch.delenv("SUPDOCNADE_TOKEN", raising=False)
    done = supdocnade("serve", tmp_path, "--host", "0.0.0.0", "--port", 0)
    assert done.code == 1
    assert "a token must be set (SUPDOCNADE_TOKEN)" in done.err
    assert done.err.count("\n") == 1
    # With a token, the next error is that of the model.
    monkeypatch.setenv("SUPDOCNADE_TOKEN", "secret")
    done = supdocnade("serve", tmp_path, "--host", "0.0.0.0", "--port", 0)
    assert "model.json" in done.err


def test_missing_extra_is_message(monkeypatch, tmp_path):
    monkeypatch.setattr(serve, "REQUIRED", ("no_such_package",))
    done = supdocnade("serve", tmp_path)
    assert done.code == 1
    assert install_command("serve") in done.err
    assert "no_such_package" in done.err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--port", "70000", "--port"),
        ("--queue", "2", "--queue must be at least --max-images, 32, got 2"),
        ("--max-images", "500", "--queue must be at least --max-images, 500, got 256"),
        ("--timeout", "0", "--timeout"),
        ("--max-megabytes", "inf", "--max-megabytes"),
        ("--max-megapixels", "inf", "--max-megapixels"),
        ("--token", "a b", "token"),
    ],
)
def test_invalid_options_are_refused(tmp_path, option, value, message):
    done = supdocnade("serve", tmp_path, option, value)
    assert done.code in (1, 2)
    assert message in done.err

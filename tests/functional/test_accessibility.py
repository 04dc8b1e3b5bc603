"""The page for everyone: axe's rules in every view, the keyboard alone, and what is read aloud."""

import pytest
from tests.browser import BAD, PHONE, expect, files, launched, needs_a_browser, opened, served

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

pytestmark = needs_a_browser

SIZES = {"phone": PHONE, "desktop": {"viewport": {"width": 1280, "height": 900}}}
EXPLORE = ("#/explore", "#/explore/topic", "#/explore/word", "#/explore/tag")
ONE_OF_EACH = ("#/explore/class/coast", "#/explore/word/3", "#/explore/tag/tree")
GALLERY = ("#/gallery", "#/gallery?tag=tree", "#/gallery/2")
MOST_TABS = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("page")) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.fixture
def page(browser, server):
    with opened(browser, server, **SIZES["desktop"]) as page:
        yield page


def answers(page):
    """Have two answers, one with its heat map, one with photographs like it, and a bad file."""
    page.set_input_files("#files", [*files(0, 9), BAD])
    expect(page.locator(".answer")).to_have_count(2)
    page.locator(".tags button").first.click()
    expect(page.locator(".picture canvas").first).to_be_visible()
    page.get_by_role("button", name="More like this").first.click()
    expect(page.locator(".like .photo-grid li")).to_have_count(12)


def go(page, address):
    page.evaluate("address => { location.hash = address; }", address)
    expect(page.locator("main > section:visible h1")).to_be_focused()


def violations(page):
    """Return what axe finds wrong: its rules for WCAG A and AA, and what is good practice."""
    return [
        (each["id"], [node["html"] for node in each["nodes"]])
        for each in axe.Axe().run(page).response["violations"]
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong_in_any_view(browser, server, scheme, size):
    options = {"color_scheme": scheme, "reduced_motion": "reduce", **SIZES[size]}
    with opened(browser, server, **options) as page:
        found = {"no photographs": violations(page)}
        answers(page)
        found["photographs"] = violations(page)
        for address in (*EXPLORE, *ONE_OF_EACH, *GALLERY):
            go(page, address)
            found[address] = violations(page)
        page.goto(f"{server}docs")
        expect(page.locator(".op").first).to_be_visible()
        found["docs"] = violations(page)
    assert {view: wrong for view, wrong in found.items() if wrong} == {}


def test_axe_finds_what_is_wrong(page):
    """So that nothing found means that nothing is there."""
    page.evaluate("document.getElementById('photographs-heading').style.color = '#ddd'")
    page.evaluate("document.querySelector('.brand img').removeAttribute('alt')")
    assert {each for each, _ in violations(page)} == {"color-contrast", "image-alt"}


def test_axe_finds_nothing_wrong_where_a_token_is_asked_for(browser, tmp_path):
    with served(tmp_path, "--token", "secret") as url:
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme)
            page = context.new_page()
            page.goto(url)
            expect(page.get_by_role("dialog")).to_be_visible()
            assert violations(page) == []
            page.keyboard.type("wrong")
            page.keyboard.press("Enter")
            expect(page.locator("#token-problem")).to_be_visible()
            assert violations(page) == []
            context.close()


def tab_to(page, locator):
    """Press Tab until something has the focus, which must be seen."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if locator.evaluate("element => element === document.activeElement"):
            outlined = "element => getComputedStyle(element).outlineStyle"
            shown = (
                locator if locator.get_attribute("type") != "file" else page.locator(".drop label")
            )
            assert shown.evaluate(outlined) != "none"
            return
    raise AssertionError(f"{locator} is not reached by Tab")


def test_every_view_is_used_by_the_keyboard_alone(page):
    keys = page.keyboard
    # From the first key on: the browser takes a moment to hand its dialogs over.
    page.on("filechooser", lambda chooser: chooser.set_files(files(0, 9)))
    tab_to(page, page.locator("#files"))
    keys.press("Space")
    expect(page.locator(".answer")).to_have_count(2)
    tab_to(page, page.locator(".chances button").first)
    keys.press("Space")
    expect(page.locator(".picture canvas").first).to_be_visible()
    tab_to(page, page.locator(".tags button").first)
    keys.press("Enter")
    expect(page.locator(".tags button").first).to_have_attribute("aria-pressed", "true")
    tab_to(page, page.get_by_role("button", name="More like this").first)
    keys.press("Enter")
    expect(page.locator(".like .photo-grid li")).to_have_count(12)
    tab_to(page, page.get_by_role("button", name="Remove 9.jpg"))
    keys.press("Enter")
    expect(page.locator(".result")).to_have_count(1)
    expect(page.get_by_role("button", name="Remove 0.jpg")).to_be_focused()
    tab_to(page, page.get_by_role("link", name="Explore", exact=True))
    keys.press("Enter")
    expect(page.locator("#explore h1")).to_be_focused()
    tab_to(page, page.locator(".kinds a", has_text="Tags"))
    keys.press("Enter")
    expect(page.locator(".tag-rows")).to_be_visible()
    tab_to(page, page.locator(".tag-rows a", has_text="tree").first)
    keys.press("Enter")
    expect(page.locator("#explore h1")).to_have_text("tree")
    tab_to(page, page.get_by_role("link", name="Gallery", exact=True))
    keys.press("Enter")
    expect(page.locator("#gallery .photo-grid li")).to_have_count(24)
    tab_to(page, page.get_by_label("Class"))
    keys.type("forest")
    expect(page.locator("#gallery h1")).to_have_text("forest")
    tab_to(page, page.locator("#gallery .photo-grid a").first)
    keys.press("Enter")
    expect(page.locator("#gallery h2")).to_have_text("More like this")


@pytest.mark.parametrize("address", ["#/", EXPLORE[0], GALLERY[0]])
def test_the_keyboard_is_trapped_nowhere(page, address):
    """Tab goes through all of a view and leaves it, and comes back from the other side."""
    if address == "#/":
        answers(page)
    else:
        go(page, address)
    page.evaluate("document.activeElement.blur()")
    for key in ("Tab", "Shift+Tab"):
        seen = []
        while "BODY" not in seen[-1:]:
            page.keyboard.press(key)
            seen.append(page.evaluate("document.activeElement.tagName"))
            assert len(seen) < MOST_TABS, seen
        assert len(seen) > 8


def spoken(page):
    """Return what a screen reader has of the page: chromium's tree of accessible things."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        {
            "id": node["nodeId"],
            "role": node["role"]["value"],
            "name": node.get("name", {}).get("value", "").strip(),
            "children": node.get("childIds", []),
            **{each["name"]: each["value"].get("value") for each in node.get("properties", [])},
        }
        for node in nodes
        if not node.get("ignored")
    ]


def test_everything_that_takes_the_focus_and_every_picture_has_a_name(page):
    answers(page)
    for address in ("#/", *EXPLORE, *ONE_OF_EACH, *GALLERY):
        if address != "#/":
            go(page, address)
        nodes = spoken(page)
        controls = [
            each for each in nodes if each.get("focusable") and each["role"] != "RootWebArea"
        ]
        # The contents as a whole take the focus from the link that skips to them.
        nameless = [each for each in controls if not each["name"] and each["role"] != "main"]
        assert nameless == [], address
        assert len(controls) > 8
        pictures = [each for each in nodes if each["role"] in ("image", "img", "Canvas")]
        assert [each for each in pictures if not each["name"]] == [], address


def test_names_say_what_things_are_and_what_they_do(page):
    answers(page)
    named = {(each["role"], each["name"]) for each in spoken(page)}
    tag = page.locator(".tags button").first
    shown = tag.locator("bdi").inner_text()
    for expected in (
        ("link", "Skip to the contents"),
        ("navigation", "Views"),
        ("heading", "What is in your photographs?"),
        ("article", "0.jpg"),
        ("button", "Remove notes.jpg"),
        ("button", "Remove all"),
        ("image", f"Bright parts spoke for {shown}, dark parts against it."),
    ):
        assert expected in named, sorted(named)
    pressed = [each["name"] for each in spoken(page) if each.get("pressed") == "true"]
    assert pressed == [f"{shown} {tag.locator('small').inner_text()}"]


def announced(page):
    """Return the text of the region that is read aloud as it changes."""
    nodes = spoken(page)
    (region,) = [each for each in nodes if each["role"] == "status"]
    assert (region["live"], region["atomic"]) == ("polite", True)
    texts = {each["id"]: each["name"] for each in nodes}
    return " ".join(texts.get(child, "") for child in region["children"])


def test_what_happens_is_read_aloud(page):
    page.set_input_files("#files", files(0))
    label = page.locator(".answer bdi")
    expect(label).to_be_visible()
    assert announced(page).startswith(f"0.jpg: {label.inner_text()}, ")
    page.locator(".tags button").first.click()
    expect(page.locator(".picture canvas")).to_be_visible()
    assert announced(page).startswith("Bright parts spoke for ")
    page.locator(".tags button").first.click()
    assert announced(page) == "The photograph without colours."
    page.set_input_files("#files", [BAD])
    expect(page.locator(".result .problem")).to_be_visible()
    assert announced(page) == "notes.jpg: notes.jpg is no image of a known format."
    page.get_by_role("button", name="Remove notes.jpg").click()
    assert announced(page) == "notes.jpg removed."
    page.get_by_role("button", name="Remove all").click()
    assert announced(page) == "All photographs removed."
    go(page, "#/gallery")
    assert announced(page) == "24 photographs."

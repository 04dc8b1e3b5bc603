"""Accessibility of the page: the rules of axe, the keyboard, and screen readers."""

import pytest
from tests.browser import (
    BAD_FILE,
    PHONE,
    expect,
    needs_a_browser,
    open_page,
    photo_files,
    run_page_server,
)

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

pytestmark = needs_a_browser

SIZES = {"phone": PHONE, "desktop": {"viewport": {"width": 1280, "height": 900}}}
EXPLORE = ("#/explore", "#/explore/topic", "#/explore/tag")
ONE_OF_EACH = ("#/explore/class/coast", "#/explore/tag/tree")
GALLERY = ("#/gallery", "#/gallery?tag=tree", "#/gallery/2")
CORRECTIONS = ("#/corrections",)
MAX_TABS = 300


@pytest.fixture
def page(browser, server):
    with open_page(browser, server, **SIZES["desktop"]) as page:
        yield page


def show_predictions(page):
    """Show two predictions, one with a heatmap and one with similar photographs, and an error."""
    page.set_input_files("#files", [*photo_files(0, 9), BAD_FILE])
    expect(page.locator(".prediction")).to_have_count(2)
    page.locator(".tags button").first.click()
    expect(page.locator(".picture canvas").first).to_be_visible()
    page.get_by_role("button", name="More like this").first.click()
    expect(page.locator(".similar .photo-grid li")).to_have_count(12)
    page.get_by_role("button", name="Correct").first.click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".kept")).to_be_visible()
    page.get_by_role("button", name="Correct").click()
    expect(page.get_by_role("form", name="Correct 9.jpg")).to_be_visible()


def go_to(page, address):
    page.evaluate("address => { location.hash = address; }", address)
    expect(page.locator("main > section:visible h1")).to_be_focused()


def violations(page):
    """Return the violations of the rules of axe for WCAG A and AA and best practices."""
    return [
        (each["id"], [node["html"] for node in each["nodes"]])
        for each in axe.Axe().run(page).response["violations"]
    ]


@pytest.mark.parametrize(("scheme", "size"), [("light", "desktop"), ("dark", "phone")])
def test_axe_finds_no_violation_in_any_view(browser, server, scheme, size):
    options = {"color_scheme": scheme, "reduced_motion": "reduce", **SIZES[size]}
    with open_page(browser, server, **options) as page:
        found = {"no photographs": violations(page)}
        show_predictions(page)
        found["photographs"] = violations(page)
        for address in (*EXPLORE, *ONE_OF_EACH, *GALLERY, *CORRECTIONS):
            go_to(page, address)
            found[address] = violations(page)
        page.goto(f"{server}docs")
        expect(page.locator(".operation").first).to_be_visible()
        found["docs"] = violations(page)
    assert {view: wrong for view, wrong in found.items() if wrong} == {}


def test_axe_finds_planted_violations(page):
    page.evaluate("document.getElementById('photographs-heading').style.color = '#ddd'")
    page.evaluate("document.querySelector('.brand img').removeAttribute('alt')")
    assert {each for each, _ in violations(page)} == {"color-contrast", "image-alt"}


def test_axe_finds_no_violation_in_the_token_dialog(browser, tmp_path):
    with run_page_server(tmp_path, token="secret") as url:
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
    """Press Tab until an element has the focus, which must be visible."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if locator.evaluate("element => element === document.activeElement"):
            outlined = "element => getComputedStyle(element).outlineStyle"
            shown = (
                locator if locator.get_attribute("type") != "file" else page.locator(".drop label")
            )
            assert shown.evaluate(outlined) != "none"
            return
    raise AssertionError(f"{locator} is not reached by Tab")


def test_every_view_works_by_keyboard(page):
    keys = page.keyboard
    # Set before the first key: the browser takes a moment to hand over its dialogs.
    page.on("filechooser", lambda chooser: chooser.set_files(photo_files(0, 9)))
    tab_to(page, page.locator("#files"))
    keys.press("Space")
    expect(page.locator(".prediction")).to_have_count(2)
    tab_to(page, page.locator(".probabilities button").first)
    keys.press("Space")
    expect(page.locator(".picture canvas").first).to_be_visible()
    tab_to(page, page.locator(".tags button").first)
    keys.press("Enter")
    expect(page.locator(".tags button").first).to_have_attribute("aria-pressed", "true")
    tab_to(page, page.get_by_role("button", name="More like this").first)
    keys.press("Enter")
    expect(page.locator(".similar .photo-grid li")).to_have_count(12)
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
    tab_to(page, page.locator("#filter-label"))
    keys.type("forest")
    expect(page.locator("#gallery h1")).to_have_text("forest")
    tab_to(page, page.locator("#gallery .pick").first)
    keys.press("Space")
    expect(page.locator("#gallery .review-bar")).to_be_visible()
    keys.press("Escape")
    keys.press("ArrowRight")
    expect(page.locator("#gallery .pick").nth(1)).to_be_focused()
    tab_to(page, page.locator("#gallery .photo-grid a").nth(1))
    keys.press("Enter")
    expect(page.locator("#gallery h2")).to_have_text("More like this")


@pytest.mark.parametrize("address", ["#/", EXPLORE[0], GALLERY[0]])
def test_keyboard_is_not_trapped(page, address):
    """Tab and Shift+Tab pass through a view and leave it."""
    if address == "#/":
        show_predictions(page)
    else:
        go_to(page, address)
    page.evaluate("document.activeElement.blur()")
    for key in ("Tab", "Shift+Tab"):
        focused = []
        while "BODY" not in focused[-1:]:
            page.keyboard.press(key)
            focused.append(page.evaluate("document.activeElement.tagName"))
            assert len(focused) < MAX_TABS, focused
        assert len(focused) > 8


def accessibility_tree(page):
    """Return the nodes of the accessibility tree of the browser, which screen readers use."""
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


def test_every_control_and_picture_has_a_name(page):
    show_predictions(page)
    for address in ("#/", *EXPLORE, *ONE_OF_EACH, *GALLERY):
        if address != "#/":
            go_to(page, address)
        nodes = accessibility_tree(page)
        controls = [
            each for each in nodes if each.get("focusable") and each["role"] != "RootWebArea"
        ]
        # The main element takes the focus from the skip link.
        unnamed = [each for each in controls if not each["name"] and each["role"] != "main"]
        assert unnamed == [], address
        assert len(controls) > 8
        pictures = [each for each in nodes if each["role"] in ("image", "img", "Canvas")]
        assert [each for each in pictures if not each["name"]] == [], address


def announced(page):
    """Return the text of the live region."""
    nodes = accessibility_tree(page)
    (region,) = [each for each in nodes if each["role"] == "status"]
    assert (region["live"], region["atomic"]) == ("polite", True)
    texts = {each["id"]: each["name"] for each in nodes}
    return " ".join(texts.get(child, "") for child in region["children"])


def test_changes_are_announced(page):
    page.set_input_files("#files", photo_files(0))
    label = page.locator(".prediction bdi")
    expect(label).to_be_visible()
    assert announced(page).startswith(f"0.jpg: {label.inner_text()}, ")
    page.locator(".tags button").first.click()
    expect(page.locator(".picture canvas")).to_be_visible()
    assert announced(page).startswith("Bright areas support ")
    page.locator(".tags button").first.click()
    assert announced(page) == "The photograph without colours."
    page.set_input_files("#files", [BAD_FILE])
    expect(page.locator(".result .problem")).to_be_visible()
    assert announced(page) == "notes.jpg: notes.jpg is not an image that can be read."
    page.get_by_role("button", name="Remove notes.jpg").click()
    assert announced(page) == "notes.jpg removed."
    page.get_by_role("button", name="Remove all").click()
    assert announced(page) == "All photographs removed."
    go_to(page, "#/gallery")
    assert announced(page) == "24 photographs."

"""The page in a real browser: what people see and do, and what it must not do."""

import json
from pathlib import Path

import pytest
from tests.browser import BAD, PHONE, expect, files, launched, needs_a_browser, opened, served
from tests.drawn import CLASSES, small_model
from tests.serving import photograph

pytestmark = needs_a_browser


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
    with opened(browser, server) as page:
        yield page


@pytest.fixture
def phone(browser, server):
    with opened(browser, server, **PHONE) as page:
        yield page


def drop(page, given):
    """Drop files on the page as a hand does."""
    sent = [[each["name"], list(each["buffer"])] for each in given]
    transfer = page.evaluate_handle(
        """(files) => {
            const transfer = new DataTransfer();
            for (const [name, bytes] of files)
                transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/jpeg" }));
            return transfer;
        }""",
        sent,
    )
    page.dispatch_event("#drop", "dragover", {"dataTransfer": transfer})
    expect(page.locator("body")).to_have_class("over")
    page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})


def test_a_photograph_that_is_dropped_gets_its_answer(page):
    drop(page, files(0))
    said = next(iter(small_model().iter_predictions([photograph(0)])))
    card = page.locator(".result")
    expect(card.locator(".answer bdi")).to_have_text(said.label)
    expect(card.locator(".answer small")).to_have_text(f"{round(100 * said.probability)} %")
    expect(card.locator(".chances button")).to_have_count(len(CLASSES))
    expect(card.locator(".tags button bdi")).to_have_text([tag for tag, _ in said.tags])
    expect(page.locator("#status")).to_contain_text(said.label)
    assert page.evaluate("document.querySelector('.picture img').naturalWidth") == 128


def test_several_files_and_a_bad_one_each_get_their_own_card(page):
    page.set_input_files("#files", [*files(0, 9, 20), BAD])
    expect(page.locator(".result")).to_have_count(4)
    expect(page.locator(".answer")).to_have_count(3)
    names = page.locator(".result .file bdi").all_text_contents()
    assert names == ["0.jpg", "9.jpg", "20.jpg", "notes.jpg"]
    problem = page.locator(".result .problem")
    expect(problem).to_have_text("notes.jpg is no image of a known format.")
    page.get_by_role("button", name="Remove notes.jpg").click()
    expect(page.locator(".result")).to_have_count(3)
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator(".result")).to_have_count(0)


def test_photographs_that_are_removed_are_not_waited_for(page):
    held = []
    page.route(
        "**/v1/predict",
        lambda route: held.append(route) if len(held) < 3 else route.continue_(),
    )
    page.set_input_files("#files", files(0, 1, 2, 3))
    expect(page.locator(".result .waiting", has_text="Looking")).to_have_count(3)
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator(".result")).to_have_count(0)
    page.set_input_files("#files", files(4))
    expect(page.locator(".answer")).to_have_count(1)
    expect(page.locator(".result")).to_have_count(1)


def test_a_busy_server_is_not_asked_again_for_what_was_removed(browser, server):
    asked = []

    def busy(route):
        asked.append(route.request.url)
        body = json.dumps({"code": "overloaded", "detail": "busy."})
        route.fulfill(status=503, headers={"Retry-After": "5"}, body=body)

    with opened(browser, server) as page:
        page.clock.install()
        page.route("**/v1/predict", busy)
        page.set_input_files("#files", files(0, 1))
        expect(page.locator(".result .waiting", has_text="busy")).to_have_count(2)
        page.clock.fast_forward(5_000)
        expect(page.locator(".result .waiting", has_text="busy")).to_have_count(2)
        while len(asked) < 4:
            page.evaluate("0")
        page.get_by_role("button", name="Remove 0.jpg").click()
        page.get_by_role("button", name="Remove all").click()
        page.clock.fast_forward(60_000)
        page.evaluate("() => fetch('/healthz').then((answer) => answer.json())")
        expect(page.locator("#status")).to_have_text("All photographs removed.")
    assert len(asked) == 4


def test_a_photograph_can_be_pasted(page):
    page.evaluate(
        """(bytes) => {
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([new Uint8Array(bytes)], "", { type: "image/jpeg" }));
            document.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
        }""",
        list(photograph(3)),
    )
    expect(page.locator(".answer")).to_have_count(1)
    expect(page.locator(".result .file")).to_have_text("pasted image")


def test_a_class_or_a_tag_shows_its_heat_map_over_the_photograph(page):
    page.set_input_files("#files", files(0))
    label, tag = page.locator(".chances button").first, page.locator(".tags button").first
    heat, photo = page.locator(".picture canvas"), page.locator(".picture img")
    label.click()
    expect(heat).to_be_visible()
    expect(photo).to_be_hidden()
    expect(label).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".legend")).to_contain_text("spoke for")
    first = page.evaluate("document.querySelector('.picture canvas').toDataURL()")
    tag.click()
    expect(tag).to_have_attribute("aria-pressed", "true")
    expect(label).to_have_attribute("aria-pressed", "false")
    expect(heat).to_have_attribute("aria-label", sentence_about(tag))
    assert page.evaluate("document.querySelector('.picture canvas').toDataURL()") != first
    tag.click()
    expect(heat).to_be_hidden()
    expect(photo).to_be_visible()


def sentence_about(tag):
    return f"Bright parts spoke for {tag.locator('bdi').inner_text()}, dark parts against it."


def test_everything_is_done_by_keyboard_alone(page):
    page.on("filechooser", lambda chooser: chooser.set_files(files(0)))
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#files")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator(".answer")).to_have_count(1)
    page.locator("#files").focus()
    for _ in range(3):  # Remove all, remove this one, the first class.
        page.keyboard.press("Tab")
    expect(page.locator(".chances button").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".picture canvas")).to_be_visible()


def test_exploring_leads_from_classes_to_topics_words_tags_and_photographs(page, server):
    page.get_by_role("link", name="Explore").click()
    expect(page.locator("#explore h1")).to_have_text("What the model has learned")
    expect(page.locator("#explore h1")).to_be_focused()
    expect(page.locator("#explore .card")).to_have_count(len(CLASSES))
    page.locator(".card h2 a", has_text="coast").click()
    expect(page.locator("#explore h1")).to_have_text("coast")
    assert shown_pictures(page) >= 5
    page.locator("#explore .words a").first.click()
    expect(page.locator("#explore h1")).to_contain_text("Visual word")
    page.locator("#explore .field a").first.click()
    expect(page.locator("#explore h1")).to_contain_text("Topic")
    page.locator("#explore .tags a").first.click()
    expect(page.locator("#explore .eyebrow")).to_have_text("Tags")
    page.get_by_role("link", name="In the gallery").click()
    expect(page.locator("#gallery")).to_be_visible()
    page.go_back()
    expect(page.locator("#explore .eyebrow")).to_have_text("Tags")
    page.goto(f"{server}#/explore/class/nothing")
    expect(page.locator("#explore .problem")).to_be_visible()
    page.goto(f"{server}#/explore/toString")
    expect(page.locator("#explore .card")).to_have_count(len(CLASSES))


def test_what_topics_share_is_shown_once(page, server):
    for tag in small_model().tag_names_:
        page.goto(f"{server}#/explore/tag/{tag}")
        expect(page.locator("#explore h1")).to_have_text(tag)
        words = page.locator("#explore .words img").evaluate_all("all => all.map((i) => i.src)")
        assert len(set(words)) == len(words)


def shown_pictures(page):
    """Count pictures, all of which must have come."""
    pictures = page.locator("#explore img, #gallery img").filter(visible=True)
    for number in range(pictures.count()):
        expect(pictures.nth(number)).to_have_js_property("complete", True)
        assert pictures.nth(number).evaluate("image => image.naturalWidth") > 0
    return pictures.count()


def test_the_gallery_finds_photographs_with_a_tag_and_more_like_one(page):
    page.get_by_role("link", name="Gallery").click()
    expect(page.locator("#gallery .photo-grid li")).to_have_count(24)
    page.get_by_label("Class").select_option("forest")
    expect(page.locator("#gallery h1")).to_have_text("forest")
    expect(page.locator("#gallery .photo-grid li").first).to_contain_text("forest")
    page.locator("#gallery .photo-grid a").first.click()
    expect(page.locator("#gallery h2")).to_have_text("More like this")
    expect(page.locator("#gallery .photo-grid li")).to_have_count(23)
    assert shown_pictures(page) == 24
    page.locator("#gallery .tags a").first.click()
    expect(page.locator("#filter-tag")).not_to_have_value("")


def test_a_late_answer_does_not_replace_what_was_asked_for_since(page):
    held = []
    page.route("**/v1/gallery?label=forest*", lambda route: held.append(route))
    page.get_by_role("link", name="Gallery").click()
    page.get_by_label("Class").select_option("forest")
    page.get_by_label("Class").select_option("coast")
    expect(page.locator("#gallery h1")).to_have_text("coast")
    with page.expect_response("**/v1/gallery?label=forest*") as late:
        held[0].continue_()
    late.value.finished()
    # Once another answer was read, the late one was, too.
    page.evaluate("() => fetch('/healthz').then((answer) => answer.json())")
    expect(page.locator("#gallery h1")).to_have_text("coast")


def test_more_of_the_gallery_that_cannot_be_had_is_said_and_comes_once_when_asked_again(page):
    def few(route):
        if "offset" in route.request.url and not refused:
            refused.append(route.request.url)
            route.fulfill(status=500, body=json.dumps({"code": "x", "detail": "it broke."}))
        else:
            route.continue_(url=route.request.url.replace("limit=60", "limit=20"))

    refused = []
    page.route("**/v1/gallery?*", few)
    page.get_by_role("link", name="Gallery").click()
    more, shown = page.get_by_role("button", name="Show more"), page.locator("#gallery li")
    expect(shown).to_have_count(20)
    more.click()
    expect(page.locator("#gallery .problem")).to_have_text("it broke.")
    more.evaluate("button => { button.click(); button.click(); }")
    expect(shown).to_have_count(24)
    expect(more).to_be_hidden()
    expect(page.locator("#gallery .problem")).to_be_hidden()
    assert shown.count() == 24


def test_photographs_like_one_that_was_dropped_are_found(page):
    page.set_input_files("#files", files(5))
    page.get_by_role("button", name="More like this").click()
    near = page.locator(".like .photo-grid li")
    expect(near).to_have_count(12)
    expect(near.first).to_contain_text("05.jpg")


def test_a_phone_shows_all_of_it_without_scrolling_sideways(phone):
    phone.set_input_files("#files", files(0))
    phone.locator(".tags button").first.click()
    expect(phone.locator(".picture canvas")).to_be_visible()
    for address in (
        "#/",
        "#/explore",
        "#/explore/word",
        "#/explore/tag",
        "#/gallery",
        "#/gallery/2",
    ):
        phone.evaluate("address => { location.hash = address; }", address)
        expect(phone.locator("main > section:visible h1")).to_be_visible()
        wide = phone.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, (address, wide)


def test_a_busy_server_is_asked_again(page):
    refused = []

    def busy(route):
        if len(refused) < 2:
            refused.append(route.request.url)
            body = json.dumps({"code": "overloaded", "detail": "busy."})
            route.fulfill(status=503, headers={"Retry-After": "1"}, body=body)
        else:
            route.continue_()

    page.route("**/v1/predict", busy)
    page.set_input_files("#files", files(0))
    expect(page.locator(".result .waiting")).to_contain_text("busy")
    expect(page.locator(".answer")).to_have_count(1)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with served(tmp_path_factory.mktemp("guarded"), "--token", "secret") as url:
        yield url


def test_a_token_is_asked_for_and_then_known(browser, guarded):
    context = browser.new_context()
    page = context.new_page()
    page.goto(guarded)
    page.get_by_role("textbox", name="Token").fill("wrong")
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#token-problem")).to_have_text("That token is wrong.")
    page.get_by_role("textbox", name="Token").fill("secret")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("link", name="Gallery").click()
    expect(page.locator("#gallery .photo-grid li")).to_have_count(24)
    picture = page.locator("#gallery img").first
    expect(picture).to_have_js_property("complete", True)
    expect(picture).to_have_js_property("naturalWidth", 128)
    context.close()


def test_the_documents_describe_every_route(page, server):
    page.goto(f"{server}docs")
    expect(page.locator(".op").first).to_be_visible()
    described = page.locator(".op h3").all_text_contents()
    assert any("/v1/predict" in each for each in described)
    expect(page.locator("tr#overloaded td").first).to_have_text("503")
    expect(page.locator("#example")).to_have_text(f"curl -F images=@photo.jpg {server}v1/predict")


def test_the_example_has_a_token_where_one_is_asked_for(browser, guarded):
    page = browser.new_page()
    page.goto(f"{guarded}docs")
    told = page.locator("#example")
    expect(told).to_contain_text('curl -H "Authorization: Bearer $SUPDOCNADE_TOKEN" -F images')
    page.close()


def test_the_screenshot_in_the_readme_is_small():
    root = Path(__file__).parents[2]
    assert (root / "docs" / "page.png").stat().st_size < 300_000

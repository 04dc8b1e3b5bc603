"""The page in a real browser."""

import json

import pytest
from tests.browser import (
    BAD_FILE,
    PHONE,
    expect,
    needs_a_browser,
    open_page,
    photo_files,
    run_page_process,
    run_page_server,
)
from tests.scene_model import CLASSES, small_model
from tests.serving import photograph, tiff

pytestmark = needs_a_browser


@pytest.fixture
def page(browser, server):
    with open_page(browser, server) as page:
        yield page


@pytest.fixture
def phone(browser, server):
    with open_page(browser, server, **PHONE) as page:
        yield page


def drop(page, files):
    """Drop files on the page."""
    sent = [[each["name"], list(each["buffer"])] for each in files]
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
    expect(page.locator("body")).to_have_class("dragging")
    page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})


def test_dropped_photograph_gets_its_prediction(page):
    drop(page, photo_files(0))
    expected = next(iter(small_model().iter_predictions([photograph(0)])))
    card = page.locator(".result")
    expect(card.locator(".prediction bdi")).to_have_text(expected.label)
    expect(card.locator(".prediction small")).to_have_text(f"{round(100 * expected.probability)} %")
    expect(card.locator(".probabilities button")).to_have_count(len(CLASSES))
    expect(card.locator(".tags button bdi")).to_have_text([tag for tag, _ in expected.tags])
    expect(page.locator("#status")).to_contain_text(expected.label)
    assert page.evaluate("document.querySelector('.picture img').naturalWidth") == 128


def test_a_file_that_browsers_cannot_show_gets_a_preview(page):
    file = {"name": "scan.tif", "mimeType": "image/tiff", "buffer": tiff(photograph(0))}
    page.set_input_files("#files", [file, BAD_FILE])
    expect(page.locator(".prediction")).to_have_count(1)
    image = page.locator(".result", has_text="scan.tif").locator(".picture img")
    expect(image).to_have_js_property("naturalWidth", 128)
    page.locator(".result .tags button").first.click()
    expect(page.locator(".result canvas").first).to_be_visible()
    expect(page.locator(".no-preview")).to_have_text("This file cannot be displayed.")


def test_every_file_gets_its_own_card(page):
    page.set_input_files("#files", [*photo_files(0, 9, 20), BAD_FILE])
    expect(page.locator(".result")).to_have_count(4)
    expect(page.locator(".prediction")).to_have_count(3)
    names = page.locator(".result .file bdi").all_text_contents()
    assert names == ["0.jpg", "9.jpg", "20.jpg", "notes.jpg"]
    problem = page.locator(".result .problem")
    expect(problem).to_have_text("notes.jpg is not an image that can be read.")
    page.get_by_role("button", name="Remove notes.jpg").click()
    expect(page.locator(".result")).to_have_count(3)
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator(".result")).to_have_count(0)


def test_removed_photographs_are_not_waited_for(page):
    routes = []
    page.route(
        "**/v1/predict",
        lambda route: routes.append(route) if len(routes) < 3 else route.continue_(),
    )
    page.set_input_files("#files", photo_files(0, 1, 2, 3))
    expect(page.locator(".result .waiting", has_text="Predicting")).to_have_count(3)
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator(".result")).to_have_count(0)
    page.set_input_files("#files", photo_files(4))
    expect(page.locator(".prediction")).to_have_count(1)
    expect(page.locator(".result")).to_have_count(1)


def test_photograph_can_be_pasted(page):
    page.evaluate(
        """(bytes) => {
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([new Uint8Array(bytes)], "", { type: "image/jpeg" }));
            document.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
        }""",
        list(photograph(3)),
    )
    expect(page.locator(".prediction")).to_have_count(1)
    expect(page.locator(".result .file")).to_have_text("pasted image")


def test_class_or_tag_shows_its_heatmap(page):
    page.set_input_files("#files", photo_files(0))
    label, tag = page.locator(".probabilities button").first, page.locator(".tags button").first
    heat, photo = page.locator(".picture canvas"), page.locator(".picture img")
    label.click()
    expect(heat).to_be_visible()
    expect(photo).to_be_hidden()
    expect(label).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".legend")).to_contain_text("supports")
    first = page.evaluate("document.querySelector('.picture canvas').toDataURL()")
    tag.click()
    expect(tag).to_have_attribute("aria-pressed", "true")
    expect(label).to_have_attribute("aria-pressed", "false")
    expect(heat).to_have_attribute("aria-label", heatmap_label(tag))
    assert page.evaluate("document.querySelector('.picture canvas').toDataURL()") != first
    tag.click()
    expect(heat).to_be_hidden()
    expect(photo).to_be_visible()
    others = page.get_by_label("Explain a tag that was not given")
    others.select_option(index=1)
    expect(page.locator(".decision")).to_contain_text("not given, a tag needs")
    expect(tag).to_have_attribute("aria-pressed", "false")
    label.click()
    expect(others).to_have_value("")
    expect(page.locator(".decision")).to_contain_text(label.locator("span").inner_text())


def heatmap_label(tag):
    return f"Bright areas support {tag.locator('bdi').inner_text()}, dark areas oppose it."


def test_explore_links_classes_topics_tags_and_photographs(page, server):
    page.get_by_role("link", name="Explore").click()
    expect(page.locator("#explore h1")).to_have_text("What the model has learned")
    expect(page.locator("#explore h1")).to_be_focused()
    expect(page.locator("#explore .card")).to_have_count(len(CLASSES))
    page.locator(".card h2 a", has_text="coast").click()
    expect(page.locator("#explore h1")).to_have_text("coast")
    assert count_pictures(page) == 5
    page.locator("#explore .field a").first.click()
    expect(page.locator("#explore h1")).to_contain_text("Topic")
    page.locator("#explore [aria-label=Tags] a").first.click()
    expect(page.locator("#explore .eyebrow")).to_have_text("Tags")
    page.get_by_role("link", name="In the gallery").click()
    expect(page.locator("#gallery")).to_be_visible()
    page.go_back()
    expect(page.locator("#explore .eyebrow")).to_have_text("Tags")
    page.goto(f"{server}#/explore/class/nothing")
    expect(page.locator("#explore .problem")).to_be_visible()
    page.goto(f"{server}#/explore/toString")
    expect(page.locator("#explore .card")).to_have_count(len(CLASSES))


def count_pictures(page):
    """Return the number of visible pictures, all of which must have loaded."""
    pictures = page.locator("#explore img, #gallery img").filter(visible=True)
    for number in range(pictures.count()):
        expect(pictures.nth(number)).to_have_js_property("complete", True)
        assert pictures.nth(number).evaluate("image => image.naturalWidth") > 0
    return pictures.count()


def test_gallery_filters_and_finds_similar_photographs(page):
    page.get_by_role("link", name="Gallery").click()
    expect(page.locator("#gallery .photo-grid li")).to_have_count(24)
    page.locator("#filter-label").select_option("forest")
    expect(page.locator("#gallery h1")).to_have_text("forest")
    expect(page.locator("#gallery .photo-grid li").first).to_contain_text("forest")
    page.locator("#gallery .photo-grid a").first.click()
    expect(page.locator("#gallery h2")).to_have_text("More like this")
    expect(page.locator("#gallery .photo-grid li")).to_have_count(23)
    assert count_pictures(page) == 24
    expect(page.locator(".original code")).to_contain_text("/photos/")
    tag = page.locator("#gallery .tags a").first
    name = tag.locator("bdi").inner_text()
    tag.click()
    expect(page.locator("#gallery h1")).to_have_text(name)
    page.get_by_label("Add a tag").select_option(index=1)
    chosen = page.get_by_label("Chosen tags").get_by_role("button")
    expect(chosen).to_have_count(2)
    chosen.last.click()
    expect(chosen).to_have_count(1)
    page.get_by_label("Search").fill("xyzzy")
    page.keyboard.press("Enter")
    expect(page.locator("#gallery > p.soft")).to_contain_text("No matching photographs.")
    expect(page.get_by_label("Add a tag").locator("option")).to_have_count(1)
    page.get_by_label("Search").fill("05")
    page.keyboard.press("Enter")
    expect(page.locator("#gallery h1")).to_contain_text("05")
    page.get_by_role("button", name="Show less likely ones, too").click()
    expect(page.locator("#gallery .photo-grid li")).to_have_count(1)
    page.locator("#gallery .photo-grid a").click()
    page.get_by_role("link", name="Back to the search").click()
    expect(page.locator("#filter-words")).to_have_value("05")


def test_a_misspelt_search_offers_what_it_may_mean(page):
    page.get_by_role("link", name="Gallery").click()
    expect(page.locator("#gallery .photo-grid li")).to_have_count(24)
    known = page.locator("#known-words option").evaluate_all("all => all.map(each => each.value)")
    assert {*known} == {*CLASSES, *small_model().tag_names_}
    page.get_by_label("Search").fill("forrest")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="forest").click()
    expect(page.locator("#gallery h1")).to_have_text("forest")
    expect(page.locator("#gallery .photo-grid li").first).to_contain_text("forest")
    page.get_by_label("Search").fill("qqqqqqq")
    page.keyboard.press("Enter")
    expect(page.locator("#gallery > p.soft")).to_have_text("No matching photographs. ")
    expect(page.get_by_text("Did you mean")).to_have_count(0)


def test_a_photograph_of_the_gallery_is_explained_as_a_dropped_one(page, server):
    page.goto(f"{server}#/gallery/3")
    name = page.locator(".original code").inner_text().rpartition("/")[2]
    page.get_by_role("button", name="See why").click()
    expect(page.locator(".result .prediction")).to_have_count(1)
    expect(page.locator(".result .file")).to_contain_text(name)
    page.locator(".probabilities button").first.click()
    expect(page.locator(".picture canvas")).to_be_visible()


def test_many_photographs_are_small_cards_with_a_counter_and_a_table(page):
    page.set_input_files("#files", [*photo_files(0, 1, 2, 9, 20), BAD_FILE])
    expect(page.locator("#count")).to_have_text("6 photographs")
    card = page.locator("#results > li").first
    expect(card.locator(".probabilities")).to_be_hidden()
    assert page.locator("#results").bounding_box()["height"] < 900
    card.get_by_role("button", name="More").click()
    expect(card.locator(".probabilities")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    head, *rows = download.value.path().read_text("utf-8-sig").splitlines()
    assert head == "file,label,probability,tags"
    expected = list(small_model().iter_predictions([photograph(n) for n in (0, 1, 2, 9, 20)]))
    for number, row, each in zip((0, 1, 2, 9, 20), rows, expected, strict=True):
        tags = "|".join(tag for tag, _ in each.tags)
        assert row == f'"{number}.jpg","{each.label}","{each.probability:.4f}","{tags}"'


def test_a_dropped_folder_is_opened(page):
    page.evaluate(
        """() => {
            const file = (name, type) =>
                ({ isFile: true, name, file: (done) => done(new File([], name, { type })) });
            const folder = (name, ...inner) => ({ isDirectory: true, name, createReader: () => {
                const parts = [inner.slice(0, 1), inner.slice(1), []];
                return { readEntries: (done) => done(parts.shift()) };
            } });
            const tree = folder("a", file("1.jpg", "image/jpeg"), file("2.NEF", ""),
                file("notes.txt", "text/plain"), folder("inner", file("3.png", "image/png")),
                folder(".hidden", file("4.jpg", "image/jpeg")));
            const event = new Event("drop", { cancelable: true });
            const items = [{ webkitGetAsEntry: () => tree }];
            event.dataTransfer = { files: [new File([], "a")], items };
            document.dispatchEvent(event);
        }"""
    )
    expect(page.locator(".result")).to_have_count(3)
    assert page.locator(".result .file").all_inner_texts() == ["1.jpg", "2.NEF", "3.png"]


def test_show_more_reports_an_error_and_can_be_retried(page):
    def few(route):
        if "offset=20" in route.request.url and not refused:
            refused.append(route.request.url)
            route.fulfill(status=500, body=json.dumps({"code": "x", "detail": "it broke."}))
        else:
            route.continue_(url=route.request.url.replace("limit=60", "limit=20"))

    refused = []
    page.route("**/v1/gallery?*", few)
    page.get_by_role("link", name="Gallery").click()
    more, shown = page.get_by_role("button", name="Show more"), page.locator("#gallery li")
    problem = page.locator("#gallery .more .problem")
    expect(shown).to_have_count(20)
    more.scroll_into_view_if_needed()  # Then it loads more by itself.
    expect(problem).to_have_text("it broke.")
    expect(shown).to_have_count(20)
    more.evaluate("button => { button.click(); button.click(); }")
    expect(shown).to_have_count(24)
    expect(more).to_be_hidden()
    expect(problem).to_be_hidden()
    assert shown.count() == 24


@pytest.fixture
def reviewed(browser, tmp_path, monkeypatch):
    """The gallery of a server of its own, whose corrections and keywords can be changed."""
    monkeypatch.chdir(tmp_path)
    with run_page_server(tmp_path) as url, open_page(browser, url) as page:
        page.goto(f"{url}#/gallery")
        expect(page.locator("#gallery .photo-grid li")).to_have_count(24)
        yield page, tmp_path


def test_photographs_are_reviewed_by_keys(reviewed):
    page, folder = reviewed
    keys, boxes = page.keyboard, page.locator("#gallery .pick")
    items, bar = page.locator("#gallery .photo-grid li"), page.locator("#gallery .review-bar")
    boxes.first.focus()
    keys.press("a")
    expect(items.first).to_contain_text("✓ reviewed")
    keys.press("ArrowRight")
    keys.press("x")
    expect(items.nth(1).locator(".suggested")).to_have_text("no tags")
    keys.press("ArrowDown")
    keys.press("ArrowUp")
    expect(boxes.nth(1)).to_be_focused()
    expect(page.locator("#gallery > p.soft")).to_have_text("24 photographs, 2 reviewed. ")
    keys.press("u")
    expect(items.nth(1)).not_to_contain_text("reviewed")
    keys.press("Space")
    keys.press("ArrowRight")
    keys.press("Space")
    expect(bar.locator("b")).to_have_text("2 selected")
    bar.get_by_placeholder("Class").fill("harbour")
    keys.press("Enter")
    expect(items.nth(2).locator(".first bdi")).to_have_text("harbour")
    expect(bar).to_be_hidden()
    boxes.nth(2).check()
    bar.get_by_placeholder("Tag").fill(",")
    keys.press("Enter")  # Nothing is named.
    bar.get_by_placeholder("Tag").fill("gull")
    keys.press("Enter")
    expect(items.nth(2).locator(".suggested")).to_contain_text("gull")
    lines = [json.loads(each) for each in (folder / "corrections.jsonl").read_text().splitlines()]
    first, second, third = (
        [each for each in lines if each["file_name"].endswith(f"0{number}.jpg")]
        for number in range(3)
    )
    tags = [tag for tag, _ in next(small_model().iter_predictions([photograph(0)])).tags]
    assert [(each["label"], each["tags"]) for each in first] == [("coast", tags)]
    assert [each.get("tags") for each in second] == [[], None, None]
    assert third[0]["label"] == third[1]["label"] == "harbour"
    assert third[1]["judged"] == {"gull": True}
    page.locator("#filter-state").select_option("reviewed")
    expect(items).to_have_count(3)
    page.get_by_role("button", name="Select all shown").click()
    bar.get_by_role("button", name="Withdraw").click()
    expect(page.locator("#gallery > p.soft")).to_have_text("No matching photographs. ")


def test_a_wrong_tag_is_rejected_alone(reviewed):
    page, folder = reviewed
    page.locator("#filter-tag").select_option(index=1)
    expect(page.get_by_label("Chosen tags").get_by_role("button")).to_have_count(1)
    tag = page.locator("#gallery h1").inner_text()
    item = page.locator("#gallery .photo-grid li").first
    before = item.locator(".suggested").inner_text().split(", ")
    item.locator(".pick").check()
    page.get_by_role("button", name=f"Not {tag}").click()
    expect(item.locator(".suggested")).to_have_text(
        ", ".join(each for each in before if each != tag)
    )
    (line,) = (folder / "corrections.jsonl").read_text().splitlines()
    # The other tags stay suggestions, and the photograph is not reviewed.
    assert json.loads(line)["judged"] == {tag: False}
    assert json.loads(line).keys() == {"file_name", "judged"}
    expect(item).not_to_contain_text("reviewed")
    expect(item).to_contain_text(f"✗ {tag}")


def test_a_refused_correction_is_told_and_stays_selected(reviewed):
    page, _ = reviewed
    problem = json.dumps({"code": "not_kept", "detail": "the disk is full."})
    page.route("**/v1/corrections", lambda route: route.fulfill(status=507, body=problem))
    page.get_by_role("button", name="Select all shown").click()
    bar = page.locator("#gallery .review-bar")
    bar.get_by_role("button", name="Accept").click()
    expect(bar.locator(".problem")).to_have_text("the disk is full.")
    expect(bar.locator("b")).to_have_text("0 of 24 saved")


def test_photographs_that_leave_a_search_do_not_hide_others(reviewed):
    page, _ = reviewed
    page.route(
        "**/v1/gallery?*",
        lambda route: route.continue_(url=route.request.url.replace("limit=60", "limit=10")),
    )
    page.add_init_script("window.IntersectionObserver = class { observe() {} disconnect() {} };")
    page.reload()
    page.locator("#filter-state").select_option("unreviewed")
    items, more = page.locator("#gallery li"), page.get_by_role("button", name="Show more")
    expect(items).to_have_count(10)
    page.get_by_role("button", name="Select all shown").click()
    expect(page.locator("#gallery .pick").first).to_be_focused()
    page.keyboard.press("a")
    expect(page.locator("#gallery > p.soft")).to_have_text("14 photographs. ")
    for _ in range(2):
        more.click()
    expect(items).to_have_count(24)
    names = items.locator("a small").all_inner_texts()
    assert len({*names}) == 24


def test_accepted_tags_are_written_as_keywords_and_taken_back(reviewed):
    page, folder = reviewed
    page.locator("#gallery .pick").first.focus()
    page.keyboard.press("a")
    page.get_by_role("button", name="Write keywords").click()
    page.get_by_role("button", name="Write", exact=True).click()
    place = page.locator(".keywords")
    expect(place).to_contain_text("Wrote keywords of 1 photograph.")
    assert len([*folder.rglob("*.xmp")]) == 1
    place.get_by_role("button", name="Undo").click()
    expect(place).to_contain_text("Removed keywords of 1 photograph.")
    assert not [*folder.rglob("*.xmp")]
    page.get_by_role("button", name="Write keywords").click()
    page.get_by_role("button", name="Write", exact=True).click()
    expect(place).to_contain_text("Wrote keywords of 1 photograph.")
    page.reload()
    expect(place).to_contain_text("supdocnade tag --undo")
    place.get_by_role("button", name="Undo").click()
    expect(place).to_contain_text("Removed keywords of 1 photograph.")


def test_photographs_are_turned_by_arrow_keys_and_shown_as_they_are(reviewed):
    page, _ = reviewed
    page.locator("#filter-label").select_option("forest")
    expect(page.locator("#gallery h1")).to_have_text("forest")
    page.locator("#gallery .photo-grid a").first.click()
    expect(page.locator("#gallery h2")).to_have_text("More like this")
    first = page.locator(".original code").inner_text()
    expect(page.get_by_role("link", name="Previous")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".original code")).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".original code")).to_have_text(first)
    page.get_by_role("button", name="Show original").click()
    expect(page.get_by_role("button", name="Show original")).to_have_count(0)
    assert page.locator(".photo-detail img").get_attribute("src").endswith("/original")
    page.keyboard.press("a")
    expect(page.locator("#gallery .marks")).to_contain_text("reviewed")
    page.get_by_role("button", name="Correct").click()
    page.get_by_role("button", name="Remove").first.click()
    page.get_by_role("button", name="Save").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".original code")).not_to_have_text(first)
    page.get_by_role("link", name="Back to the search").click()
    expect(page.locator("#gallery h1")).to_have_text("forest")
    expect(page.locator("#gallery .photo-grid li").first).to_contain_text("✓ reviewed")


def test_a_search_is_saved_as_a_list_and_a_table(reviewed):
    page, folder = reviewed
    page.get_by_text("Date, camera, rating, order").click()
    page.locator("#filter-order").select_option("newest")
    expect(page.locator("#gallery > p.soft")).to_have_text("24 photographs, newest first. ")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save list").click()
    paths = download.value.path().read_text().splitlines()
    assert paths == [str(path) for path in sorted((folder / "photos").glob("*/*.jpg"))]
    with page.expect_download() as download:
        page.get_by_role("button", name="Save CSV").click()
    head, *rows = download.value.path().read_text("utf-8-sig").splitlines()
    assert head == "file,label,probability,tags,reviewed,taken,camera,rating"
    assert [row.split(",")[0] for row in rows] == [f'"{path}"' for path in paths]
    page.locator("#filter-since").fill("2024-01-01")
    expect(page.locator("#gallery > p.soft")).to_have_text("No matching photographs. ")


def test_dropped_photographs_are_filtered_and_reviewed(page):
    page.set_input_files("#files", photo_files(0, 1, 2, 9, 20))
    expect(page.locator("#count")).to_have_text("5 photographs")
    tags = {
        n: dict(p.tags)
        for n, p in zip(
            (0, 1, 2, 9, 20),
            small_model().iter_predictions([photograph(n) for n in (0, 1, 2, 9, 20)]),
            strict=True,
        )
    }
    tag = next(iter(tags[0]))
    page.locator("#show").select_option(f"tag {tag}")
    shown = page.locator("#results > li").filter(visible=True)
    expect(shown).to_have_count(sum(tag in some for some in tags.values()))
    page.locator("#show").select_option("")
    page.locator("#results .pick").first.focus()
    page.keyboard.press("a")
    expect(page.locator("#results .given").first).to_have_text(
        f"✓ reviewed: {', '.join(['coast', *tags[0]])}"
    )
    page.locator("#show").select_option("unreviewed")
    expect(shown).to_have_count(4)
    # What cannot be seen is not changed.
    page.locator("#results .pick").nth(1).focus()
    page.keyboard.press("Control+a")
    expect(page.locator("#photographs .review-bar b")).to_have_text("4 selected")
    page.locator("#show").select_option("unfamiliar")
    expect(page.locator("#photographs .review-bar")).to_be_hidden()
    page.locator("#show").select_option(f"tag {tag}")
    shown.first.locator(".pick").focus()
    page.keyboard.press("x")
    expect(shown.first.locator(".given")).not_to_contain_text(tag)


def test_photographs_similar_to_a_dropped_one_are_found(page):
    page.set_input_files("#files", photo_files(5))
    page.get_by_role("button", name="More like this").click()
    near = page.locator(".similar .photo-grid li")
    expect(near).to_have_count(12)
    expect(near.first).to_contain_text("05.jpg")
    expect(near.first).to_contain_text("the same photograph")
    expect(near.last).not_to_contain_text("the same photograph")


def test_phone_needs_no_horizontal_scrolling(phone):
    phone.set_input_files("#files", photo_files(0))
    phone.locator(".tags button").last.tap()
    expect(phone.locator(".picture canvas")).to_be_visible()
    expect(phone.locator(".tags button").last).to_be_in_viewport()
    expect(phone.locator(".result-body .voters li").first).to_be_attached()
    assert phone.locator(".result figure").bounding_box()["height"] < 844 / 2
    box = phone.locator(".picture canvas").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] < 844
    label = phone.locator(".probabilities button").first
    label.tap()
    expect(phone.locator(".decision")).to_contain_text(label.locator("bdi").inner_text())
    figure = phone.locator(".result figure").bounding_box()
    assert label.bounding_box()["y"] >= figure["y"] + figure["height"]
    for address in ("#/", "#/explore", "#/explore/tag", "#/gallery", "#/gallery/2"):
        phone.evaluate("address => { location.hash = address; }", address)
        expect(phone.locator("main > section:visible h1")).to_be_visible()
        width = phone.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, (address, width)


def test_busy_server_is_retried(page):
    refused = []

    def busy(route):
        if len(refused) < 2:
            refused.append(route.request.url)
            body = json.dumps({"code": "overloaded", "detail": "busy."})
            route.fulfill(status=503, headers={"Retry-After": "1"}, body=body)
        else:
            route.continue_()

    page.route("**/v1/predict", busy)
    page.set_input_files("#files", photo_files(0))
    expect(page.locator(".result .waiting")).to_contain_text("busy")
    expect(page.locator(".prediction")).to_have_count(1)


@pytest.fixture(scope="module")
def token_server(tmp_path_factory):
    with run_page_process(tmp_path_factory.mktemp("guarded"), "--token", "secret") as url:
        yield url


def test_token_is_requested_and_remembered(browser, token_server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(token_server)
    page.get_by_role("textbox", name="Token").fill("wrong")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#token-problem")).to_have_text("This token is wrong.")
    page.get_by_role("textbox", name="Token").fill("secret")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="Gallery").click()
    expect(page.locator("#gallery .photo-grid li")).to_have_count(24)
    picture = page.locator("#gallery img").first
    expect(picture).to_have_js_property("complete", True)
    expect(picture).to_have_js_property("naturalWidth", 128)
    context.close()


def test_docs_describe_every_route(page, server):
    page.goto(f"{server}docs")
    expect(page.locator(".operation").first).to_be_visible()
    described = page.locator(".operation h3").all_text_contents()
    assert any("/v1/predict" in each for each in described)
    expect(page.locator("tr#overloaded td").first).to_have_text("503")
    expect(page.locator("#example")).to_have_text(f"curl -F images=@photo.jpg {server}v1/predict")


def test_a_prediction_is_corrected_and_listed(page):
    page.set_input_files("#files", photo_files(0))
    page.get_by_role("button", name="Correct").click()
    form = page.get_by_role("form", name="Correct 0.jpg")
    expect(form.get_by_label("Class")).to_be_focused()
    form.get_by_label("Class").fill("beach")
    form.get_by_role("button", name="Remove").first.click()
    form.get_by_label("Add a tag").fill("dune")
    page.keyboard.press("Enter")
    expect(form.get_by_role("button", name="Remove dune")).to_be_visible()
    form.get_by_label("Add a tag").fill("gull")
    form.get_by_role("button", name="Save").click()
    kept = page.locator(".kept")
    expect(kept).to_contain_text("Saved: beach")
    expect(kept).to_contain_text("dune, gull")
    expect(page.get_by_role("button", name="Change")).to_be_focused()
    page.get_by_role("link", name="Corrections", exact=True).click()
    row = page.locator(".kept-list li")
    expect(row).to_contain_text("0.jpgbeach")
    page.get_by_role("button", name="Remove the correction of 0.jpg").click()
    expect(page.locator("#corrections")).to_contain_text("No corrections yet.")
    expect(row).to_have_count(0)


def test_a_photograph_of_the_gallery_is_corrected(page, server):
    page.goto(f"{server}#/gallery/2")
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("Class", exact=True).fill("harbour")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#gallery h1 bdi")).to_have_text("harbour")
    page.get_by_role("link", name="All of this class").click()
    expect(page.locator("#gallery .photo-grid li")).to_have_count(1)
    page.locator("#gallery .photo-grid a").click()
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("Class", exact=True).fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".kept")).to_be_visible()
    page.get_by_role("link", name="Corrections", exact=True).click()
    expect(page.locator("#corrections pre")).to_contain_text("--corrections")
    row = page.locator(".kept-list li")
    expect(row.locator(".kept-class")).to_have_count(0)
    expect(row.locator("small")).to_contain_text("/photos/coast/02.jpg")
    row.get_by_role("button").click()
    expect(row).to_have_count(0)


def test_a_correction_that_is_refused_stays_in_the_form(page):
    problem = json.dumps({"code": "not_kept", "detail": "the disk is full."})
    page.route("**/v1/corrections", lambda route: route.fulfill(status=507, body=problem))
    page.set_input_files("#files", photo_files(0))
    page.get_by_role("button", name="Correct").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".correction .problem")).to_have_text("the disk is full.")
    expect(page.get_by_role("button", name="Save")).to_be_enabled()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Correct")).to_be_focused()

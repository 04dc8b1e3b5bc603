from pathlib import Path

from tests.scene_model import small_model
from tests.serving import check_problem, make_client, photograph, upload_form


def test_gallery_is_filtered_by_class_and_tag(server):
    everything = server.get("/v1/gallery?limit=200").json()
    assert everything["total"] == len(everything["photographs"]) == 24
    page = server.get("/v1/gallery?limit=5&offset=20").json()
    assert page["photographs"] == everything["photographs"][20:]
    label = small_model().classes_[0]
    of_class = server.get("/v1/gallery", params={"label": label}).json()
    assert {each["label"] for each in of_class["photographs"]} == {label}
    tag = everything["photographs"][0]["tags"][0]["tag"]
    with_tag = server.get("/v1/gallery", params={"tag": tag.upper()}).json()
    assert 0 < with_tag["total"] <= 24
    probabilities = [
        next(each["probability"] for each in photograph["tags"] if each["tag"] == tag)
        for photograph in with_tag["photographs"]
    ]
    assert probabilities == sorted(probabilities, reverse=True)
    (other, *_) = with_tag["tags"]
    assert other["name"] != tag
    both = server.get("/v1/gallery", params={"tag": [tag, other["name"]], "words": "jpg"}).json()
    assert both["total"] == other["count"] > 0
    assert all(0 < each["match"] <= 1 for each in both["photographs"])
    assert sum(each["count"] for each in both["classes"]) == both["total"]
    nothing = server.get("/v1/gallery?words=xyzzy").json()
    assert (nothing["total"], nothing["tags"], nothing["classes"]) == (0, [], [])
    assert len(server.get("/v1/gallery", params={"label": label}).json()["classes"]) == 3
    check_problem(server.get("/v1/gallery?min_probability=2"), 422, "invalid_argument")
    check_problem(server.get("/v1/gallery?tag=nothing"), 422, "invalid_argument")
    check_problem(server.get("/v1/gallery?label=nothing"), 422, "invalid_argument")
    detail = check_problem(server.get("/v1/gallery/3/similar?top=4"), 422, "invalid_argument")
    assert detail == "there is no parameter 'top'; there are limit."
    check_problem(server.get("/v1/model?x"), 422, "invalid_argument")


def test_gallery_describes_a_photograph_and_those_similar_to_it(server):
    everything = server.get("/v1/gallery?limit=200").json()
    assert server.get("/v1/gallery/3").json() == everything["photographs"][3]
    original = Path(everything["photographs"][3]["path"])
    assert original.is_file()
    assert original.as_posix().endswith(everything["photographs"][3]["name"])
    similar = server.get("/v1/gallery/3/similar?limit=4").json()["photographs"]
    assert len(similar) == 4
    assert 3 not in [each["photograph"] for each in similar]
    check_problem(server.get("/v1/gallery/24"), 404, "not_found")
    check_problem(server.get("/v1/gallery/24/picture"), 404, "not_found")
    check_problem(server.get("/v1/gallery/-1/picture"), 422, "invalid_argument")


def test_server_without_a_gallery():
    with make_client() as client:
        assert client.get("/v1/model").json()["gallery"] is None
        for path in ("/v1/gallery", "/v1/gallery/0", "/v1/gallery/0/picture"):
            check_problem(client.get(path), 404, "no_gallery")
        similar = client.post("/v1/similar", files=upload_form(photograph(0)))
        check_problem(similar, 404, "no_gallery")


def test_every_link_of_the_overview_leads_somewhere(server):
    overview = server.get("/v1/explore").json()
    topics = {each["topic"] for each in overview["topics"]}
    tags = {each["tag"] for each in overview["tags"]}
    labels = {each["label"] for each in overview["classes"]}
    assert labels == set(small_model().classes_)
    assert tags == set(small_model().tag_names_)
    for each in (*overview["classes"], *overview["topics"]):
        assert {some["name"] for some in each["tags"]} <= tags
        assert all(some["share"] > some["elsewhere"] for some in each["tags"])
    for each in (*overview["classes"], *overview["tags"]):
        assert set(each["topics"]) <= topics
    for each in overview["tags"]:
        assert set(each["classes"]) <= labels
    for each in overview["topics"]:
        assert {some["name"] for some in each["classes"]} <= labels
    assert all(each["examples"] for each in overview["classes"])
    example = overview["classes"][0]["examples"][0]
    assert server.get(example["picture"]).content.startswith(b"\xff\xd8\xff")
    check_problem(server.get("/v1/examples/99999/picture"), 404, "not_found")

"""The page that people rate on, in headless Chromium; see conftest for the variable.

A page of the survey forbids eval, so that conditions are waited for from outside.
"""

import contextlib
import json
import os
from pathlib import Path

import pytest

from augless import survey
from augless.survey import exports, pages
from rated import PASSWORD, Served, answer_all, lines, made
from support import until

SIZES = {"desk": (1280, 900), "phone": (320, 640)}
SECRET = "window.hacked=1;alert(1)"


def payloads():
    """Return 200 texts that would run a script wherever a page takes text for HTML or code."""
    calls = [SECRET, "fetch('//x.invalid')", "document.title='hacked'", "(0,eval)('alert(1)')"]
    forms = [
        "<script>{}</script>",
        "</script><script>{}</script>",
        "<img src=x onerror={}>",
        '<img src=x onerror="{}">',
        "<svg onload={}>",
        "<svg><script>{}</script></svg>",
        "<svg><animate onbegin={} attributeName=x dur=1s>",
        "<body onload={}>",
        '<iframe src="javascript:{}"></iframe>',
        '<iframe srcdoc="<script>{}</script>"></iframe>',
        '<a href="javascript:{}">x</a>',
        "<input autofocus onfocus={}>",
        "<details open ontoggle={}>",
        "<video><source onerror={}>",
        "<marquee onstart={}>",
        '<object data="javascript:{}">',
        '<embed src="data:text/html,<script>{}</script>">',
        "<math><mtext><script>{}</script>",
        "<style>*{{background:url(javascript:{})}}</style>",
        '<link rel=stylesheet href="javascript:{}">',
        '<meta http-equiv=refresh content="0;javascript:{}">',
        "<base href=//x.invalid/><script>{}</script>",
        '<form action="javascript:{}"><button autofocus>',
        '"><script>{}</script>',
        "'><script>{}</script>",
        "' onmouseover={} x='",
        '" autofocus onfocus={} x="',
        "`-{}-`",
        "${{{}}}",
        "{{{{{}}}}}",
        "{{{{constructor.constructor('{}')()}}}}",
        "{{% raw %}}{}{{% endraw %}}",
        "';{}//",
        '";{}//',
        "\\u003cscript\\u003e{}\\u003c/script\\u003e",
        "&lt;script&gt;{}&lt;/script&gt;",
        "&#60;script&#62;{}&#60;/script&#62;",
        "%3Cscript%3E{}%3C/script%3E",
        "<scr\u0000ipt>{}</scr\u0000ipt>".replace("\u0000", "\u00ad"),
        "<ScRiPt >{}</sCrIpT>",
        "<!--<script>{}--></script>",
        "<![CDATA[<script>{}</script>]]>",
        '<noscript><p title="</noscript><script>{}</script>">',
        "<template><script>{}</script></template>",
        "<textarea><script>{}</script>",
        "<title></title><script>{}</script>",
        "<dialog open onclose={}><form method=dialog><button autofocus>",
        "[x](javascript:{})",
        "javascript:{}",
        "\u2028{}\u2029",
    ]
    texts = [form.format(call) for form in forms for call in calls]
    assert len({*texts}) == 200
    return texts


class Visit:
    """A page that is open, and all that it complained of or asked for."""

    def __init__(self, browser, url, size="desk", scheme="light", **options):
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **options
        )
        self.page = self.open(url)

    def open(self, url):
        self.complaints, self.requests = [], []
        page = self.context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)
        self.page = page
        return page

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def until_kept(self, url):
        """Wait until the browser has what the page stored: a page of its own sees it then."""
        stored = "JSON.stringify(localStorage)"
        other = self.context.new_page()
        other.goto(url)
        until(lambda: other.evaluate(stored) == self.page.evaluate(stored))
        other.close()

    def until(self, what, text=None):
        """Wait until something is seen, with a text if one is given."""
        from playwright.sync_api import expect

        element = self.page.locator(what)
        expect(element).to_be_visible(timeout=60_000)
        if text is not None:
            expect(element).to_contain_text(text, timeout=60_000)
        return element

    def start(self):
        self.until("#welcome")
        self.press("Enter")
        self.until("#rate")

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def at(self):
        """Return which text is shown, from 1."""
        return int(self.page.locator("#item-title").text_content().split()[1])

    def rate(self, *scores):
        """Rate by keyboard alone, and wait for the next text."""
        from playwright.sync_api import expect

        before = self.page.locator("#item-title").text_content()
        self.press(*map(str, scores), "Enter")
        title = self.page.locator("#item-title")
        expect(title).not_to_have_text(before, timeout=60_000)

    def chosen(self):
        """Return the ratings that are marked on the page."""
        boxes = self.page.locator("#scales fieldset").all()
        checked = [box.locator("input:checked") for box in boxes]
        return [int(one.get_attribute("value")) if one.count() else None for one in checked]

    def overflow(self):
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def link(here, annotator="a1"):
    return f"http://127.0.0.1:{here.port}/s/{here.token(annotator)}"


@pytest.fixture
def here(tmp_path):
    with Served(made(tmp_path / "s")) as served:
        yield served


@pytest.fixture
def shots(tmp_path):
    folder = Path(os.environ.get("AUGLESS_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# Rating


def test_ten_texts_are_rated_by_keyboard_and_the_next_visit_goes_on_there(browser, here):
    with Visit(browser, link(here)) as visit:
        visit.start()
        assert visit.at() == 1
        for number in range(10):
            visit.rate(1 + number % 5, 5 - number % 5)
        assert visit.at() == 11
        shown = visit.page.locator("#text").text_content()
        visit.page.close()
        page = visit.open(link(here))
        visit.until("#rate")
        assert visit.at() == 11 and page.locator("#text").text_content() == shown
        visit.until("#count", "10 of 48")
        assert visit.complaints == []
        assert {url.split("/")[2] for url in visit.requests if "data:" not in url} == {
            f"127.0.0.1:{here.port}"
        }
    kept = [answer.scores for answer in here.store.all()]
    assert kept == [(1 + k % 5, 5 - k % 5) for k in range(10)]
    assert all(0 < answer.seconds < 600 for answer in here.store.all())
    # Another one starts at the start, and sees nothing of it.
    with Visit(browser, link(here, "a2")) as visit:
        visit.start()
        assert visit.at() == 1 and visit.chosen() == [None, None]
        visit.until("#count", "0 of 48")


def test_undo_takes_back_a_rating_then_the_text_before(browser, here):
    with Visit(browser, link(here)) as visit:
        visit.start()
        visit.rate(4, 5)
        visit.press("2", "3")
        assert visit.chosen() == [2, 3]
        visit.press("Backspace")
        assert visit.chosen() == [2, None]
        visit.press("u")
        assert visit.chosen() == [None, None]
        visit.press("Backspace")
        visit.until("#item-title", "1 of")
        assert visit.chosen() == [4, 5]
        visit.press("1")  # keys rate it again, from the first question on
        assert visit.chosen() == [1, 5]
        visit.press("Enter")
        visit.until("#item-title", "2 of")
    assert [(one.scores, one.revision) for one in here.store.all()] == [((1, 5), 2)]


def test_enter_waits_for_all_ratings_and_stray_keys_do_nothing(browser, here):
    with Visit(browser, link(here)) as visit:
        visit.start()
        visit.press("Enter", "4", "Enter", "0", "6", "9", "x")
        assert visit.at() == 1 and visit.chosen() == [4, None]
        assert "relevance" in visit.page.locator("#status").text_content()
        visit.press("5", "5")  # one too many
        assert visit.chosen() == [4, 5]
        assert here.store.all() == []


def test_help_opens_on_a_question_mark_and_keys_do_not_rate_meanwhile(browser, here):
    with Visit(browser, link(here)) as visit:
        visit.start()
        visit.press("?")
        visit.until("#help", "Undo")
        visit.press("3")
        visit.press("?")
        assert not visit.page.locator("#help").is_visible()
        assert visit.chosen() == [None, None]
        visit.press("?")
        visit.until("#help", "not acceptable")
        visit.press("Escape")
        assert not visit.page.locator("#help").is_visible()


def test_a_mouse_and_the_tab_key_rate_too(browser, here):
    with Visit(browser, link(here), "phone") as visit:
        visit.until("#welcome")
        visit.page.click("#start")
        visit.until("#rate")
        visit.page.locator("#scales fieldset").nth(0).locator("label").nth(3).click()
        visit.page.locator("#scales fieldset").nth(1).locator("label").nth(1).click()
        assert visit.chosen() == [4, 2]
        visit.page.click("#next")
        visit.until("#item-title", "2 of")
        visit.press("Tab", "Space", "ArrowRight")  # the first radio button, and the next
        assert visit.chosen() == [2, None]
        visit.press("Tab", "Space")
        assert visit.chosen() == [2, 1]
    assert here.store.at("a1", 0).scores == (4, 2)


def test_the_tab_key_goes_through_the_page_in_its_order(browser, here):
    with Visit(browser, link(here)) as visit:
        visit.start()
        visit.press("1", "2")
        order = []
        for _ in range(4):
            visit.press("Tab")
            order.append(
                visit.page.evaluate("document.activeElement.name || document.activeElement.id")
            )
        assert order == ["scale-0", "scale-1", "undo", "next"]
        visit.press("Enter")
        visit.until("#item-title", "2 of")


def test_nothing_is_called_saved_before_it_is(browser, tmp_path):
    made_survey = made(tmp_path / "s")
    with contextlib.ExitStack() as stack:
        with Served(made_survey) as first:
            visit = stack.enter_context(Visit(browser, link(first)))
            visit.start()
            visit.rate(4, 4)
        visit.press("3", "2", "Enter")
        visit.until("#problem", "Not saved yet")
        assert visit.at() == 2
        visit.press("Backspace", "5")  # too late: it is on its way
        assert visit.chosen() == [3, 2]
    with made_survey.store() as kept:
        assert [answer.scores for answer in kept.all()] == [(4, 4)]


def test_two_windows_of_one_annotator_do_not_overwrite_each_other(browser, here):
    with Visit(browser, link(here)) as visit:
        visit.start()
        here.rate(0, [1, 1])  # as from another window
        visit.press("5", "5", "Enter")
        visit.until("#problem", "another window")
        visit.until("#item-title", "2 of")
    assert here.store.at("a1", 0).scores == (1, 1)


def test_the_end_says_thank_you_and_lets_one_look_back(browser, here):
    last = len(here.survey.design.annotators[0].order) - 1
    answer_all(here.survey, lambda *_: 3, upto=last)
    with Visit(browser, link(here)) as visit:
        visit.until("#rate")
        visit.press("2", "2", "Enter")
        visit.until("#finished", "Thank you")
        visit.until("#count", "48 of 48")
        visit.press("Backspace")
        visit.until("#item-title", "48 of")
        assert visit.chosen() == [2, 2]


def test_a_password_is_asked_for_in_the_page(browser, tmp_path):
    with Served(made(tmp_path / "s"), PASSWORD) as here, Visit(browser, link(here)) as visit:
        visit.until("#locked")
        visit.page.fill("#password", "a wrong one?")
        visit.press("Enter")
        visit.until("#problem", "not the password")
        visit.page.fill("#password", PASSWORD)
        visit.press("Enter")
        visit.start()
        visit.rate(1, 2)
    assert here.survey.answers()["a1"][0].scores == (1, 2)


# How it looks


def audit(visit):
    """Return what axe-core finds wrong; it is put in past the page's own policy."""
    from axe_playwright_python.sync_playwright import Axe

    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    results = Axe().run(visit.page, options={"runOnly": rules})
    return [
        (one["id"], [node["html"][:100] for node in one["nodes"]])
        for one in results.response["violations"]
    ]


@pytest.mark.parametrize(("size", "scheme"), [("desk", "light"), ("phone", "dark")])
def test_every_state_of_the_page_passes_an_audit(browser, here, shots, size, scheme):
    def looked_at(name):
        assert audit(visit) == [], name
        assert visit.overflow() <= 0, name
        visit.page.screenshot(path=shots / f"survey-{name}-{size}-{scheme}.png", full_page=True)

    with Visit(browser, link(here), size, scheme, bypass_csp=True) as visit:
        visit.until("#welcome")
        looked_at("welcome")
        visit.press("Enter")
        visit.until("#rate")
        visit.press("4")
        looked_at("rate")
        visit.press("5")
        looked_at("rated")
        visit.press("?")
        looked_at("help")


def test_an_offline_page_and_its_end_pass_an_audit(browser, here, tmp_path, shots):
    made_survey = here.survey
    path = tmp_path / "a1.html"
    path.write_bytes(
        pages.offline(made_survey.design, made_survey.id, made_survey.design.annotators[0])
    )
    with Visit(browser, path.as_uri(), "phone", bypass_csp=True) as visit:
        visit.until("#welcome")
        assert audit(visit) == []
        visit.press("Enter")
        for _ in made_survey.design.annotators[0].order:
            visit.press("3", "4", "Enter")
        visit.until("#finished")
        assert audit(visit) == [] and visit.overflow() <= 0
        visit.page.screenshot(path=shots / "survey-finished-phone.png")


@pytest.mark.parametrize("size", SIZES)
def test_text_from_right_to_left_and_long_words_stay_in_place(browser, tmp_path, shots, size):
    arabic = ["هل تحب القهوة في الصباح؟", "أين تقع أقرب محطة قطار؟"]
    hebrew = ["כן, אני אוהב קפה בבוקר.", "x" * 3000]
    options = survey.Options(
        items=2, annotators=("דנה",), languages=("ar", "he"), labels=("Message", "Reply")
    )
    design = survey.design({"a": hebrew}, arabic, None, options)
    made_survey = survey.Survey.create(tmp_path / "s", design)
    with Served(made_survey) as here, Visit(browser, link(here), size, bypass_csp=True) as visit:
        visit.start()
        for number in range(2):
            source, text = visit.page.locator("#source"), visit.page.locator("#text")
            assert source.evaluate("e => getComputedStyle(e).direction") == "rtl"
            latin = text.text_content().startswith("x")
            assert text.evaluate("e => getComputedStyle(e).direction") == (
                "ltr" if latin else "rtl"
            )
            assert (source.get_attribute("lang"), text.get_attribute("lang")) == ("ar", "he")
            assert visit.overflow() <= 0 and audit(visit) == []
            visit.page.screenshot(path=shots / f"survey-rtl-{number}-{size}.png")
            if number == 0:
                visit.rate(3, 3)


# Hostile text


def hacked(visit):
    """Return what a text did that only a script can do."""
    page = visit.page
    done = ["a script ran"] if page.evaluate("'hacked' in window") else []
    done += ["the title was changed"] if page.title() == "hacked" else []
    done += visit.complaints
    done += [url for url in visit.requests if not url.startswith(("data:", "file:", "blob:"))]
    strange = "#source *, #text *, #title *, #welcome-title *, img, iframe, object, embed, base"
    done += [f"{page.locator(strange).count()} elements"] * bool(page.locator(strange).count())
    return done


def test_two_hundred_payloads_stay_text_on_the_offline_page(browser, tmp_path):
    texts = payloads()
    options = survey.Options(
        items=len(texts),
        annotators=(texts[0][:80],),
        title=texts[4][:80],
        scales=(survey.Scale(texts[8][:80], texts[9]),),
        labels=(texts[12][:80], texts[16][:80]),
        instructions="\n\n".join(texts),
    )
    design = survey.design({"a": texts[::-1]}, texts, None, options)
    path = tmp_path / "a1.html"
    path.write_bytes(pages.offline(design, "0" * 16, design.annotators[0]))
    with Visit(browser, path.as_uri()) as visit:
        visit.until("#welcome")
        told = visit.page.locator("#welcome .told > p[dir]").all_text_contents()
        assert [one.strip() for one in told] == [one.strip() for one in texts]
        visit.press("Enter")
        seen = set()
        for _ in texts:
            seen.add(visit.page.locator("#text").text_content())
            assert visit.page.locator("#source").text_content() in texts
            visit.press("3", "Enter")
        visit.until("#finished")
        assert seen == {*texts}
        assert hacked(visit) == []


def xss_failed(browser, folder, texts):
    """Serve payloads as texts, names and titles; return what they did, and what was shown."""
    options = survey.Options(
        items=len(texts),
        annotators=(texts[0][:80],),
        title=texts[4][:80],
        labels=(texts[1][:80], texts[2][:80]),
        scales=(survey.Scale("wit", texts[3]),),
    )
    systems = {name[:80]: texts[::-1] for name in texts[:1]}
    kept = survey.Survey.create(folder, survey.design(systems, texts, None, options))
    with Served(kept) as here, Visit(browser, link(here)) as visit:
        home = f"http://127.0.0.1:{here.port}/"
        visit.start()
        seen = []
        for _ in texts[:-1]:
            seen.append(visit.page.locator("#text").text_content())
            visit.rate(3)
        seen.append(visit.page.locator("#text").text_content())
        visit.requests = [url for url in visit.requests if not url.startswith(home)]
        return hacked(visit), sorted(seen)


def test_payloads_stay_text_on_the_served_page(browser, tmp_path):
    some = payloads()[::8]
    did, seen = xss_failed(browser, tmp_path / "s", some)
    assert did == [] and seen == sorted(some)


def test_payloads_stay_text_on_the_page_of_the_tally(browser, tmp_path):
    names = list(dict.fromkeys(one[:80] for one in payloads() if one[:80].isprintable()))
    chosen = names[::3]
    systems = {name: lines(3, seed=k) for k, name in enumerate(chosen)}
    options = survey.Options(
        items=2,
        annotators=tuple(names[1::3]),
        title=chosen[0],
        scales=(survey.Scale(chosen[1], chosen[2]),),
    )
    kept = survey.Survey.create(
        tmp_path / "s", survey.design(systems, lines(3, seed=90), None, options)
    )
    answer_all(kept, lambda one, task, k: 1 + len(task.text) % 5, upto=4)
    path = exports.save(survey.tally(kept, resamples=100), tmp_path / "out")
    for one in (path, path.with_name("figure.svg")):
        with Visit(browser, one.as_uri()) as visit:
            visit.page.wait_for_load_state("load")
            assert visit.complaints == []
            assert {url for url in visit.requests if "data:" not in url} == {one.as_uri()}
            assert visit.page.locator("script, img, iframe, object, embed").count() == 0
            assert not visit.page.evaluate("'hacked' in window")


# Offline


def test_an_offline_page_goes_on_after_it_was_closed_and_gives_back_a_file(browser, tmp_path):
    made_survey = made(tmp_path / "s")
    (annotator, _) = made_survey.design.annotators
    path = tmp_path / "a1.html"
    path.write_bytes(pages.offline(made_survey.design, made_survey.id, annotator))
    with Visit(browser, path.as_uri()) as visit:
        visit.start()
        for number in range(4):
            visit.rate(1 + number, 5)
        visit.press("Backspace")
        visit.until("#item-title", "4 of")
        visit.press("2", "2", "Enter")
        visit.until("#item-title", "5 of")
        visit.until_kept(path.as_uri())
        visit.page.close()
        visit.open(path.as_uri())
        visit.until("#item-title", "5 of")
        with visit.page.expect_download() as download:
            visit.page.click("#save")
        assert download.value.suggested_filename == "ratings-a1.json"
        download.value.save_as(tmp_path / "back.json")
        assert visit.complaints == []
        assert {*visit.requests} <= {path.as_uri(), "data:,"} | {
            url for url in visit.requests if url.startswith("blob:")
        }
    made_survey.keep(tmp_path / "back.json")
    assert [one.scores for one in made_survey.answers()["a1"]] == [(1, 5), (2, 5), (3, 5), (2, 2)]
    # On another computer, the file goes on where it was.
    with Visit(browser, path.as_uri()) as visit:
        visit.until("#welcome")
        (tmp_path / "other.json").write_text(json.dumps({"survey": "x", "answers": []}))
        visit.page.set_input_files("#load", tmp_path / "other.json")
        visit.until("#problem", "no ratings of yours")
        visit.page.set_input_files("#load", tmp_path / "back.json")
        visit.until("#item-title", "5 of")


def test_the_page_of_the_tally_is_readable_everywhere(browser, tmp_path, shots):
    kept = made(tmp_path / "s", items=20, repeats=4, degraded=4)
    chance = iter(range(10**6))
    answer_all(kept, lambda one, task, k: 1 + next(chance) * 7 % 5)
    path = exports.save(survey.tally(kept, resamples=300), tmp_path / "out")
    for size, scheme in (("desk", "light"), ("phone", "dark")):
        with Visit(browser, path.as_uri(), size, scheme) as visit:
            assert visit.complaints == [] and visit.overflow() <= 0
            assert audit(visit) == []
            right = visit.page.locator("td").first.evaluate("e => getComputedStyle(e).textAlign")
            assert right == "right"  # it has the style of the reports
            visit.page.screenshot(path=shots / f"tally-{size}-{scheme}.png", full_page=True)
    with Visit(browser, path.with_name("figure.svg").as_uri()) as visit:
        visit.page.screenshot(path=shots / "tally-figure.png")

"""The page in headless Chromium; AUGLESS_SCREENSHOTS names a folder that keeps what it looks like.

AUGLESS_CHROMIUM names the browser if it is not on the path.
"""

import base64
import dataclasses
import os
from pathlib import Path

import pytest

from augless import reports
from augless.reports import answers
from synthetic import gather, hostile, plan_of, synthetic

SCREENS = ("desk", "phone")
SIZES = {"desk": (1200, 900), "phone": (390, 844), "paper": (673, 1000)}


@pytest.fixture(scope="module")
def trial():
    plan = plan_of(corpora=("toy-de-en", "multi30k"))
    return synthetic(plan, failed={("linear", 2)}, sentences=120)


@pytest.fixture(scope="module")
def path(trial, tmp_path_factory):
    return reports.report(gather(trial), tmp_path_factory.mktemp("report"))


class Visit:
    """A page that is open, and all that it complained of or asked for."""

    def __init__(self, browser, path, size, scheme="light", media="screen"):
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.page.emulate_media(media=media, color_scheme=scheme)
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = Path(path).resolve().as_uri()
        self.page.goto(self.url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.fixture
def shots(tmp_path):
    folder = Path(os.environ.get("AUGLESS_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SCREENS)
def test_the_page_renders(browser, path, trial, shots, size, scheme):
    with Visit(browser, path, size, scheme) as visit:
        page = visit.page
        assert visit.complaints == []
        assert [url for url in visit.requests if not url.startswith("data:")] == [visit.url]
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
        answer = page.locator("#answer")
        sentence = answers.of(gather(trial)).sentence
        assert answer.is_visible() and answer.inner_text() == sentence
        box = answer.bounding_box()
        assert box["y"] + box["height"] < SIZES[size][1], "the answer is not on the first screen"
        page.screenshot(path=shots / f"top-{size}-{scheme}.png")
        page.screenshot(path=shots / f"page-{size}-{scheme}.png", full_page=True, timeout=120_000)


def luminance(colour):
    numbers = [int(n) / 255 for n in colour.strip("rgb()").split(",")[:3]]
    linear = [n / 12.92 if n <= 0.04045 else ((n + 0.055) / 1.055) ** 2.4 for n in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# A colour as numbers: a canvas knows every way in which CSS writes one.
COLOURS = """([what, property]) => {
  const canvas = document.createElement("canvas").getContext("2d");
  const colours = new Set();
  for (const element of document.querySelectorAll(what)) {
    canvas.fillStyle = getComputedStyle(element)[property];
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
    colours.add(`rgb(${r}, ${g}, ${b})`);
  }
  return [...colours];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_words_stand_out_from_the_paper(browser, path, scheme):
    with Visit(browser, path, "desk", scheme) as visit:
        (paper,) = visit.page.evaluate(COLOURS, ["body", "backgroundColor"])
        kinds = [("svg .line", "stroke", 3.0), ("svg text.of", "fill", 4.5)]
        kinds += [("p, dd, td, li, h2", "color", 4.5), ("svg text", "fill", 3.4)]
        for what, property, least in kinds:
            for colour in visit.page.evaluate(COLOURS, [what, property]):
                low, high = sorted([luminance(paper), luminance(colour)])
                contrast = (high + 0.05) / (low + 0.05)
                assert contrast >= least, f"{what} in {colour} has {contrast:.2f} on {paper}"


def test_words_in_figures_do_not_run_out_of_them(browser, path):
    script = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
      const outer = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text")].filter(text => {
        const box = text.getBoundingClientRect();
        return box.left < outer.left - 3 || box.right > outer.right + 3
          || box.top < outer.top - 6 || box.bottom > outer.bottom + 3;
      }).map(text => text.textContent);
    })"""
    for size in SCREENS:
        with Visit(browser, path, size) as visit:
            assert visit.page.evaluate(script) == []


def test_nothing_on_a_phone_is_cut_off_that_cannot_be_scrolled_to(browser, path):
    # Whatever reaches over the edge must be within a box of its own that scrolls.
    script = """() => [...document.querySelectorAll("body *")].filter(element => {
      const box = element.getBoundingClientRect();
      if (!box.width || box.right <= window.innerWidth + 1 || element.closest("svg")) return false;
      return !element.closest(".scroll");
    }).map(element => element.outerHTML.slice(0, 80))"""
    with Visit(browser, path, "phone") as visit:
        visit.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert visit.page.evaluate(script) == []
        for label in visit.page.locator(".key label").all():
            box = label.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= SIZES["phone"][0]


def test_a_command_is_copied_by_its_button(browser, trial, tmp_path):
    command = "augless trial 'a plan' seeds=[1,2]"
    path = reports.report(gather(dataclasses.replace(trial, command=command)), tmp_path)
    with Visit(browser, path, "desk") as visit:
        visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
        button = visit.page.locator("button.copy").last
        button.click()
        visit.page.wait_for_function("e => e.textContent === 'Copied'", arg=button.element_handle())
        assert visit.page.evaluate("navigator.clipboard.readText()") == command
        assert visit.complaints == []


def test_a_method_can_be_hidden_without_a_script(browser, path):
    with Visit(browser, path, "desk") as visit:
        line = visit.page.locator("svg .line.of-4").first
        assert line.evaluate("e => getComputedStyle(e).opacity") == "1"
        visit.page.locator("#show-4").uncheck()
        visit.page.wait_for_function(
            "e => getComputedStyle(e).opacity < 0.2", arg=line.element_handle()
        )


def test_the_page_prints(browser, path, shots):
    with Visit(browser, path, "paper", media="print") as visit:
        page = visit.page
        page.screenshot(path=shots / "print.png", full_page=True, timeout=120_000)
        widths = page.evaluate(
            "[...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right)"
        )
        assert len(widths) > 4 and max(widths) <= SIZES["paper"][0]
        # What is drawn as a background is left out of print unless it asks not to be.
        for what in (".key input", "tbody th i", "mark"):
            kept = page.locator(what).first.evaluate("e => getComputedStyle(e).printColorAdjust")
            assert kept == "exact", what
        cell = page.locator("tbody th").first
        clear = "rgba(0, 0, 0, 0)"
        assert cell.evaluate("e => getComputedStyle(e).backgroundColor") == clear
        page.pdf(path=shots / "page.pdf", format="A4")
        assert (shots / "page.pdf").stat().st_size > 10_000
        assert visit.complaints == []


def test_print_is_dark_on_white_whatever_the_screen_is(browser, path):
    with Visit(browser, path, "paper", "dark", media="print") as visit:
        for what in ("body", "td", "svg text", ".answer b", ".better, .worse", "svg .line"):
            key = {"svg text": "fill", "svg .line": "stroke"}.get(what, "color")
            for colour in visit.page.evaluate(COLOURS, [what, key]):
                assert luminance(colour) < 0.35, f"{what} is printed in {colour}"
        (mark,) = visit.page.evaluate(COLOURS, ["mark", "backgroundColor"])
        assert luminance(mark) > 0.7


def test_a_table_of_many_columns_is_a_list_on_a_phone(browser, path):
    with Visit(browser, path, "phone") as visit:
        tables = visit.page.locator(".scroll:has(table.many)")
        assert tables.count() > 1
        for table in tables.all():
            width, whole = table.evaluate("e => [e.clientWidth, e.scrollWidth]")
            assert whole <= width
        column = tables.last.locator("td[data-head]").first
        head = column.evaluate("e => getComputedStyle(e, '::before').content")
        assert head == f'"{column.get_attribute("data-head")}"' != '""'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_that_goes_on_shows_it_at_its_side(browser, path, scheme):
    # How far the outermost columns of pixels are from the paper, at the left and the right.
    script = """async ([png, paper]) => {
      const picture = new Image();
      picture.src = "data:image/png;base64," + png;
      await picture.decode();
      const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
      canvas.drawImage(picture, 0, 0);
      return [1, picture.width - 2].map(x => {
        const pixels = canvas.getImageData(x, 0, 1, picture.height).data;
        const apart = [];
        for (let i = 0; i < pixels.length; i += 4) apart.push(Math.abs(pixels[i] - paper));
        return apart.sort((a, b) => a - b)[apart.length >> 1];
      });
    }"""
    with Visit(browser, path, "paper", scheme) as visit:
        page = visit.page
        (colour,) = page.evaluate(COLOURS, ["body", "backgroundColor"])
        paper = int(colour.strip("rgb()").split(",")[0])
        region = page.locator(".scroll[aria-label='Table: toy-de-en']").first
        width, whole = region.evaluate("e => [e.clientWidth, e.scrollWidth]")
        assert whole > width + 50
        sides = {}
        for place in (0, whole):
            region.evaluate("(e, place) => e.scrollLeft = place", place)
            png = base64.b64encode(region.screenshot()).decode()
            sides[place] = page.evaluate(script, [png, paper])
        assert sides[0][1] > 20 and sides[whole][1] < 4, sides


@pytest.mark.parametrize("size", SCREENS)
def test_hostile_text_stays_text(browser, tmp_path, size):
    with Visit(browser, reports.report(gather(hostile()), tmp_path), size) as visit:
        assert visit.complaints == []
        assert [url for url in visit.requests if not url.startswith("data:")] == [visit.url]
        assert visit.page.evaluate("document.querySelectorAll('script').length") == 1
        assert visit.page.evaluate("document.querySelectorAll('img').length") == 0
        wide = visit.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0

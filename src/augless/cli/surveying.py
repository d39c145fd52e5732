"""The verbs survey new, serve, export and tally."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from augless.cli import options, terminal
from augless.knobs import AtLeast, Within

if TYPE_CHECKING:
    from augless import survey

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, "The folder of a survey."]
PASSWORD = "AUGLESS_SURVEY_PASSWORD"
_PACE = 10.0  # seconds that a text takes, about


@app.callback()
def root() -> None:
    """Let people rate what systems wrote, blind; test the ratings.

    Examples:

      augless survey new --systems plain.en law.en --source test.de --reference test.en

      augless survey serve survey

      augless survey tally survey
    """


@options.verb(app)
def new(
    more: Annotated[list[str] | None, "More systems.", "[FILE]..."] = None,
    *,
    systems: Annotated[
        list[str] | None,
        "What systems wrote, line for line: FILE, or NAME=FILE; others may follow.",
        "FILE ...",
    ] = None,
    source: Annotated[Path | None, "What they were given."] = None,
    reference: Annotated[Path | None, "What a person wrote: rated too, as a hidden system."] = None,
    items: Annotated[int, "Lines to draw.", AtLeast(1)] = 200,
    scales: Annotated[
        list[str] | None,
        "fluency, relevance, adequacy, or NAME=QUESTION of your own; may come again. "
        "fluency,relevance if not given.",
    ] = None,
    annotators: Annotated[str, "How many, or their names: anna,ben."] = "5",
    repeats: Annotated[int, "Texts shown twice to each, for self-consistency.", AtLeast(0)] = 0,
    degraded: Annotated[int, "Degraded texts, to catch those who do not read.", AtLeast(0)] = 0,
    gold: Annotated[
        Path | None, 'Texts of known rating, a JSON object a line: source, text, "scores".'
    ] = None,
    title: Annotated[str, "What stands above the page."] = "Rating texts",
    labels: Annotated[str, "What source and text are called on the page."] = "Source,Text",
    languages: Annotated[str, "Of source and text, for screen readers: de,en."] = "",
    instructions: Annotated[Path | None, "Text that annotators read before they start."] = None,
    seed: Annotated[int, "Of the drawing and all orders."] = 1,
    out: Annotated[Path, "Where the survey is kept."] = Path("survey"),
    as_json: options.Json = False,
) -> None:
    """Make a survey: draw items and hide who wrote what.

    The texts are put into an order of its own for each annotator.

    Examples:

      augless survey new --systems plain.en law.en --source test.de --reference test.en

      augless survey new --systems A=a.txt B=b.txt --source q.txt --labels Message,Reply --items 50

      augless survey new --systems a.txt b.txt --source s.txt --repeats 10 --degraded 10
    """
    from augless import survey
    from augless.corpora import reading

    written = [*(systems or []), *(more or [])]
    if not written or source is None:
        raise survey.BadOptions(
            "give what systems wrote, and the source: --systems FILE --source FILE"
        )
    chosen = survey.Options(
        items=items,
        seed=seed,
        title=title,
        scales=survey.scales(scales or ["fluency,relevance"]),
        annotators=_annotators(annotators),
        repeats=repeats,
        degraded=degraded,
        gold=survey.gold(gold) if gold else (),
        labels=_two("--labels", labels),
        languages=_two("--languages", languages or ","),
        instructions="\n".join(reading.lines(instructions)) if instructions else "",
    )
    design = survey.design(
        _systems(written),
        list(reading.lines(source)),
        list(reading.lines(reference)) if reference else None,
        chosen,
    )
    made = survey.Survey.create(out, design)
    for note in survey.giveaways(design):
        terminal.say(note)
    terminal.result(as_json, _values(made), lambda: _said(design, _values(made)))


@options.verb(app)
def serve(
    folder: Folder,
    *,
    host: Annotated[
        str, "Where to listen; others than this machine need a password."
    ] = "127.0.0.1",
    port: Annotated[int, "0 takes a free one.", Within(0, 65535)] = 8470,
    url: Annotated[str | None, "What links start with, behind a proxy: https://a.org."] = None,
    password_file: Annotated[Path | None, f"Holds the password; else {PASSWORD} does."] = None,
    as_json: options.Json = False,
) -> None:
    """Serve the page to rate on; print each annotator's link.

    Examples:

      augless survey serve survey

      augless survey serve survey --host 0.0.0.0 --password-file secret.txt
    """
    from augless import survey
    from augless.corpora import reading

    try:
        from augless.survey import serving
    except ImportError as error:
        raise survey.BadOptions(
            f"serving needs the package {error.name}: pip install 'augless[survey]'\n"
            "or let people rate offline: augless survey export FOLDER --html"
        ) from None
    opened = survey.Survey.open(folder)
    password = os.environ.get(PASSWORD) or None
    if password_file is not None:
        password = next(reading.lines(password_file), "").strip()
    with opened.lock():
        address, listener = serving.bind(serving.Address(host, port, url), password)
        with listener, opened.store() as store:
            links = serving.links(opened, address)
            rows = [[f"  {terminal.visible(name)}", link] for name, link in links.items()]
            text = f"Give each annotator their own link:\n{terminal.table(rows, left=2)}"
            terminal.result(as_json, {"address": address.base, "links": links}, lambda: text)
            if not as_json:
                print("Ctrl-C stops; run the same command to resume.", file=sys.stderr)
            if address.public and address.base.startswith("http:"):
                terminal.say(
                    "others can read what is sent: there is no encryption; put a proxy with TLS "
                    "before it, and name its address with --url"
                )
            application = serving.Application(opened, store, address, password)
            try:
                serving.server(application).run(sockets=[listener])
            except KeyboardInterrupt:
                terminal.say("stopped; all that was rated is kept")


@options.verb(app)
def export(
    folder: Folder,
    *,
    html: Annotated[bool, "The page as one offline file for each annotator."] = False,
    csv: Annotated[bool, "All ratings so far as CSV."] = False,
    jsonl: Annotated[bool, "All ratings so far as JSON lines."] = False,
    out: Annotated[Path | None, "Where to write; else FOLDER/export."] = None,
    as_json: options.Json = False,
) -> None:
    """Write pages to rate on without a server, or the ratings so far.

    A page saves what was rated as a file; augless survey tally reads it.

    Examples:

      augless survey export survey --html

      augless survey export survey --csv --jsonl
    """
    from augless import storage, survey
    from augless.survey import pages, ratings

    if not (html or csv or jsonl):
        raise survey.BadOptions("say what to write: --html, --csv or --jsonl")
    opened = survey.Survey.open(folder)
    target = out or folder / "export"
    target.mkdir(parents=True, exist_ok=True)
    files, names = {}, {}
    for one in opened.design.annotators if html else ():
        names[f"{one.id}.html"] = terminal.visible(one.name)
        files[f"{one.id}.html"] = pages.offline(opened.design, opened.id, one)
    if csv:
        files["ratings.csv"] = ratings.csv(opened).encode()
    if jsonl:
        files["ratings.jsonl"] = ratings.jsonl(opened).encode()
    for name, content in files.items():
        storage.replace(target / name, content)
    rows = [[str(target / name), names.get(name, "")] for name in files]
    values = {"files": [path for path, _ in rows]}
    terminal.result(as_json, values, lambda: terminal.table(rows, left=2))


@options.verb(app)
def tally(
    folder: Folder,
    returned: Annotated[
        list[Path] | None, "Files that offline pages saved; kept in the folder from then on."
    ] = None,
    *,
    baseline: Annotated[str | None, "The system others are compared with; else the first."] = None,
    without: Annotated[list[str] | None, "An annotator who does not count; may come again."] = None,
    out: Annotated[Path | None, "Where to write; else FOLDER/tally."] = None,
    as_json: options.Json = False,
) -> None:
    """Count the ratings: means, tests, agreement, outliers.

    Writes a page, the table in Markdown and LaTeX, a figure, all ratings and a data sheet.

    Examples:

      augless survey tally survey

      augless survey tally survey ratings-a1.json ratings-a2.json

      augless survey tally survey --baseline CE --without "Annotator 3"
    """
    from augless import survey
    from augless.survey import exports

    opened = survey.Survey.open(folder)
    for path in returned or []:
        whose = opened.keep(path)
        terminal.say(f"{path} is kept: ratings of {whose.name}")
    with terminal.stage("counting"):
        counted = survey.tally(opened, baseline=baseline, without=without or ())
        page = exports.save(counted, out or folder / "tally")
    values = {"page": str(page), **exports.summary(counted)}
    terminal.result(as_json, values, lambda: f"{exports.text(counted)}\n{page}")


def _systems(written: Sequence[str]) -> dict[str, list[str]]:
    """Read the files of systems, each under the name that was given or that of its file."""
    from augless import survey
    from augless.corpora import reading

    systems: dict[str, list[str]] = {}
    for one in written:
        name, equals, path = one.partition("=")
        if not equals or Path(one).exists():
            name, path = Path(one).name, one
        if name in systems:
            raise survey.BadOptions(f"two systems are called {name!r}; name them: NAME={path}")
        systems[name] = list(reading.lines(Path(path)))
    return systems


def _annotators(written: str) -> tuple[str, ...]:
    if written.strip().isdecimal():
        return tuple(f"Annotator {k}" for k in range(1, min(int(written), 1_000) + 1))
    return tuple(part.strip() for part in written.split(",") if part.strip())


def _two(option: str, written: str) -> tuple[str, str]:
    from augless import survey

    parts = [part.strip() for part in written.split(",")]
    if len(parts) != 2:
        raise survey.BadOptions(f"{option} takes two, for source and text, parted by a comma")
    return parts[0], parts[1]


def _values(made: survey.Survey) -> dict[str, Any]:
    design = made.design
    return {
        "folder": str(made.folder),
        "id": made.id,
        "items": sum(item.line > 0 for item in design.items),
        "systems": list(design.systems),
        "scales": [scale.name for scale in design.scales],
        "annotators": {one.name: len(one.order) for one in design.annotators},
    }


def _said(design: survey.Design, values: Mapping[str, Any]) -> str:
    """Say what was drawn, how long it will take, and what to do next."""
    from augless.reports import words

    texts, folder = values["annotators"], values["folder"]
    longest = max(texts.values())
    return "\n".join(
        [
            f"{values['items']:,} items, drawn from {design.population:,} lines with seed "
            f"{design.seed}",
            f"systems: {', '.join(values['systems'])}",
            f"scales: {', '.join(values['scales'])}",
            f"{len(texts)} annotator{'s' * (len(texts) != 1)}, {longest:,} texts each: about "
            f"{words.duration(longest * _PACE)} at {_PACE:.0f} seconds a text",
            f"{folder}\nnext: augless survey serve {folder}",
        ]
    )

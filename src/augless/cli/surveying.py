"""The verbs survey new, serve, export and tally."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from augless.cli import options, terminal, writing

if TYPE_CHECKING:
    from augless import survey

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(help="The folder of a survey.")]
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


Systems = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE ...",
        help="What systems wrote, line for line: FILE, or NAME=FILE; others may follow.",
    ),
]
Scales = Annotated[
    list[str] | None,
    typer.Option(
        help="fluency, relevance, adequacy, or NAME=QUESTION of your own; may come again. "
        "fluency,relevance if not given."
    ),
]
Gold = Annotated[
    Path | None,
    typer.Option(help='Texts of known rating, a JSON object a line: source, text, "scores".'),
]
Instructions = Annotated[
    Path | None, typer.Option(help="Text that annotators read before they start.")
]
Repeats = Annotated[
    int, typer.Option(min=0, help="Texts shown twice to each, for self-consistency.")
]
Degraded = Annotated[int, typer.Option(min=0, help="Spoilt texts, to catch those who do not read.")]


@app.command()
def new(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="More systems.")
    ] = None,
    systems: Systems = None,
    source: Annotated[Path | None, typer.Option(help="What they were given.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="What a person wrote: rated too, as a hidden system.")
    ] = None,
    items: Annotated[int, typer.Option(min=1, help="Lines to draw.")] = 200,
    scales: Scales = None,
    annotators: Annotated[str, typer.Option(help="How many, or their names: anna,ben.")] = "5",
    repeats: Repeats = 0,
    degraded: Degraded = 0,
    gold: Gold = None,
    title: Annotated[str, typer.Option(help="What stands above the page.")] = "Rating texts",
    labels: Annotated[
        str, typer.Option(help="What source and text are called on the page.")
    ] = "Source,Text",
    languages: Annotated[
        str, typer.Option(help="Of source and text, for screen readers: de,en.")
    ] = "",
    instructions: Instructions = None,
    seed: Annotated[int, typer.Option(help="Of the drawing and all orders.")] = 1,
    out: Annotated[Path, typer.Option(help="Where the survey is kept.")] = Path("survey"),
    as_json: options.Json = False,
) -> None:
    """Make a survey: draw items, hide who wrote what, and order the texts for each annotator.

    Examples:

      augless survey new --systems plain.en law.en --source test.de --reference test.en

      augless survey new --systems A=a.txt B=b.txt --source q.txt --labels Message,Reply --items 50

      augless survey new --systems a.txt b.txt --source s.txt --repeats 10 --degraded 10
    """
    from augless import survey

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
        gold=_gold(gold) if gold else (),
        labels=_two("--labels", labels),
        languages=_two("--languages", languages or ","),
        instructions="\n".join(writing.lines(instructions)) if instructions else "",
    )
    design = survey.design(
        _systems(written),
        list(writing.lines(source)),
        list(writing.lines(reference)) if reference else None,
        chosen,
    )
    made = survey.Survey.create(out, design)
    for note in survey.giveaways(design):
        print(f"augless: {note}", file=sys.stderr)
    _say_made(made, as_json)


@app.command()
def serve(
    folder: Folder,
    host: Annotated[
        str, typer.Option(help="Where to listen; others than this machine need a password.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8470,
    url: Annotated[
        str | None, typer.Option(help="What links start with, behind a proxy: https://a.org.")
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option(help=f"Holds the password; else {PASSWORD} does.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Serve the page that people rate on, and print each annotator's own link.

    Examples:

      augless survey serve survey

      augless survey serve survey --host 0.0.0.0 --password-file secret.txt
    """
    from augless import survey

    try:
        from augless.survey import serving
    except ImportError as error:
        raise survey.BadOptions(
            f"serving needs the package {error.name}: pip install 'augless[survey]'\n"
            "or let people rate offline: augless survey export FOLDER --html"
        ) from None
    found = survey.Survey.open(folder)
    password = _password(password_file)
    with found.lock():
        address, listener = serving.bind(serving.Address(host, port, url), password)
        with listener, found.store() as store:
            links = serving.links(found, address)
            if as_json:
                print(terminal.as_json({"address": address.base, "links": links}), flush=True)
            else:
                print("Give each annotator their own link:")
                print(terminal.table([[f"  {_plain(k)}", v] for k, v in links.items()], left=2))
                sys.stdout.flush()
                print("Ctrl-C stops; the same command goes on.", file=sys.stderr)
            if address.public and address.base.startswith("http:"):
                print(
                    "augless: others can read what is sent: there is no encryption; put a proxy "
                    "with TLS before it, and name its address with --url",
                    file=sys.stderr,
                )
            application = serving.Application(found, store, address, password)
            try:
                serving.server(application).run(sockets=[listener])
            except KeyboardInterrupt:
                print("augless: stopped; all that was rated is kept", file=sys.stderr)


@app.command()
def export(
    folder: Folder,
    html: Annotated[
        bool, typer.Option("--html", help="The page as one offline file for each annotator.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="All ratings so far as CSV.")] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="All ratings so far as JSON lines.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write; else FOLDER/export.")] = None,
    as_json: options.Json = False,
) -> None:
    """Write pages to rate on without a server, or the ratings so far.

    A page saves what was rated as a file; augless survey tally reads it.

    Examples:

      augless survey export survey --html

      augless survey export survey --csv --jsonl
    """
    from augless import survey
    from augless.survey import pages, ratings
    from augless.survey.folder import write

    if not (html or csv or jsonl):
        raise survey.BadOptions("say what to write: --html, --csv or --jsonl")
    found = survey.Survey.open(folder)
    target = out or folder / "export"
    target.mkdir(parents=True, exist_ok=True)
    files = {}
    if html:
        for one in found.design.annotators:
            files[f"{one.id}.html"] = pages.offline(found.design, found.id, one)
    if csv:
        files["ratings.csv"] = ratings.csv(found).encode()
    if jsonl:
        files["ratings.jsonl"] = ratings.jsonl(found).encode()
    for name, content in files.items():
        write(target / name, content)
    if as_json:
        print(terminal.as_json({"files": [str(target / name) for name in files]}))
        return
    names = {f"{one.id}.html": one.name for one in found.design.annotators}
    rows = [[str(target / name), _plain(names.get(name, ""))] for name in files]
    print(terminal.table(rows, left=2))


@app.command()
def tally(
    folder: Folder,
    returned: Annotated[
        list[Path] | None,
        typer.Argument(help="Files that offline pages saved; kept in the folder from then on."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The system others are compared with; else the first.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="An annotator who does not count; may come again.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; else FOLDER/tally.")] = None,
    as_json: options.Json = False,
) -> None:
    """Count the ratings: means, tests, agreement, and whom to look at again.

    Writes a page, the table in Markdown and LaTeX, a figure, all ratings and a data sheet.

    Examples:

      augless survey tally survey

      augless survey tally survey ratings-a1.json ratings-a2.json

      augless survey tally survey --baseline CE --without "Annotator 3"
    """
    from augless import survey
    from augless.survey import exports

    found = survey.Survey.open(folder)
    for path in returned or []:
        whose = found.keep(path)
        print(f"augless: {path} is kept: ratings of {_plain(whose.name)}", file=sys.stderr)
    with terminal.Progress() as progress:
        progress("counting", 0, None)
        counted = survey.tally(found, baseline=baseline, without=without or ())
        page = exports.save(counted, out or folder / "tally")
        progress("counting", 1, 1)
    if as_json:
        print(terminal.as_json({"page": str(page), **exports.summary(counted)}))
        return
    print(exports.text(counted))
    print(page)


def _systems(written: Sequence[str]) -> dict[str, list[str]]:
    """Read the files of systems, each under the name that was given or that of its file."""
    from augless import survey

    found: dict[str, list[str]] = {}
    for one in written:
        name, equals, path = one.partition("=")
        if not equals or Path(one).exists():
            name, path = Path(one).name, one
        if name in found:
            raise survey.BadOptions(f"two systems are called {name!r}; name them: NAME={path}")
        found[name] = list(writing.lines(Path(path)))
    return found


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


def _gold(path: Path) -> tuple[survey.Gold, ...]:
    from augless import survey

    found = []
    for number, line in enumerate(writing.lines(path), 1):
        if line.strip():
            found.append(survey.parsed(survey.Gold, line, f"{path}, line {number}"))
    return tuple(found)


def _password(path: Path | None) -> str | None:
    if path is not None:
        return next(writing.lines(path), "").strip()
    return os.environ.get(PASSWORD) or None


def _say_made(made: survey.Survey, as_json: bool) -> None:
    design = made.design
    drawn = sum(item.line > 0 for item in design.items)
    texts = {one.name: len(one.order) for one in design.annotators}
    if as_json:
        content: dict[str, Any] = {
            "folder": str(made.folder),
            "id": made.id,
            "items": drawn,
            "systems": list(design.systems),
            "scales": [scale.name for scale in design.scales],
            "annotators": texts,
        }
        print(terminal.as_json(content))
        return
    longest = max(texts.values())
    hours = longest * _PACE / 3600
    spent = f"{hours:.1f} hours" if hours >= 1.5 else f"{60 * hours:.0f} minutes"
    print(f"{drawn:,} items, drawn from {design.population:,} lines with seed {design.seed}")
    print(f"systems: {', '.join(map(_plain, design.systems))}")
    print(f"scales: {', '.join(_plain(scale.name) for scale in design.scales)}")
    print(
        f"{len(texts)} annotator{'s' * (len(texts) != 1)}, {longest:,} texts each: "
        f"about {spent} at {_PACE:.0f} seconds a text"
    )
    print(f"{made.folder}\nnext: augless survey serve {made.folder}")


def _plain(text: str) -> str:
    """Return text that commands no terminal."""
    return text if text.isprintable() else json.dumps(text)

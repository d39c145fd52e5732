"""Back-translation, and round trips through another language."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from augless import corpora, runs, text
from augless.augmentation import draws, generating, pretrained
from augless.augmentation.augmenter import (
    MOVES,
    REVERSE,
    Augmenter,
    BadAugmentation,
    Context,
    Languages,
    Line,
    Move,
    Rewriter,
    Side,
    Wanted,
    require,
)
from augless.data import preparing
from augless.knobs import Among, Within

if TYPE_CHECKING:
    from augless import decoding

Translator = Callable[[Sequence[str], Sequence[draws.Key]], list[list[str]]]

_REVERSE_MODEL, _THERE, _BACK = "reverse model", "model there", "model back"


def _beam() -> Any:
    from augless import decoding

    return decoding.Beam()


@dataclass(frozen=True, kw_only=True)
class BackTranslation(Augmenter):
    """Translate the targets back into sources with a model of the reverse direction.

    The reverse model is a run, trained on the same pairs, sides swapped: the verb trains it if none
    is given. Of several copies, each is another hypothesis of the search.
    """

    run: Annotated[Path | None, "a trained run of the reverse direction; none: train one"] = None
    search: Annotated[Any, "how the reverse model searches", Among("decoding.SEARCHES")] = field(
        default_factory=_beam
    )
    mono: Annotated[Path | None, "a file of further target texts, one a line"] = None

    reverses: ClassVar[bool] = True

    @property
    def free(self) -> tuple[str, ...]:
        """Where the run and the file lie."""
        return ("run", "mono")

    @property
    def seeded(self) -> bool:
        """Tell whether the reverse model is to be trained, or draws its words."""
        return self.run is None or hasattr(self.search, "seed")

    @property
    def needs(self) -> dict[str, Wanted]:
        """Name the reverse model, if no run is given."""
        return {_REVERSE_MODEL: REVERSE} if self.run is None else {}

    def with_runs(self, folders: Mapping[str, Path]) -> BackTranslation:
        """Return the augmenter that translates with a run."""
        return dataclasses.replace(self, run=folders.get(_REVERSE_MODEL, self.run))

    @property
    def moves(self) -> tuple[Move, ...]:
        """The target is read, the source is written."""
        return ((1, 0),)

    def check(self, languages: Languages, trained: Mapping[str, Languages] | None = None) -> None:
        """Refuse a run of another direction, a search that cannot find as many, a lost file."""
        _check_copies(self.search, self.copies)
        if self.mono is not None:
            corpora.reading.check(self.mono)
        if self.run is not None:
            source, target = languages
            _check_run(self.run, target, source)

    def identity(self, context: Context) -> Any:
        """Return which model translates, and what is in the file of further texts."""
        mono = None if self.mono is None else corpora.reading.digest(self.mono).hex()
        return [None if self.run is None else _content(str(self.run), context), mono]

    def extra(self) -> Iterator[str]:
        """Stream the further target texts."""
        if self.mono is not None:
            for _, line in corpora.reading.numbered(self.mono, corpora.Tally()):
                if line.strip():
                    yield line

    @contextlib.contextmanager
    def open(self, context: Context) -> Iterator[Rewriter]:
        """Load the reverse model."""
        translate = _of_run(str(self.run), context, self.search, self.copies)
        yield lambda lines: translate([line.text for line in lines], [line.key for line in lines])


@dataclass(frozen=True, kw_only=True)
class RoundTrip(Augmenter):
    """Translate texts into another language and back, with two models.

    Each is a run of augless, a Hugging Face translation model by name or folder, or a recipe that
    is trained first: ``{recipe = "toy-de-en", corpus.languages = ["en", "de"]}``. Of several
    copies, each is another hypothesis of the way back.
    """

    there: Annotated[
        str | dict[str, Any],
        "a run, a translation model's name or folder, or a recipe: into the other language",
    ]
    back: Annotated[str | dict[str, Any], "the same for the way back"]
    side: Annotated[Side, "which side makes the trip"] = "both"
    size: Annotated[int, "hypotheses that are kept of each text", Within(1, 1000)] = 5
    prompts: Annotated[tuple[str, str], "what each Hugging Face model is asked; {text} stands"] = (
        "{text}",
        "{text}",
    )
    tokenised: Annotated[
        str, "language by whose Moses rules the corpus is tokenised already; none: it is not"
    ] = ""

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.size >= self.copies, "size", self.size, f"at least copies, {self.copies}")
        for prompt in self.prompts:
            require("{text}" in prompt, "prompts", repr(prompt), "a line with {text} in it")
        for knob, model in (("there", self.there), ("back", self.back)):
            named = isinstance(model, str) or isinstance(model.get("recipe"), str)
            form = 'a run, a model, or {recipe = "NAME"} and what to change in it'
            require(named, knob, model, form)

    @property
    def free(self) -> tuple[str, ...]:
        """Which models they are."""
        return ("there", "back")

    @property
    def seeded(self) -> bool:
        """Tell that nothing is drawn: beams decide."""
        return False

    @property
    def needs(self) -> dict[str, Wanted]:
        """Name the models that are given by a recipe."""
        both = {_THERE: self.there, _BACK: self.back}
        return {name: model for name, model in both.items() if not isinstance(model, str)}

    def with_runs(self, folders: Mapping[str, Path]) -> RoundTrip:
        """Return the augmenter that translates with runs."""
        knobs = (("there", _THERE), ("back", _BACK))
        places: dict[str, Any] = {
            knob: str(folders[name]) for knob, name in knobs if name in folders
        }
        return dataclasses.replace(self, **places)

    def _models(self) -> tuple[str, str]:
        assert isinstance(self.there, str) and isinstance(self.back, str)  # trained by now
        return self.there, self.back

    @property
    def moves(self) -> tuple[Move, ...]:
        """Each chosen side is read and written."""
        return MOVES[self.side]

    def check(self, languages: Languages, trained: Mapping[str, Languages] | None = None) -> None:
        """Refuse runs that do not take the chosen sides there and back.

        A side whose name is no language's, such as `query`, can be in any.
        """
        (first, there), (second, back) = (
            (model, _languages(model))
            if isinstance(model, str)
            else (f"the {name}", (trained or {}).get(name))
            for name, model in ((_THERE, self.there), (_BACK, self.back))
        )
        for side in sorted({languages[read] for read, _ in self.moves}):
            coded = preparing.rules(side) == side
            if coded and there and there[0] != side:
                raise BadAugmentation(f"{first} reads {there[0]}, and the corpus has {side}")
            if coded and back and back[1] != side:
                raise BadAugmentation(f"{second} writes {back[1]}, and the corpus has {side}")
        if there and back and there != (back[1], back[0]):
            ways = f"goes from {there[0]} to {there[1]}, and {second} from {back[0]} to {back[1]}"
            raise BadAugmentation(f"{first} {ways}: that is not back")

    def identity(self, context: Context) -> Any:
        """Return which models translate; those to be trained follow from their recipes."""
        both = (self.there, self.back)
        return [_content(model, context) if isinstance(model, str) else None for model in both]

    @contextlib.contextmanager
    def open(self, context: Context) -> Iterator[Rewriter]:
        """Load both models."""
        there, back = (
            self._translator(name, prompt, copies, context)
            for name, prompt, copies in zip(
                self._models(), self.prompts, (1, self.copies), strict=True
            )
        )

        def rewrite(lines: Sequence[Line]) -> list[list[str]]:
            keys = [line.key for line in lines]
            middle = [texts[0] for texts in there([self._plain(line) for line in lines], keys)]
            # What did not arrive cannot come back: a model would make something up.
            arrived = [i for i, text in enumerate(middle) if text]
            rewritten: list[list[str]] = [[] for _ in lines]
            if arrived:
                came = back([middle[i] for i in arrived], [keys[i] for i in arrived])
                for i, texts in zip(arrived, came, strict=True):
                    rewritten[i] = [self._cut(one) for one in texts]
            return rewritten

        yield rewrite

    def _plain(self, line: Line) -> str:
        """Return a text as translation models read it: not tokenised."""
        if not self.tokenised:
            return line.text
        return text.detokenise(line.text.split(), self.tokenised)

    def _cut(self, one: str) -> str:
        """Return what came back as the corpus has it."""
        return text.moses(self.tokenised).tokenise(one) if self.tokenised else one

    def _translator(self, name: str, prompt: str, copies: int, context: Context) -> Translator:
        if _is_run(name):
            from augless import decoding

            search = decoding.Beam(size=self.size)
            return _of_run(name, context, search, copies)
        folder = pretrained.find(name, context.download)
        generator = generating.Generator(folder, context.device)
        manner = generating.Manner(copies=copies, beam=max(2, self.size))

        def translate(lines: Sequence[str], keys: Sequence[draws.Key]) -> list[list[str]]:
            asked = [prompt.replace("{text}", line) for line in lines]
            return generator.answers(asked, keys, manner)

        return translate


def _of_run(name: str, context: Context, search: Any, copies: int) -> Translator:
    """Open a run as a translator; the draws of a sampling search are keyed by seed and place."""
    if context.writer is None:
        raise ValueError("a run is needed, and no writer was given to open it: writer=augless.load")
    writer = context.writer(name)
    if hasattr(search, "n_best"):
        search = dataclasses.replace(search, n_best=copies)

    def translate(lines: Sequence[str], keys: Sequence[draws.Key]) -> list[list[str]]:
        translated: list[list[str]] = [[] for _ in lines]
        for side in sorted({key[-1] for key in keys}):
            mine = [i for i, key in enumerate(keys) if key[-1] == side]
            own = search
            if hasattr(search, "seed"):
                own = dataclasses.replace(search, seed=draws.number((context.seed, side)))
            texts = writer.texts([lines[i] for i in mine], own, places=[keys[i][1] for i in mine])
            for i, hypotheses in zip(mine, texts, strict=True):
                translated[i] = [_clean(one) for one in hypotheses]
        return translated

    return translate


def _clean(one: decoding.Text) -> str:
    """Return a translation on one line; what the limit of its length cut off is none."""
    return text.normalise(one.text) if one.hypothesis.finished else ""


def _check_copies(search: Any, copies: int) -> None:
    most = getattr(search, "size", copies if hasattr(search, "seed") else 1)
    if copies > most:
        raise BadAugmentation(
            f"copies is {copies}, and this search finds {most} for each text\n"
            f"write search=sampling, or search=beam search.size={copies}"
        )


def _is_run(name: str) -> bool:
    return (Path(name) / "run.json").is_file()


def _languages(name: str) -> tuple[str, str] | None:
    """Return the languages whose rules cut the two sides of a run; None if it is no run."""
    if not _is_run(name):
        return None
    source, target = runs.Run.open(name).codecs
    return source.tokeniser.language, target.tokeniser.language


def _check_run(run: Path, source: str, target: str) -> None:
    languages = _languages(str(run))
    if languages is None:
        raise runs.BadRun(f"{run} holds no run; make one with train, or name another folder")
    if languages != (preparing.rules(source), preparing.rules(target)):
        raise BadAugmentation(
            f"{run} goes from {languages[0]} to {languages[1]}; from {source} to {target} is needed"
        )


def _content(name: str, context: Context) -> str:
    """Return a SHA-256 of a run's best model, or of the files of a Hugging Face model."""
    if not _is_run(name):
        return pretrained.digest(pretrained.find(name, context.download))
    run = runs.Run.open(name)
    if run.result is None:
        raise BadAugmentation(f"{name} is not finished; train it to its end first")
    total = hashlib.sha256(run.fingerprint.encode())
    for key, tensor in sorted(run.best().tensors["model"].items()):
        total.update(key.encode() + tensor.numpy().tobytes())
    return total.hexdigest()

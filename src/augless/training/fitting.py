"""The loop: steps, records, validations and checkpoints until a run is finished."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace

import torch

from augless import models, runs
from augless.training.cautions import cautions
from augless.training.loop import NotFinite, Trainer
from augless.training.saved import Span
from augless.training.terms import Tally

Validate = Callable[[models.Model], Mapping[str, float]]
STAGE = "training"
"""what progress is told of"""


def fit(
    trainer: Trainer,
    run: runs.Run,
    *,
    validate: Validate,
    higher_is_better: bool,
    noise: float = -math.inf,
    watch: Mapping[str, Validate] | None = None,
    stop: Callable[[], bool] = lambda: False,
    max_minutes: float = math.inf,
    needed: Mapping[str, runs.Spent] | None = None,
    on_record: Callable[[runs.Logged], None] = lambda record: None,
    progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None,
) -> bool:
    """Train until the end or until asked to stop; return whether the run is finished.

    The caller holds the run's lock. The same call resumes where the last one stopped. `validate`
    gives the scores of a model, never weighted; the one named by `settings.metric` chooses the
    best model, the highest or the lowest, and `loss` decides between equals, as all scores below
    `noise` are. `watch` scores other splits at the same time, which choose nothing. `needed` is
    what was spent before: every epoch's record and the result repeat it. Every rank calls this; the
    first one writes.
    """
    ranks = trainer.ranks
    if run.result is not None:
        return True
    checkpoint = run.last()
    if checkpoint is not None:
        trainer.load(checkpoint)
    if ranks.first:
        run.rewind(trainer.at.records)
    session = _Session(
        trainer, run, validate, watch or {}, higher_is_better, noise, on_record, needed or {}
    )
    session.saved = None if checkpoint is None else checkpoint.step
    deadline = time.monotonic() + 60 * max_minutes
    settings = trainer.settings

    def halted() -> bool:
        return ranks.any(stop() or time.monotonic() >= deadline)

    # The caller's draws are none of our business.
    with torch.random.fork_rng(devices=[]), session.saying_what_is_left():
        while not session.over:
            at = trainer.at
            rows = settings.batch_rows(trainer.pairs, trainer.seed, at.epoch)
            while at.batch < len(rows):
                trainer.step(rows[at.batch])
                done = (at.epoch - 1) * len(rows) + at.batch
                progress(STAGE, done, settings.epochs * len(rows))
                if trainer.recent.steps >= settings.log_every:
                    session.log_interval()
                halt = halted()
                # Before a validation, too: it may take long, and a killer may not wait.
                if halt or at.step % settings.save_every == 0 or at.batch == len(rows):
                    session.save()
                if halt:
                    return False
            session.end_epoch()
            if not session.over and halted():
                return False
    session.finish()
    return True


def worked(device: torch.device) -> float:
    """Return seconds of work, from some point on: other programs on the machine do not count.

    Processor time per thread on a CPU; elsewhere the processor waits, so it is time on the wall.
    """
    if device.type != "cpu":
        return time.monotonic()
    return time.process_time() / torch.get_num_threads()


class _Session:
    """One call of `fit`: what is written to the run, and when."""

    def __init__(
        self,
        trainer: Trainer,
        run: runs.Run,
        validate: Validate,
        watch: Mapping[str, Validate],
        higher_is_better: bool,
        noise: float,
        on_record: Callable[[runs.Logged], None],
        needed: Mapping[str, runs.Spent],
    ) -> None:
        self.needed, self.watch = dict(needed), watch
        self.trainer, self.run, self.validate, self.on_record = trainer, run, validate, on_record
        self.sign, self.noise = 1.0 if higher_is_better else -1.0, noise
        self.said: set[tuple[str, int | None]] = set()
        self.saved: int | None = None
        """step of the last checkpoint"""
        self.clock = worked(trainer.device)
        self.interval = self.epoch = (time.monotonic(), trainer.at.tokens)

    @property
    def over(self) -> bool:
        at, settings = self.trainer.at, self.trainer.settings
        tired = 0 < settings.patience <= at.waited
        return at.epoch > settings.epochs or tired

    @contextlib.contextmanager
    def saying_what_is_left(self) -> Iterator[None]:
        """Say of a training that diverged what was saved, and how to go on from there."""
        try:
            yield
        except NotFinite as error:
            at, metric = self.trainer.at, self.trainer.settings.metric
            advice = "a lower training.optimizer.rate or training.clip"
            if self.saved is None:
                said = f"nothing of the run was saved; try {advice}"
            elif at.best is None:
                said = f"the checkpoint of step {self.saved} may have diverged too; try {advice}"
            else:
                said = f"the best model, of step {at.best_step} ({metric} {at.best:.4g}), is kept: "
                said += f"go on from it with training.start={self.run.folder}, {advice}"
            raise NotFinite(f"{error}\n{said}, in another folder (--run)") from None

    def log_interval(self) -> None:
        trainer = self.trainer
        record = trainer.record("interval", trainer.criterion.recent, trainer.recent)
        seconds, tokens = time.monotonic() - self.interval[0], trainer.at.tokens - self.interval[1]
        self._write(replace(record, tokens_per_second=tokens / max(seconds, 1e-9)))
        trainer.criterion.recent = [Tally() for _ in trainer.criterion.recent]
        trainer.recent = Span()
        self.interval = (time.monotonic(), trainer.at.tokens)

    def end_epoch(self) -> None:
        """Validate, keep the model if it is the best so far, and save."""
        trainer, at = self.trainer, self.trainer.at
        record = trainer.record("epoch", trainer.criterion.epoch, trainer.epoch)
        seconds = max(time.monotonic() - self.epoch[0], 1e-9)  # of this call
        self._check_parameters()
        trainer.model.eval()
        began = time.monotonic()
        try:
            scores = dict(self.validate(trainer.model))
            watched: dict[str, dict[str, float | None]] = {
                split: {**scored(trainer.model)} for split, scored in self.watch.items()
            }
        except FloatingPointError as error:
            raise NotFinite(f"validation after step {at.step}: {error}") from None
        self._spend()
        better = self._better(scores)
        record = replace(
            record,
            tokens_per_second=(at.tokens - self.epoch[1]) / seconds,
            scores=dict(scores),
            watched=watched,
            seconds=at.seconds,
            validation=time.monotonic() - began,
            needed=self.needed,
            cautions=tuple(self._cautions()),
        )
        self._write(record)
        if better:
            at.best, at.best_loss = scores[trainer.settings.metric], scores.get("loss")
            at.best_step, at.waited = at.step, 0
            best = runs.Best(step=at.step, epoch=at.epoch, scores=dict(scores))
            if trainer.ranks.first:
                self.run.save_best(trainer.weights(), asdict(best))
        else:
            at.waited += 1
        at.epoch, at.batch = at.epoch + 1, 0
        trainer.criterion.epoch = [Tally() for _ in trainer.criterion.epoch]
        trainer.epoch = Span()
        self.save()
        self.interval = self.epoch = (time.monotonic(), at.tokens)

    def save(self) -> None:
        self._check_parameters()
        self._spend()
        if self.trainer.ranks.first:
            self.run.save(self.trainer.checkpoint(), keep=self.trainer.settings.keep)
        self.saved = self.trainer.at.step
        self.trainer.ranks.any(False)  # whoever resumes reads what the first has written

    def finish(self) -> None:
        if not self.trainer.ranks.first:
            return
        at = self.trainer.at
        ended = runs.Outcome(
            steps=at.step,
            epochs=at.epoch - 1,
            samples=at.samples,
            tokens=at.tokens,
            seconds=at.seconds,
            best=self.run.kept(),
            needed=self.needed,
        )
        self.run.finish(asdict(ended))

    def _better(self, scores: Mapping[str, float]) -> bool:
        """Tell whether these scores are better than those of the best model so far."""
        at, metric = self.trainer.at, self.trainer.settings.metric
        if metric not in scores:
            known = ", ".join(scores)
            raise ValueError(f"training.metric is {metric!r}; validation gives {known}")
        score = scores[metric]
        if not math.isfinite(score):
            raise NotFinite(f"{metric} on the validation pairs is {score}")
        if at.best is None:
            return True
        # A text metric is about 0 in every epoch of a model that has just begun to learn.
        gain = self.sign * (max(score, self.noise) - max(at.best, self.noise))
        if gain or at.best_loss is None:
            return gain > 0
        return scores.get("loss", math.inf) < at.best_loss

    def _cautions(self) -> list[runs.Caution]:
        """Judge the epoch, and say each kind of caution once to whoever opened the run."""
        span, terms = self.trainer.epoch, self.trainer.criterion.terms
        shares = span.mean_shares(len(terms))
        judged = cautions(terms, shares, span.clipped / max(1, span.steps))
        for caution in judged:
            if (caution.kind, caution.term) not in self.said:
                self.run.warnings.append(str(caution))
                self.said.add((caution.kind, caution.term))
        return judged

    def _check_parameters(self) -> None:
        for name, parameter in self.trainer.parameters.items():
            if not bool(torch.isfinite(parameter).all()):
                raise NotFinite(f"parameter {name} is not finite after step {self.trainer.at.step}")

    def _spend(self) -> None:
        now = worked(self.trainer.device)
        self.trainer.at.seconds += now - self.clock
        self.clock = now

    def _write(self, record: runs.Logged) -> None:
        self.trainer.at.records += 1
        if self.trainer.ranks.first:
            self.run.log(record)
            self.on_record(record)

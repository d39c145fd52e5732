"""Texts to texts with a model of transformers, every draw keyed by its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from augless import text
from augless.augmentation import draws, pretrained

_BATCH = 16  # texts at once; fixed, so that the same texts always stand side by side
_CANDIDATES = 50  # words among which one is drawn


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a model's answer is looked for: by a beam, or drawn if there is a temperature."""

    copies: int
    beam: int = 1
    temperature: float = 0.0


class Generator:
    """A text-to-text or chat model of transformers."""

    def __init__(self, folder: Path, device: str) -> None:
        self.text_to_text = pretrained.is_text_to_text(folder)
        kind = "Seq2SeqLM" if self.text_to_text else "CausalLM"
        self.tokenizer, self.model = pretrained.load(folder, kind, device)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.tokenizer.padding_side = "right" if self.text_to_text else "left"
        self.longest = pretrained.longest(self.tokenizer, self.model)
        ends = self.model.generation_config.eos_token_id
        ends = self.tokenizer.eos_token_id if ends is None else ends
        self.ends = {*ends} if isinstance(ends, list) else {ends}

    def answers(
        self, prompts: Sequence[str], keys: Sequence[draws.Key], manner: Manner
    ) -> list[list[str]]:
        """Answer each prompt `copies` times, one line each."""
        answers: list[list[str]] = [[] for _ in prompts]
        spelt = [self._spelt(prompt) for prompt in prompts]
        order = sorted(range(len(prompts)), key=lambda i: (len(spelt[i]), i))
        for start in range(0, len(order), _BATCH):
            part = order[start : start + _BATCH]
            made = self._batch([spelt[i] for i in part], [keys[i] for i in part], manner)
            for place, texts in zip(part, made, strict=True):
                answers[place] = texts
        return answers

    def _spelt(self, prompt: str) -> str:
        """Write a prompt as the model was trained to read it."""
        if self.text_to_text or not self.tokenizer.chat_template:
            return prompt
        messages = [{"role": "user", "content": prompt}]
        written: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return written

    def _batch(
        self, prompts: Sequence[str], keys: Sequence[draws.Key], manner: Manner
    ) -> list[list[str]]:
        import torch

        inputs = self.tokenizer(
            list(prompts),
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=self.longest,
            add_special_tokens=self.text_to_text or not self.tokenizer.chat_template,
            return_token_type_ids=False,
        ).to(self.model.device)
        read = int(inputs["input_ids"].shape[1])
        lengths = inputs["attention_mask"].sum(1).tolist()
        limits = [self._limit(length) for length in lengths]
        knobs: dict[str, Any] = {
            "do_sample": False,
            "num_beams": manner.beam,
            "num_return_sequences": manner.copies if manner.beam > 1 else 1,
            "max_new_tokens": max(limits),
            "pad_token_id": self.tokenizer.pad_token_id,
        }
        if manner.temperature > 0:
            copies = manner.copies
            inputs = {k: v.repeat_interleave(copies, 0) for k, v in inputs.items()}
            own = [(*key, copy) for key in keys for copy in range(copies)]
            knobs["logits_processor"] = [_Drawn(own, manner.temperature)]
        with torch.inference_mode(), pretrained.quiet():
            ids = self.model.generate(**inputs, **knobs)
        rows = ids[:, 1 if self.text_to_text else read :].tolist()  # behind what was given
        each = len(rows) // len(prompts)
        lines = [self._line(row, limits[at // each]) for at, row in enumerate(rows)]
        return [lines[at * each : (at + 1) * each] for at in range(len(prompts))]

    def _limit(self, length: int) -> int:
        """Return how many ids an answer may have: its own prompt decides, not its batch."""
        room = self.longest if self.text_to_text else self.longest - length
        return max(1, min(2 * length + 20, room))

    def _line(self, ids: list[int], limit: int) -> str:
        """Spell an answer on one line; one that did not end within its limit is none."""
        end = next((at for at, i in enumerate(ids[:limit]) if i in self.ends), None)
        if end is None:
            return ""
        spelt: str = self.tokenizer.decode(ids[:end], skip_special_tokens=True)
        return text.normalise(spelt)


class _Drawn:
    """Make the most probable word a draw: add Gumbel noise that a row's key and the step decide."""

    def __init__(self, keys: Sequence[draws.Key], temperature: float) -> None:
        self.keys, self.temperature, self.step = keys, temperature, 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        values, ids = (scores / self.temperature).topk(min(_CANDIDATES, scores.shape[1]))
        noise = np.stack(
            [
                draws.gumbels((*key, self.step), row)
                for key, row in zip(self.keys, ids.cpu().numpy(), strict=True)
            ]
        )
        self.step += 1
        noisy = values + torch.from_numpy(noise).to(values)
        return torch.full_like(scores, -torch.inf).scatter(1, ids, noisy)

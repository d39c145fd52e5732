"""Models of transformers, by name or folder: found without the network, loaded without pickle."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from augless import corpora
from augless.augmentation.augmenter import BadAugmentation

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
# What a model consists of; weights in other formats can run code when they are read.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")


def find(name: str, download: bool) -> Path:
    """Find the folder of a model: a folder, or a name in the Hugging Face cache, or fetched."""
    place = Path(name).expanduser()
    if name and place.is_dir():
        if not (place / "config.json").is_file():
            raise BadAugmentation(f"{name} is a folder without a model: it has no config.json")
        return place
    if not _NAME.fullmatch(name) or name[0] in ".~" or place.exists():
        raise BadAugmentation(f"there is no folder {name}; give a model's folder or its name")
    hub = _module("huggingface_hub")
    try:
        with quiet():
            return Path(
                hub.snapshot_download(
                    name, local_files_only=not download, allow_patterns=list(_FILES)
                )
            )
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        if download:
            reason = " ".join(str(error).split())[:200]
            raise BadAugmentation(f"the model {name!r} could not be fetched: {reason}") from None
        raise BadAugmentation(
            f"the model {name!r} is neither a folder nor in the Hugging Face cache\n"
            "fetch it with augless augment --download, or give the folder of one"
        ) from None


def digest(folder: Path) -> str:
    """Return a SHA-256 over the files of a model."""
    total = hashlib.sha256()
    for path in sorted({path for form in _FILES for path in folder.glob(form)}):
        total.update(path.name.encode() + b"\0" + corpora.reading.digest(path))
    return total.hexdigest()


def load(folder: Path, kind: str, device: str) -> tuple[Any, Any]:
    """Load the tokenizer and the model of a folder, as a kind of `AutoModelFor...`.

    A model that lacks some of its weights is refused: they would be random.
    """
    from augless import training

    library, torch = transformers(), importlib.import_module("torch")
    where = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            tokenizer = library.AutoTokenizer.from_pretrained(folder, **where)
            model, told = getattr(library, f"AutoModelFor{kind}").from_pretrained(
                folder, **where, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
    except Exception as error:
        # Whatever a foreign folder brings about in a foreign library: the folder is to blame.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if reason.startswith("Unrecognized configuration class"):
            raise BadAugmentation(
                f"{folder} holds another kind of model than is needed here: {_NEEDED[kind]}"
            ) from None
        raise BadAugmentation(f"{folder} cannot be used: {reason}") from None
    if missing := sorted(told["missing_keys"]):
        raise BadAugmentation(
            f"{folder} has no weights for {missing[0]}, and {len(missing) - 1} more\n"
            f"it was not trained as what is needed here: {_NEEDED[kind]}"
        )
    if not tokenizer.is_fast:
        raise BadAugmentation(f"{folder} has no tokenizer.json; save its fast tokenizer there")
    # The device is checked by whoever reads the command line.
    return tokenizer, model.to(training.choose_device(device)).eval()  # type: ignore[arg-type]


_NEEDED = {
    "MaskedLM": "a masked language model",
    "Seq2SeqLM": "a text-to-text model",
    "CausalLM": "a language model",
}


def is_text_to_text(folder: Path) -> bool:
    """Tell whether a model has an encoder and a decoder, by its configuration."""
    try:
        with quiet():
            config = transformers().AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadAugmentation(f"{folder} cannot be used: {reason}") from None
    return bool(config.is_encoder_decoder)


def longest(tokenizer: Any, model: Any) -> int:
    """Return how many ids a model reads at most."""
    positions = getattr(model.config, "max_position_embeddings", None) or 10**9
    # Some count positions from the padding's id on, and have two that no text can use.
    return int(min(tokenizer.model_max_length, positions - 2, 4096))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from writing bars and advice to the terminal."""
    logging = transformers().utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    before = os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS")
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
        if before is None:
            os.environ.pop("HF_HUB_DISABLE_PROGRESS_BARS", None)


def transformers() -> Any:
    """Import transformers."""
    return _module("transformers")


def _module(name: str) -> Any:
    """Import a package that is an extra and may be missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise BadAugmentation(
            f"this needs the package {name}; pip install 'augless[augment]'"
        ) from None

"""Models of transformers made on the spot: random weights, and tokenizers learnt from a text."""

import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from augless.augmentation import pretrained

LINES = [
    "Der alte Mann liest ein Buch im Garten.",
    "Die junge Frau trinkt einen Kaffee, aber sie schläft nicht!",
    "Ein Kind spielt mit dem Hund und der Katze.",
    "Wir gehen heute in die Stadt und kaufen das Brot.",
] * 8
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def wordpiece(lowercase=False):
    """Make a tokenizer as BERT has it."""
    normaliser = normalizers.BertNormalizer(lowercase=lowercase)
    cutter = pre_tokenizers.BertPreTokenizer()
    lines = [normaliser.normalize_str(line) for line in LINES]
    known = sorted({word for line in lines for word, _ in cutter.pre_tokenize_str(line)})
    letters = sorted({*"".join(known), *"abcdefghijklmnopqrstuvwxyz"})
    # Not learnt by the library, which gives other pieces from run to run.
    pieces = [*BERT, *letters, *(f"##{letter}" for letter in letters), *known]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normaliser, cutter
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made, {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }


def bytelevel():
    """Make a tokenizer as RoBERTa has it: a word's first piece begins with its space."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learner = trainers.BpeTrainer(
        vocab_size=500, special_tokens=ROBERTA, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(LINES, learner)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made, {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "mask_token": "<mask>",
    }


def metaspace():
    """Make a tokenizer as XLM-R has it: a word's first piece begins with a mark for its space."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    learner = trainers.BpeTrainer(vocab_size=300, special_tokens=ROBERTA, show_progress=False)
    made.train_from_iterator(LINES, learner)
    return made, bytelevel()[1]


TOKENIZERS = {"wordpiece": wordpiece, "bytelevel": bytelevel, "metaspace": metaspace}


def saved(folder, model, tokenizer, **knobs):
    """Write a model and its tokenizer into a folder."""
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **knobs)
    with pretrained.quiet():
        model.save_pretrained(folder)
        wrapped.save_pretrained(folder)
    return folder


def maskless(folder):
    """Make a masked language model whose tokenizer knows no mask."""
    tokenizer, specials = wordpiece()
    specials.pop("mask_token")
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=16,
    )
    return saved(folder, transformers.BertForMaskedLM(config), tokenizer, **specials)


def masked(folder, tokens="wordpiece", positions=64, **knobs):
    """Make a masked language model; its logits are so close that rounding could change choices."""
    tokenizer, specials = TOKENIZERS[tokens](**knobs)
    torch.manual_seed(1)
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=positions,
        )
    )
    return saved(folder, model, tokenizer, **specials)


def text_to_text(folder):
    """Make a text-to-text model that writes words at random, but always the same."""
    tokenizer, _ = bytelevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    torch.manual_seed(2)
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=tokenizer.get_vocab_size(),
            d_model=32,
            d_kv=16,
            d_ff=64,
            num_layers=1,
            num_heads=2,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    )
    model.generation_config.exponential_decay_length_penalty = (4, 3.0)  # so that it ends
    model.generation_config.suppress_tokens = [0, 1, 3, 4]  # and writes words
    tokens = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return saved(folder, model, tokenizer, model_max_length=64, **tokens)


def chat(folder):
    """Make a language model with a chat template."""
    tokenizer, _ = bytelevel()
    tokenizer.post_processor = processors.ByteLevel()
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=128,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
        )
    )
    model.generation_config.exponential_decay_length_penalty = (4, 3.0)
    template = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"
    tokens = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return saved(folder, model, tokenizer, chat_template=template, **tokens)


def cached(folder, name, root):
    """Put a model's folder into a cache of the Hugging Face hub, under a name."""
    place = root / f"models--{name.replace('/', '--')}"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots").mkdir()
    (place / "snapshots" / commit).symlink_to(folder)

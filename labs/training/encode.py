"""Encode rows as tokens. Needs the package tokenizers, which .venv-train contains and .venv
lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer

from core.base.errors import UserError
from labs.training.chat import Chat
from labs.training.rows import Line


@dataclass(frozen=True)
class Tokens:
    """A text to train on."""

    tokens: list[int]
    weights: list[float]  # the weight of each token in the loss (0 in the prompt)
    # index of a drawn digit -> probabilities of 0 to 9
    digits: dict[int, list[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)


Passes = Sequence[Sequence[Tokens]]  # the rows of each pass over the data, in the order of training


def encoded(folder: Path, rows: Sequence[Line], longest: int) -> tuple[list[Tokens], int]:
    """Encode `rows` for the model in `folder`. Return the encoded rows of at most `longest` tokens,
    and the number of longer rows. No row is cut. Control tokens in a reply become plain text.
    Raises UserError if all rows are too long, or the token that ends a turn is unknown."""
    chat, tokenizer = Chat.of(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    end = tokenizer.token_to_id(chat.end)
    if end is None:
        raise UserError(
            f"{chat.end!r:.40} ends a turn, but tokenizer.json lacks this token. Fetch the model "
            "again"
        )
    texts = []
    for row in rows:
        prompt, reply = chat.texts(row)
        tokenizer.encode_special_tokens = False  # as servers encode a prompt
        given: list[int] = tokenizer.encode(prompt, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True  # control tokens become plain text
        trained = [*tokenizer.encode(reply, add_special_tokens=False).ids, end]
        texts.append(Tokens(given + trained, [0.0] * len(given) + [1.0] * len(trained)))
    if not (kept := [text for text in texts if len(text) <= longest]):
        shortest = min(map(len, texts))
        raise UserError(
            f"every row has over {longest:,} tokens (the shortest row has {shortest:,}). Use "
            "shorter rows"
        )
    return kept, len(texts) - len(kept)

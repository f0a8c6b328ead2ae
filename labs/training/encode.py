"""Rows as tokens. It imports tokenizers, which the harness lacks."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from core.base.errors import UserError
from labs.training.chat import Chat
from labs.training.rows import Row


@dataclass(frozen=True)
class Encoded:
    """`asked` is given; `said` is trained on, the end of the turn with it."""

    asked: list[int]
    said: list[int]

    def __len__(self) -> int:
        return len(self.asked) + len(self.said)


def encoded(tokenizer: Tokenizer, chat: Chat, rows: Sequence[Row], longest: int) -> tuple[list[Encoded], int]:
    """Those of `rows` that are no longer than `longest` tokens, and the number of the others: none is cut. A row's
    answer is text: what looks like a token of control in it is none. Raises UserError where none is left."""
    end = tokenizer.token_to_id(chat.end)
    if end is None:
        raise UserError(f"{chat.end!r:.40} ends a turn and is no token of the model's tokenizer.json. Fetch it again")
    texts = []
    for row in rows:
        asked, said = chat.texts(row)
        tokenizer.encode_special_tokens = False  # as servers read a prompt
        given = tokenizer.encode(asked, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True  # as text, that is
        texts.append(Encoded(given, [*tokenizer.encode(said, add_special_tokens=False).ids, end]))
    kept = [text for text in texts if len(text) <= longest]
    if not kept:
        shortest = min(map(len, texts))
        raise UserError(f"each row is longer than {longest:,} tokens, the shortest {shortest:,}. Give shorter ones")
    return kept, len(texts) - len(kept)

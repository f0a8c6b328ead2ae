"""Encode rows as tokens. Needs tokenizers, which the harness does not install."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from core.base.errors import UserError
from labs.training.chat import Chat
from labs.training.rows import Row


@dataclass(frozen=True)
class Encoded:
    """The tokens of the prompt, and of the reply, which is trained on with the end of its turn."""

    prompt: list[int]
    reply: list[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.reply)


def encoded(tokenizer: Tokenizer, chat: Chat, rows: Sequence[Row], longest: int) -> tuple[list[Encoded], int]:
    """Encode the rows of at most `longest` tokens, and count the longer ones: none is cut. A reply is plain text, even
    if it looks like a control token. Raises UserError if no row is left."""
    end = tokenizer.token_to_id(chat.end)
    if end is None:
        raise UserError(f"{chat.end!r:.40} ends a turn, but is no token of the model's tokenizer.json. Fetch it again")
    texts = []
    for row in rows:
        prompt, reply = chat.texts(row)
        tokenizer.encode_special_tokens = False  # as servers read a prompt
        given = tokenizer.encode(prompt, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True  # control tokens become plain text
        texts.append(Encoded(given, [*tokenizer.encode(reply, add_special_tokens=False).ids, end]))
    kept = [text for text in texts if len(text) <= longest]
    if not kept:
        shortest = min(map(len, texts))
        raise UserError(f"each row is longer than {longest:,} tokens, the shortest {shortest:,}. Give shorter ones")
    return kept, len(texts) - len(kept)

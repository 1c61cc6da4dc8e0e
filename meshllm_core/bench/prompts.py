"""Prompts of a wanted length that no two requests share, so that no prompt cache can help."""

import random
from dataclasses import dataclass

# Short common words: almost every vocabulary has each of them, with its leading space, as one token.
_TEXT = """
    time year people way day man thing woman life child world school state family student group country
    problem hand part place case week company system program question work number night point home water room
    mother area money story fact month lot right study book eye job word business issue side kind head house
    service friend father power hour game line end member law car city community name president team minute
    idea kid body information back parent face others level office door health person art war history party
    result change morning reason research girl guy moment air teacher force education foot boy age policy
    music market sense nation plan college interest death experience effect use class control field role
    effort rate heart drug show leader light voice wife police mind price report decision son view
    relationship town road arm difference value building action season society tax director position player
    record paper space ground form event official matter center couple site project activity star table need
    court oil situation cost industry figure street image phone data picture practice piece land product
    doctor wall patient worker news test movie north love support technology step baby computer type
    attention film tree source organization hair look window culture chance brother energy period course
    summer plant opportunity term letter condition choice rule daughter south floor campaign material
    population call
"""
WORDS = tuple(_TEXT.split())


@dataclass(frozen=True)
class PromptMaker:
    """Makes prompts of one length in words. The same seed and labels give the same prompt."""

    words: int
    seed: int
    shared_words: int = 0
    """So many words at the beginning are the same in every prompt (to measure prefix reuse)."""

    def make(self, *labels: object) -> str:
        """A prompt that is different for different labels from its first unshared word on.

        Every prompt holds the same words in another order. Tokenizers split at spaces first, so the number
        of tokens is the same, which the server's own count confirms in every answer.
        """
        words = [WORDS[i % len(WORDS)] for i in range(self.words)]
        random.Random(f"{self.seed} shared").shuffle(words)
        tail = words[self.shared_words :]
        random.Random(f"{self.seed} {labels}").shuffle(tail)
        return "".join(f" {word}" for word in words[: self.shared_words] + tail)

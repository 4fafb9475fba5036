"""Answers without learning, to measure a trained model against: a stretch of the passage drawn by lot, and the longest
stretch that is new in the sentence which shares the most words with the question.

Neither looks at the accepted answers. Words are compared as SQuAD compares answers: lower case, no punctuation.
"""

import re
from collections.abc import Sequence

from ..data.kinds import Question
from ..data.text_files import lot
from .masked import sentences
from .scores import plain, squad

LONGEST = 8  # words of an answer that is drawn by lot; answers of SQuAD have three on average
_WORD = re.compile(r"\S+")


def drawn(question: Question, seed: int = 0) -> str:
    """A stretch of one to LONGEST words, its length and its place by lot: the same for a question every time."""
    words = [match.span() for match in _WORD.finditer(question.passage)]
    count = 1 + int(lot(f"length {question.id}", seed) * min(LONGEST, len(words)))
    first = int(lot(f"place {question.id}", seed) * (len(words) - count + 1))
    return question.passage[words[first][0] : words[first + count - 1][1]]


def longest_overlap(question: Question) -> str:
    """The sentence that shares the most words with the question, and of it the longest stretch that it does not ask.

    Of equally good sentences or stretches, the first.
    """
    asked = set(plain(question.question).split())
    sentence = max(sentences(question.passage), key=lambda one: len(asked & set(plain(one).split())))
    stretches: list[list[str]] = [[]]
    for word in sentence.split():
        bare = plain(word)
        if bare and bare in asked:
            stretches.append([])
        else:
            stretches[-1].append(word)
    return " ".join(max(stretches, key=len)) or sentence


def baselines(questions: Sequence[Question]) -> dict[str, float]:
    """Exact match and F1 of both, named so that they stand beside a model's own."""
    accepted = [[text for text, _ in question.answers] for question in questions]
    answers = {"random": [drawn(one) for one in questions], "overlap": [longest_overlap(one) for one in questions]}
    return {
        f"{name}_{figure}": value for name, given in answers.items() for figure, value in squad(given, accepted).items()
    }

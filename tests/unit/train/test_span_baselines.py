"""Answers without learning: by lot, and by shared words."""

from clearhead.data.kinds import Question
from clearhead.train.span_baselines import baselines, drawn, longest_overlap

PASSAGE = "The cat sat on a mat. Mary Ann bought a very red hat in Paris. It rained."


def asked(question: str, *answers: str, number: str = "1") -> Question:
    places = tuple((answer, PASSAGE.index(answer)) for answer in answers)
    return Question(number, "cats", question, PASSAGE, places)


def test_the_longest_new_stretch_of_the_sentence_that_shares_the_most_words_is_the_answer() -> None:
    assert longest_overlap(asked("What has Mary Ann bought in Paris?", "a very red hat")) == "a very red hat"


def test_a_sentence_that_says_nothing_new_is_given_whole() -> None:
    assert longest_overlap(asked("It rained?", "rained")) == "It rained."


def test_a_drawn_answer_stands_in_the_passage_and_is_the_same_every_time() -> None:
    questions = [asked("What?", "mat", number=str(number)) for number in range(200)]
    answers = [drawn(question) for question in questions]
    assert all(answer in PASSAGE for answer in answers)
    assert answers == [drawn(question) for question in questions]
    assert {len(answer.split()) for answer in answers} == set(range(1, 9))


def test_both_are_scored_as_squad_scores() -> None:
    figures = baselines([asked("What has Mary Ann bought in Paris?", "a very red hat", "red hat")])
    assert figures["overlap_em"] == figures["overlap_f1"] == 1.0
    assert 0 <= figures["random_f1"] <= 1 and "random_em" in figures

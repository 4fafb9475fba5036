"""The readers of named text sets: official layouts, published counts, missing files, and rows that are not right."""

import gzip
import json
import logging
import zipfile
from pathlib import Path

import pytest
import torch

from clearhead.data import text_files, text_labelled, text_parallel, text_running
from clearhead.errors import ClearheadError
from tests.minilm import data_set

MULTI30K = ("train", "val", "test_2016_flickr")
TMX = (
    '<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header/><body>'
    '<tu tuid="a:1"><tuv xml:lang="en"><seg>one\n two</seg></tuv><tuv xml:lang="ne"><seg>एक <b>दुई</b></seg></tuv></tu>'
    '<tu tuid="a:2"><tuv xml:lang="en"><seg>alone</seg></tuv></tu></body></tmx>'
)


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        raw = content if isinstance(content, bytes) else content.encode()
        file.write_bytes(gzip.compress(raw) if name.endswith(".gz") and isinstance(content, str) else raw)
    return root


def refused(reader, *args: object, **options: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        reader(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def sizes(dataset) -> dict[str, int]:
    return {name: len(part) for name, part in dataset.parts.items()}


OFFICIAL = {
    "sst2": (text_labelled.sst2, "sst2_glue", {"train": 67349, "valid": 872, "test": 1821}),
    "mrpc": (text_labelled.mrpc, "mrpc", {"train": 4076, "test": 1725}),
    "stsb": (text_labelled.stsb, "stsb", {"train": 5749, "valid": 1500, "test": 1379}),
    "rte": (text_labelled.rte, "rte", {"train": 2490, "valid": 277}),
    "cola": (text_labelled.cola, "cola", {"train": 8551, "valid": 527 + 516}),
    "squad": (text_labelled.squad, "squad_dev", {"valid": 10570}),
    "flores": (text_parallel.flores, "flores_v1", {"valid": 2559, "devtest": 2835, "test": 2924}),
    "ntrex": (text_parallel.ntrex, "ntrex", {"test": 1997}),
    "tico19": (text_parallel.tico19, "tico19_en_ne", {"test": 3071}),
    "wikitext2": (text_running.wikitext2, "wikitext2", {"train": 600, "valid": 60, "test": 60}),
    "tinystories": (text_running.tinystories, "tinystories_sample", {"train": 1728, "valid": 1}),
    "gutenberg": (text_running.gutenberg, "gutenberg_children", {"train": 40, "valid": 2, "test": 2}),
    "tinyshakespeare": (text_running.tinyshakespeare, "tinyshakespeare", {"train": 1, "valid": 1}),
}


@pytest.mark.parametrize(("reader", "folder", "counts"), OFFICIAL.values(), ids=OFFICIAL)
def test_the_official_files_have_their_published_counts_and_no_bad_row(reader, folder, counts):
    dataset = reader(data_set(folder))
    assert sizes(dataset) == counts
    assert not [note for note in dataset.notes if " of " in note and "left out: " in note]


def test_the_classes_of_the_official_files_have_their_published_counts():
    positives = {
        "sst2_glue": (text_labelled.sst2, "positive", {"train": 37569, "valid": 444}),
        "rte": (text_labelled.rte, "entailment", {"train": 1249, "valid": 146}),
        "cola": (text_labelled.cola, "acceptable", {"train": 6023, "valid": 365 + 354}),
        "mrpc": (text_labelled.mrpc, "paraphrase", {"train": 2753, "test": 1147}),
    }
    for folder, (reader, name, counts) in positives.items():
        dataset = reader(data_set(folder))
        number = dataset.classes.index(name)
        assert {part: int((dataset.parts[part].labels == number).sum()) for part in counts} == counts


def test_multi30k_and_tatoeba_are_whole_and_tatoeba_shares_no_sentence_between_its_parts():
    multi30k = text_parallel.multi30k(data_set("multi30k"), source="de", target="cs")
    assert sizes(multi30k) == {"train": 29000, "valid": 1014, "test": 1000, "test_2018_flickr": 1071}
    assert multi30k.languages == ("de", "cs") and "no part test_2017_flickr in de and cs" in multi30k.notes
    tatoeba = text_parallel.tatoeba(data_set("tatoeba_deu_eng"))
    assert sum(sizes(tatoeba).values()) == 169813 and min(sizes(tatoeba).values()) > 3000
    for side in ("sources", "targets"):
        seen = {part: set(getattr(rows, side)) for part, rows in tatoeba.parts.items()}
        assert not seen["train"] & (seen["valid"] | seen["test"]) and not seen["valid"] & seen["test"]


def test_wikitext2s_articles_are_the_file_and_its_words_are_the_published_number():
    folder = data_set("wikitext2")
    dataset = text_running.wikitext2(folder)
    for part, words in {"train": 2088628, "valid": 217646, "test": 245569}.items():
        text = "".join(dataset.parts[part].documents)
        assert text.encode() == gzip.decompress((folder / "wikitext2" / f"{part}.txt.gz").read_bytes())
        assert len(text.split()) + text.count("\n") == words
    assert all(article.startswith(" \n = ") for article in dataset.parts["train"].documents)


def test_ticos_translation_memory_says_what_its_table_says(tmp_path):
    folder = data_set("tico19_en_ne")
    table = text_parallel.tico19(folder).parts["test"]
    (tmp_path / "tico19").mkdir()
    (tmp_path / "tico19" / "all.en-ne.tmx.zip").symlink_to(folder / "tico19_en_ne" / "all.en-ne.tmx.zip")
    memory = text_parallel.tico19(tmp_path).parts["test"]
    assert list(memory.sources) == list(table.sources) and list(memory.targets) == list(table.targets)


def test_squad_split_by_article_shares_none_and_loses_none():
    dataset = text_labelled.squad(data_set("squad_dev"), split="article")
    articles = [{row.article for row in part.rows} for part in dataset.parts.values()]
    assert sum(map(len, articles)) == 48 == len(set.union(*articles)) and sum(sizes(dataset).values()) == 10570
    row = dataset.parts["test"].rows[0]
    assert all(row.passage[at:].startswith(answer) for answer, at in row.answers)


def test_the_word_lists_have_their_published_lengths():
    dataset = text_labelled.wordsim(data_set("wordsim"))
    assert {name: len(dataset.parts[name]) for name in ("WS-353-ALL", "SIMLEX-999", "RG-65")} == {
        "WS-353-ALL": 353,
        "SIMLEX-999": 999,
        "RG-65": 65,
    }
    assert dataset.kind == "scored" and dataset.parts["RG-65"].labels.dtype == torch.float32


def test_sst2_is_read_as_glue_ships_it_and_a_test_without_labels_is_no_part(tmp_path):
    rows = 'sentence\tlabel\na "b \t1\nc\t0\n'
    write(tmp_path, {"SST-2/train.tsv": rows, "SST-2/dev.tsv": rows, "SST-2/test.tsv": "index\tsentence\n0\ta\n"})
    dataset = text_labelled.sst2(tmp_path)
    assert list(dataset.parts) == ["train", "valid"] and text_labelled.UNLABELLED in dataset.notes
    assert list(dataset.parts["train"].texts) == ['a "b', "c"] and dataset.parts["train"].labels.tolist() == [1, 0]
    assert dataset.classes == ("negative", "positive") and str(dataset).startswith("sst2: labelled, 2 classes (train 2")
    labelled = text_labelled.sst2(write(tmp_path, {"SST-2/test-labeled.tsv": rows}))
    assert sizes(labelled) == {"train": 2, "valid": 2, "test": 2} and labelled.notes == ()


def test_a_set_is_also_found_in_the_folder_itself(tmp_path):
    rows = "sentence\tlabel\na\t1\n"
    assert len(text_labelled.sst2(write(tmp_path, {"train.tsv": rows, "dev.tsv": rows})).parts["train"]) == 1


def test_bad_rows_are_left_out_counted_named_and_logged(tmp_path, caplog):
    heading = "index\tsentence1\tsentence2\tlabel\n"
    bad = "1\ta\tb\n\n2\ta\t \tentailment\n3\ta\tb\tmaybe\n"
    good = "0\ta\tb\tnot_entailment\r\n"
    write(tmp_path, {"RTE/train.tsv": heading + good + bad, "RTE/dev.tsv": heading + good})
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        dataset = text_labelled.rte(tmp_path)
    part = dataset.parts["train"]
    assert len(part) == 1 and part.labels.tolist() == [1] and list(part.seconds or ()) == ["b"]
    assert dataset.notes[1] == (
        f"{tmp_path / 'RTE/train.tsv'}: 4 of 5 rows left out: line 3: 3 fields, not 4; line 4: 1 fields, not 4; "
        "line 5: a text is empty; line 6: the label is 'maybe', not entailment or not_entailment"
    )
    assert "4 of 5 rows left out" in caplog.text


def test_a_table_with_another_heading_or_no_good_row_is_refused(tmp_path):
    write(tmp_path, {"SST-2/train.tsv": "index\tsentence\n0\ta\n", "SST-2/dev.tsv": "sentence\tlabel\na\t1\n"})
    assert "must begin with 'sentence\\tlabel', not with 'index" in refused(text_labelled.sst2, tmp_path)
    write(tmp_path, {"SST-2/train.tsv": "sentence\tlabel\nx\n"})
    assert "holds no row that can be read (line 2: 1 fields, not 2)" in refused(text_labelled.sst2, tmp_path)


@pytest.mark.parametrize("layout", ["zip", "unpacked", "glue"])
def test_cola_is_read_from_its_zip_its_folder_and_glues_files(layout, tmp_path):
    line = "gj04\t{}\t*\tA sentence {}.\n"
    files = {
        "cola_public/raw/in_domain_train.tsv": line.format(1, "one"),
        "cola_public/raw/in_domain_dev.tsv": line.format(0, "two"),
        "cola_public/raw/out_of_domain_dev.tsv": line.format(1, "three"),
    }
    if layout == "zip":
        (tmp_path / "cola").mkdir()
        with zipfile.ZipFile(tmp_path / "cola" / "cola_public_1.1.zip", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    elif layout == "unpacked":
        write(tmp_path, files)
    else:
        whole = [*files.values()]
        write(tmp_path, {"CoLA/train.tsv": whole[0], "CoLA/dev.tsv": whole[1] + whole[2]})
    dataset = text_labelled.cola(tmp_path)
    assert list(dataset.parts["valid"].texts) == ["A sentence two.", "A sentence three."]
    assert dataset.parts["valid"].labels.tolist() == [0, 1] and list(dataset.parts["train"].texts) == [
        "A sentence one."
    ]


def test_a_broken_zip_and_a_broken_gzip_are_refused_in_one_line(tmp_path):
    write(tmp_path, {"cola/cola_public.zip": b"PK no zip"})
    assert "cola_public.zip can't be read: File is not a zip file" in refused(text_labelled.cola, tmp_path)
    with zipfile.ZipFile(tmp_path / "cola" / "cola_public.zip", "w") as archive:
        archive.writestr("other.tsv", "x")
    assert "There is no item named 'cola_public/raw/in_domain_train.tsv'" in refused(text_labelled.cola, tmp_path)
    whole = gzip.compress(b"{}" * 999)
    write(tmp_path, {"squad/dev-v1.1.json.gz": whole[:-9]})
    assert "dev-v1.1.json.gz can't be read: Compressed file ended" in refused(text_labelled.squad, tmp_path)
    write(tmp_path, {"squad/dev-v1.1.json.gz": b"plain"})
    assert "dev-v1.1.json.gz can't be read: Not a gzipped file" in refused(text_labelled.squad, tmp_path)


def test_a_text_that_unpacks_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LARGEST_TEXT", 1000)
    write(tmp_path, {"squad/dev-v1.1.json.gz": " " * 1001})
    assert "holds more than 1,000 bytes of text" in refused(text_labelled.squad, tmp_path)


def test_mrpc_and_stsb_become_classes_and_scores_and_name_their_bad_rows(tmp_path):
    heading = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    rows = heading + "1\t1\t2\ta\tb\n9\t1\t2\ta\tb\n"
    dataset = text_labelled.mrpc(
        write(tmp_path, {f"MSRParaphraseCorpus/msr_paraphrase_{part}.txt": rows for part in ("train", "test")})
    )
    part = dataset.parts["train"]
    assert part.labels.dtype == torch.int64 and part.labels.tolist() == [1] and list(part.seconds or ()) == ["b"]
    assert dataset.notes[0].startswith("no valid part") and "1 of 2 rows left out: line 3" in dataset.notes[1]
    row = "g\tf\t2012\t1\t2.5\ta\tb\n"
    scored = text_labelled.stsb(
        write(tmp_path, {f"stsbenchmark/sts-{part}.csv": row for part in ("train", "dev", "test")})
    )
    assert scored.kind == "scored" and scored.parts["valid"].labels.dtype == torch.float32 and scored.classes == ()


def test_word_pairs_need_two_words_and_a_number(tmp_path):
    dataset = text_labelled.wordsim(write(tmp_path, {"word-sim/EN-RG-65.txt": "gem jewel 3.94\ngem\nx y z\nx y inf\n"}))
    assert (
        dataset.parts["RG-65"].labels.tolist() == [pytest.approx(3.94)] and "EN-MC-30.txt is missing" in dataset.notes
    )
    (said,) = (note for note in dataset.notes if "left out" in note)
    assert "3 of 4 rows left out: line 2: 1 fields, not 3; line 3: the score is 'z', not a number; line 4" in said


def question(answer: str = "two", start: int = 4, **changes: object) -> dict[str, object]:
    return {"id": "q", "question": "How many?", "answers": [{"text": answer, "answer_start": start}], **changes}


def squad_file(*asked: object) -> str:
    passage = {"context": "one two three", "qas": asked}
    return json.dumps({"version": "1.1", "data": [{"title": "Numbers", "paragraphs": [passage]}]})


def test_squad_has_a_train_part_where_its_file_is_and_leaves_wrong_answers_out(tmp_path):
    wrong = [question(start=3), question(answers=[]), question(answer="")]
    write(tmp_path, {"squad/dev-v1.1.json": squad_file(question(), *wrong)})
    dataset = text_labelled.squad(tmp_path)
    assert sizes(dataset) == {"valid": 1} and "train-v1.1.json is missing" in dataset.notes[0]
    assert "3 of 4 questions left out: q: the answer 'two' is not at 3 of its passage; q: no" in dataset.notes[-1]
    assert dataset.parts["valid"].rows[0].answers == (("two", 4),)
    write(tmp_path, {"squad/train-v1.1.json": squad_file(question(), question())})
    assert sizes(text_labelled.squad(tmp_path)) == {"train": 2, "valid": 1}


def test_squads_dev_file_alone_can_be_dealt_out_by_article(tmp_path):
    articles = [json.loads(squad_file(question(), question()))["data"][0] | {"title": f"No {i}"} for i in range(20)]
    write(tmp_path, {"squad/dev-v1.1.json": json.dumps({"data": articles})})
    dataset = text_labelled.squad(tmp_path, split="article")
    assert sizes(dataset) == {"train": 28, "valid": 6, "test": 6} and "not comparable" in dataset.notes[0]
    titles = [{row.article for row in part.rows} for part in dataset.parts.values()]
    assert sum(map(len, titles)) == 20 == len(set.union(*titles))


def test_squad_in_another_form_or_by_another_split_is_refused(tmp_path):
    assert "take official or article; did you mean 'article'?" in refused(text_labelled.squad, tmp_path, "articel")
    write(tmp_path, {"squad/dev-v1.1.json": '{"data": [{"title": "x"}]}'})
    assert "is not in SQuAD's form: KeyError 'paragraphs'" in refused(text_labelled.squad, tmp_path)
    write(tmp_path, {"squad/dev-v1.1.json": '{"data": 3}'})
    assert "is not in SQuAD's form: TypeError" in refused(text_labelled.squad, tmp_path)
    write(tmp_path, {"squad/dev-v1.1.json": squad_file(question(start=1))})
    assert "holds no question that can be read (q: the answer" in refused(text_labelled.squad, tmp_path)


def test_multi30k_is_read_packed_or_not_and_empty_sides_are_left_out(tmp_path):
    write(tmp_path, {f"multi30k/raw/{part}.en.gz": "A dog.\n\nA\u2028cat.\n" for part in MULTI30K})
    write(tmp_path, {f"multi30k/data/task1/raw/{part}.de": "Ein Hund.\nx\nKatze.\n" for part in MULTI30K})
    dataset = text_parallel.multi30k(tmp_path)
    assert list(dataset.parts["train"].sources) == ["A dog.", "A\u2028cat."]
    assert dataset.notes[0] == "no part test_2017_flickr in en and de"
    assert dataset.notes[-1].endswith("1 of 3 pairs left out: line 2: a side is empty")


def test_parallel_files_of_different_lengths_are_refused_with_both_counts(tmp_path):
    write(tmp_path, {"ntrex/newstest2019-src.eng.txt": "a\nb\n", "ntrex/newstest2019-ref.nep.txt": "क\n"})
    message = refused(text_parallel.ntrex, tmp_path)
    assert "nep.txt has 1 lines and " in message and "eng.txt has 2: they must match line by line" in message


def test_a_language_that_a_set_lacks_is_refused_with_those_it_has(tmp_path):
    assert "multi30k has no language 'it': it has en, de, fr, cs" in refused(text_parallel.multi30k, tmp_path, "it")
    assert refused(text_parallel.flores, tmp_path, "en", "en") == "flores: source and target are both 'en'"


def test_tatoeba_keeps_pairs_that_share_a_sentence_together_whatever_their_order(tmp_path):
    chains = [(f"No {i}.\tZahl {i}.\tCC-BY", f"no {i}\tZiffer {i}", f"Digit {i}\tZiffer, {i}!") for i in range(300)]
    rows = [row for chain in chains for row in chain]
    dataset = text_parallel.tatoeba(write(tmp_path, {"deu-eng/deu.txt": "\n".join(rows) + "\nalone\n"}))
    assert "1 of 901 pairs left out: line 901: 1 fields, not 2 or 3" in dataset.notes[1]
    part_of = {text: part for part, pairs in dataset.parts.items() for text in pairs.targets}
    assert all(len({part_of[row.split("\t")[1]] for row in chain}) == 1 for chain in chains)
    assert min(sizes(dataset).values()) > 3
    backwards = text_parallel.tatoeba(write(tmp_path, {"deu-eng/deu.txt": "\n".join(rows[::-1])}), "de", "en")
    assert {text: part for part, pairs in backwards.parts.items() for text in pairs.sources} == part_of


def test_flores_is_read_in_either_direction(tmp_path):
    files = {f"flores_test_sets/wikipedia.{part}.ne-en.en": "a\n" for part in ("dev", "devtest", "test")}
    files |= {f"flores_test_sets/wikipedia.{part}.ne-en.ne": "क\n" for part in ("dev", "devtest", "test")}
    write(tmp_path, files)
    assert list(text_parallel.flores(tmp_path).parts["valid"].sources) == ["क"]
    assert list(text_parallel.flores(tmp_path, "en", "ne").parts["devtest"].sources) == ["a"]


def test_tico_is_read_from_its_table_or_its_translation_memory(tmp_path):
    memory = text_parallel.tico19(write(tmp_path, {"tico19/all.en-ne.tmx": TMX}))
    assert list(memory.parts["test"].sources) == ["एक दुई"] and list(memory.parts["test"].targets) == ["one two"]
    assert "1 of 2 pairs left out: a:2: a side is empty" in memory.notes[-1]
    table = text_parallel.tico19(write(tmp_path, {"tico19/tico19.en-ne.tsv": "a:1\tone two\tएक दुई\nbad\n"}), "en", "ne")
    assert list(table.parts["test"].sources) == ["one two"] and "line 2: 1 fields, not 3" in table.notes[-1]


def test_a_translation_memory_that_declares_entities_or_is_broken_is_refused(tmp_path):
    write(tmp_path, {"tico19/all.en-ne.tmx": '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx/>'})
    assert "declares entities or a document type" in refused(text_parallel.tico19, tmp_path)
    write(tmp_path, {"tico19/all.en-ne.tmx": TMX[:-9]})
    assert "is not valid XML" in refused(text_parallel.tico19, tmp_path)
    write(tmp_path, {"tico19/all.en-ne.tmx": "<tmx/>"})
    assert "holds no pair that can be read" in refused(text_parallel.tico19, tmp_path)


def test_tiny_shakespeare_is_cut_in_two_and_nothing_is_lost(tmp_path):
    text = "".join(chr(97 + i % 26) for i in range(100))
    dataset = text_running.tinyshakespeare(write(tmp_path, {"tinyshakespeare/input.txt": text}))
    assert dataset.parts["train"].documents[0] + dataset.parts["valid"].documents[0] == text
    assert len(dataset.parts["valid"].documents[0]) == 10
    assert "too short" in refused(text_running.tinyshakespeare, write(tmp_path, {"tinyshakespeare/input.txt": ""}))


def test_wikitexts_articles_begin_at_titles_alone(tmp_path):
    first = " \n = One = \n \n words = here = \n = A ; B = \n more \n \n = = Part = = \n \n text \n"
    second = " \n = Two and = more = \n \n text \n"
    files = {f"wikitext-2/wiki.{part}.tokens": first + second for part in ("train", "valid", "test")}
    assert list(text_running.wikitext2(write(tmp_path, files)).parts["test"].documents) == [first, second]


def test_tiny_stories_are_parted_at_their_mark_and_a_cut_one_is_left_out(tmp_path):
    files = {
        "tinystories_sample/v2gpt4_train_head10000lines.txt": "\nOne.\n<|endoftext|>\nTwo.\n<|endoftext|>\nThr",
        "tinystories_sample/v1_train_head.txt": "Old.\n\nOlder.\n",
        "tinystories_sample/v1_valid_head.txt": "Held out.\n",
    }
    dataset = text_running.tinystories(write(tmp_path, files))
    assert list(dataset.parts["train"].documents) == ["One.", "Two.", "Old.\n\nOlder.\n"]
    assert "the last story is cut short" in dataset.notes[1]
    whole = {f"TinyStories/TinyStoriesV2-GPT4-{part}.txt": "A.\n<|endoftext|>\nB.\n" for part in ("train", "valid")}
    assert list(text_running.tinystories(write(tmp_path, whole)).parts["valid"].documents) == ["A.", "B."]
    write(tmp_path, {"TinyStories/TinyStoriesV2-GPT4-valid.txt": "\n"})
    assert "holds no whole story" in refused(text_running.tinystories, tmp_path)


def test_books_are_split_by_their_numbers_and_empty_or_missing_ones_are_named(tmp_path):
    books = {"11": "Alice", "16": "Pan", "289": "Willows", "4018": " ", "100": "Other"}
    write(tmp_path, {f"gutenberg_children/books/{number}.txt": text for number, text in books.items()})
    dataset = text_running.gutenberg(tmp_path)
    assert list(dataset.parts["train"].documents) == ["Alice", "Other"]
    assert list(dataset.parts["valid"].documents) == ["Willows"] and list(dataset.parts["test"].documents) == ["Pan"]
    assert "book 7128 of test is missing" in dataset.notes and "4018.txt: empty" in dataset.notes[-1]


READERS = {
    name: getattr(module, name)
    for module, names in (
        (text_labelled, ("sst2", "mrpc", "stsb", "rte", "cola", "wordsim", "squad")),
        (text_parallel, ("multi30k", "tatoeba", "flores", "ntrex", "tico19")),
        (text_running, ("tinyshakespeare", "wikitext2", "tinystories", "gutenberg")),
    )
    for name in names
}


@pytest.mark.parametrize("name", READERS)
def test_missing_data_says_what_to_fetch_and_where_to_put_it(name, tmp_path, monkeypatch):
    message = refused(READERS[name], tmp_path)
    place = tmp_path / text_files.facts(name)["folders"][0]
    assert message.startswith(f"{place}/") and f"is missing: fetch {text_files.facts(name)['fetch']}" in message
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    assert f"set CLEARHEAD_DATA to one that holds {place.name}/" in refused(READERS[name])
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    assert refused(READERS[name]) == message


def test_a_text_that_is_not_utf8_is_refused_with_the_byte(tmp_path):
    write(tmp_path, {"tinyshakespeare/input.txt": b"ab\xff"})
    assert "input.txt is not UTF-8 text (byte 2)" in refused(text_running.tinyshakespeare, tmp_path)


def test_lines_end_at_newlines_alone_and_a_mark_at_the_start_is_dropped(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffa\x85b\r\nc\rd\u2028e\n\n".encode())
    assert text_files.read_lines(file) == ["a\x85b", "c\rd\u2028e", ""]
    assert "can't be read: No such file" in refused(text_files.read_lines, tmp_path / "none.txt")


def test_a_lot_depends_on_the_text_and_the_seed_alone():
    assert text_files.lot("day 2024-05-03") == 0.2986395545887061  # on every machine
    assert text_files.lot("a") == text_files.lot("a") != text_files.lot("a", seed=1) != text_files.lot("b", seed=1)
    drawn = [text_files.lot(str(number), seed=-1) for number in range(2000)]
    assert min(drawn) >= 0 and max(drawn) < 1 and abs(sum(drawn) / 2000 - 0.5) < 0.02

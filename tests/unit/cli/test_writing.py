"""`clearhead generate`, `translate` and `complete`: what they read, what they print, and what they refuse."""

import io
import json
import sys

import pytest

import clearhead
from clearhead.cli import main
from tests.minilm import tiny
from tests.writers import bytes_folder, letters, trained_translator, translator

SPEED = "tokens/s\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("writers")
    made = {
        "gpt": letters(place / "gpt"),
        "unsure": letters(place / "unsure", sureness=2.0),
        "lines": letters(place / "lines", "ab\ncd"),
        "bytes": bytes_folder(place / "bytes", "aé猫b"),
        "translator": trained_translator(place / "translator"),
        "t5": translator(place / "t5", "t5-small"),
        "bert": tiny(place / "bert"),
    }
    return {name: str(folder) for name, folder in made.items()}


class Terminal(io.StringIO):
    """Somebody is looking: every write is kept by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


@pytest.fixture
def run(monkeypatch, capsys, folders):
    """Run the command line in this process: (exit code, stdout, stderr). `@name` is the folder of that name."""

    def call(*words: object, stdin: str | bytes = "", terminal: Terminal | None = None) -> tuple[int, str, str]:
        given = stdin if isinstance(stdin, bytes) else stdin.encode()
        named = [folders[str(word)[1:]] if str(word).startswith("@") else str(word) for word in words]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["clearhead", *named])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            if terminal is not None:
                patch.setattr(sys, "stdout", terminal)
            with pytest.raises(SystemExit) as stopped:
                main()
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return call


def test_a_prompt_from_an_option_a_file_or_stdin_goes_on(run, tmp_path):
    (tmp_path / "prompt.txt").write_bytes("\ufeffabc\r\n".encode())
    for words, stdin in ((["-p", "abc"], ""), ([tmp_path / "prompt.txt"], ""), ([], "abc\n"), (["-"], "abc")):
        code, out, err = run("generate", "@gpt", *words, stdin=stdin)
        assert (code, out) == (0, "abcdefgh\n") and err.startswith("6 tokens in ") and err.endswith(SPEED)


def test_a_model_that_answers_does_not_repeat_the_source(run):
    code, out, _ = run("generate", "@translator", "-p", "the cat sees a dog")
    assert (code, out) == (0, "das Katze sieht ein Hund\n")


def test_several_texts_are_told_apart(run, folders):
    _, out, _ = run("generate", "@gpt", "-p", "g", "-p", "f", "--temperature", "0")
    assert out == "--- prompt 1\ngh\n--- prompt 2\nfgh\n"
    _, out, _ = run("generate", "@gpt", "--lines", stdin="g\n\nf\n")
    assert out == "--- prompt 1\ngh\n--- prompt 2\nfgh\n"
    _, out, _ = run("generate", "@unsure", "-p", "a", "-n", "2", "-l", "5", "--seed", "3")
    model = clearhead.load(folders["unsure"], device="cpu")
    expected = clearhead.generate(model, "a", samples=2, length=5, seed=3)
    assert out == "".join(f"--- sample {f.sample + 1}\na{f.text}\n" for f in expected)


def test_text_streams_to_a_terminal_by_whole_characters(run):
    screen = Terminal()
    run("generate", "@bytes", "-p", "a", "-l", "6", terminal=screen)
    assert screen.writes == ["aé", "猫", "b", "\n"]
    screen = Terminal()
    run("generate", "@gpt", "-p", "e", "-p", "a", terminal=screen)
    shown = "".join(screen.writes)
    assert shown == "--- prompt 1\nefgh\n--- prompt 2\nabcdefgh\n" and screen.writes[0] == "--- prompt 1\nef"
    second = next(text for text in screen.writes if "prompt 2" in text)
    assert second.startswith("--- prompt 2\nabcd")  # it waited for the first to end, and then went on live
    assert screen.writes.index(second) > 3 and screen.writes[-2:] == ["h", "\n"]


def test_control_characters_do_not_reach_a_terminal(run, tmp_path):
    folder = letters(tmp_path / "escape", "a\x1b[2Jb")
    screen = Terminal()
    run("generate", folder, "-p", "a", terminal=screen)
    assert "".join(screen.writes) == "a\\x1b[2Jb\n"
    assert run("generate", folder, "-p", "a")[1] == "a\x1b[2Jb\n"


def test_a_stop_string_may_name_a_new_line(run):
    assert run("generate", "@lines", "-p", "a", "--stop", "\\n")[1] == "ab\n"
    assert run("generate", "@gpt", "-p", "a", "--stop", "fg", "--stop", "de")[1] == "abc\n"


def test_generate_prints_one_json_object(run):
    code, out, err = run("generate", "@gpt", "-p", "e", "--json", "--logprobs", "2", "--stop", "x")
    said = json.loads(out)
    (result,) = said["results"]
    assert code == 0 and err.endswith(SPEED) and not said["random"] and not said["int8"]
    assert (said["temperature"], said["seed"], said["stop"], said["tokens"]) == (0.0, 0, ["x"], 4)
    assert (result["prompt"], result["text"], result["reason"]) == ("e", "fgh", "end")
    assert result["pieces"] == ["f", "g", "h", "<end>"] and len(result["tokens"]) == len(result["logprobs"]) == 4
    assert [len(best) for best in result["best"]] == [2] * 4 and result["best"][0][0]["piece"] == "f"
    assert result["logprob"] == pytest.approx(sum(result["logprobs"]))
    assert json.loads(run("generate", "@unsure", "-p", "e", "--top-k", "3", "--json")[1])["temperature"] == 1.0


def test_log_probabilities_are_a_table_with_the_first_choices(run):
    _, out, _ = run("generate", "@gpt", "-p", "f", "--logprobs", "1")
    lines = out.splitlines()
    assert lines[:3] == ["fgh", "", "token  logprob  chance  first choices"]
    assert lines[3].split() == ["g", "-0.000", "1.000", "g", "1.000"] and lines[5].split()[0] == "<end>"


def test_only_choices_are_written(run):
    assert run("generate", "@gpt", "-p", "c", "--choices", "ab", "--choices", "dh")[1] == "cdh\n"


def test_a_full_context_is_said_and_a_window_goes_past_it(run):
    _, out, err = run("generate", "@lines", "-p", "ab" * 7, "--choices", "cdcdcd", "-l", "6", "--window")
    assert out == "ab" * 7 + "cdcdcd\n" and "context" not in err
    folder = "@bytes"
    code, _, err = run("generate", folder, "-p", "a", "-l", "80")
    assert code == 0 and err.startswith("the context of 64 tokens is full: --window goes on past it\n64 tokens in ")
    _, out, err = run("generate", folder, "-p", "a", "-l", "80", "--window")
    assert "context" not in err and out.startswith("aé猫baé")


@pytest.mark.parametrize("command", ["generate", "translate"])
def test_teaching_shows_both_modes_beside_each_other(run, command):
    given = ("-p" if command == "generate" else "-t", "the cat")
    code, out, _ = run(command, "@translator", *given, "--teach", "das Hund")
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("target  chance  teacher forcing: guess")
    assert [line.split()[::2] for line in lines[1:3]] == [["das", "das", "das"], ["Hund", "Katze", "Katze"]]
    assert lines[-2].startswith("teacher forcing: shown the true words before, ") and " of 3 guesses" in lines[-2]
    assert lines[-1] == "testing: fed its own words, leaves the target at token 2"
    said = json.loads(run(command, "@translator", *given, "--teach", "das Katze", "--json")[1])
    assert said["first_difference"] is None and said["target"] == ["das", "Katze", "<end>"]
    assert said["forced"][0].keys() == {"piece", "chance", "target_chance"} and said["free"][1]["piece"] == "Katze"


LINES = "the cat sees a dog\n\na house\n"


def test_lines_are_translated_in_their_order_and_blank_ones_stay_blank(run, tmp_path):
    code, out, err = run("translate", "@translator", stdin=LINES)
    assert (code, out) == (0, "das Katze sieht ein Hund\n\nein Haus\n") and err.endswith(SPEED)
    assert run("translate", "@translator", "--greedy", "--batch", "1", stdin=LINES)[1] == out
    (tmp_path / "a.txt").write_text("dog\n")
    assert (
        run("translate", "@translator", tmp_path / "a.txt", "-t", "a", "--early-stopping", "true")[1] == "Hund\nein\n"
    )
    assert run("translate", "@translator", "-t", "cat", "--prefix", "the ")[1] == "das Katze\n"
    assert run("translate", "@t5", "-t", "cat", "--length", "3")[0] == 0


def test_the_n_best_come_with_line_and_score(run):
    rows = [line.split("\t") for line in run("translate", "@translator", "-n", "2", stdin=LINES)[1].splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert rows[0][2] == "das Katze sieht ein Hund" and rows[2][1:] == ["0.0000", ""]
    assert float(rows[0][1]) > float(rows[1][1])


def test_translate_prints_a_json_object_a_line(run):
    _, out, _ = run("translate", "@translator", "--json", "--align", "-n", "2", stdin=LINES)
    first, blank, _ = (json.loads(line) for line in out.splitlines())
    assert (first["line"], first["source"], len(first["translations"])) == (1, "the cat sees a dog", 2)
    best = first["translations"][0]
    assert best["text"] == "das Katze sieht ein Hund" and best["score"] == pytest.approx(best["logprob"] / 6)
    alignment = best["alignment"]
    assert alignment["source"] == ["the", "cat", "sees", "a", "dog"] and alignment["target"][-1] == "<end>"
    assert [len(row) for row in alignment["weights"]] == [5] * 6 and alignment["strongest"][:5] == [0, 1, 2, 3, 4]
    assert blank["translations"] == [{"text": "", "score": 0.0, "logprob": 0.0, "tokens": []}]
    assert "alignment" in json.loads(run("translate", "@translator", "--json", "-t", "a")[1])["translations"][0]


def test_alignments_are_shown_below_a_line(run):
    lines = run("translate", "@translator", "--align", "-t", "the cat")[1].splitlines()
    assert lines[0] == "das Katze" and lines[1].split()[:3] == ["das", "<-", "the"]
    assert lines[2].split()[:3] == ["Katze", "<-", "cat"] and len(lines) == 4


def test_the_whole_search_is_written_as_a_tree(run, tmp_path):
    code, _, _ = run("translate", "@translator", "--tree", tmp_path / "tree.json", "-b", "3", stdin=LINES)
    said = json.loads((tmp_path / "tree.json").read_text())
    assert code == 0 and said["beams"] == 3 and [line["line"] for line in said["lines"]] == [1, 3]
    nodes = said["lines"][1]["nodes"]
    path, at = [], said["lines"][1]["finished"][0]
    assert nodes[at]["fate"] == "finished" and nodes[at]["score"] == pytest.approx(nodes[at]["logprob"] / 3)
    while at is not None:
        path.append(nodes[at]["piece"])
        at = nodes[at]["parent"]
    assert path == ["<end>", "Haus", "ein"]
    assert {node["fate"] for node in nodes} <= {"followed", "pruned", "finished", "beaten", "late", "open"}


def test_a_bar_is_drawn_for_many_lines_and_answers_still_go_to_stdout(run, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    _, out, err = run("translate", "@translator", stdin="a\n" * 40)
    assert out == "ein\n" * 40 and "lines" in err and "%" in err
    _, out, err = run("generate", "@gpt", "--lines", stdin="g\n" * 40)
    assert out.count("gh\n") == 40 and "%" in err


def test_code_is_completed_at_a_position(run, tmp_path):
    (tmp_path / "x.txt").write_text("dd\na___\n")
    code, out, err = run("complete", "@lines", tmp_path / "x.txt", "--at", "2:2")
    assert (code, out) == (0, "b\n") and err.endswith(SPEED)
    assert run("complete", "@lines", "-", "--at", "1:2", "--block", stdin="a")[1] == "b\ncd\n"
    said = json.loads(run("complete", "@lines", tmp_path / "x.txt", "--at", "2:2", "--json", "--logprobs", "1")[1])
    assert (said["at"], said["read"], said["cut"], said["samples"][0]["text"]) == ([2, 2], 4, 0, "b")
    assert said["samples"][0]["reason"] == "stop" and said["samples"][0]["best"]
    _, out, err = run("complete", "@gpt", "-", "--at", "1:31", "-l", "4", stdin="d" * 30)
    assert out == "efgh\n" and err.startswith("the first 17 tokens of the file were left out: the model reads 13 ")
    _, out, _ = run("complete", "@unsure", "-", "--at", "1:2", "-n", "2", stdin="a")
    assert out.startswith("--- sample 1\n") and "--- sample 2\n" in out


def test_random_weights_must_be_asked_for_and_are_said(run):
    said = "clearhead: deck is an architecture without trained weights: give a trained folder, or --random\n"
    for words in (["generate", "deck", "-p", "This"], ["translate", "deck", "-t", "This"]):
        assert run(*words) == (2, "", said)
    code, out, err = run("generate", "deck", "--random", "-p", "This is", "-l", "3", "--seed", "4")
    assert code == 0 and out.startswith("This is ")
    assert err.startswith("deck (random weights, seed 4): what it writes means nothing\n")
    said = json.loads(run("generate", "deck", "--random", "-p", "This is", "-l", "3", "--json")[1])
    assert said["random"] is True and said["model"] == "deck (random weights, seed 0)"


def test_an_interruption_ends_with_what_was_written_and_exit_code_130(run, monkeypatch):
    generate = sys.modules["clearhead.tasks.generate"]
    ended = generate._Text.ends

    def interrupted(self, tokens):
        if len(tokens) == 3:
            raise KeyboardInterrupt
        return ended(self, tokens)

    monkeypatch.setattr(generate._Text, "ends", interrupted)
    code, out, err = run("generate", "@gpt", "-p", "a", "-p", "b")
    assert (code, out) == (130, "--- prompt 1\nabc\n--- prompt 2\nbcd\n") and err.endswith(SPEED)
    code, out, _ = run("generate", "@gpt", "-p", "a", "--json")
    assert code == 130 and json.loads(out)["results"][0]["reason"] == "interrupted"
    code, out, _ = run("complete", "@gpt", "-", "--at", "1:2", stdin="a")
    assert (code, out) == (130, "bc\n")


LONG = "the " * 30
WRONG = {
    "generate": {
        "an empty prompt": (["-p", ""], b"", "the prompt is empty: there is nothing to go on from"),
        "nothing piped in": ([], b"", "the prompt is empty: there is nothing to go on from"),
        "not UTF-8": ([], b"caf\xe9", "stdin is not UTF-8 text (byte 3)"),
        "no such file": (["/nowhere/x"], b"", "/nowhere/x can't be read: No such file or directory"),
        "both": (["x.txt", "-p", "a"], b"", "--prompt is the prompt itself: leave out the file and --lines"),
        "an unknown letter": (
            ["-p", "Z"],
            b"",
            "'Z' is not in this vocabulary of 9, and it has no token for the unknown",
        ),
        "NaN": (["-p", "a", "--temperature", "nan"], b"", "temperature must be at least 0, not nan"),
        "negative": (["-p", "a", "--temperature", "-0.5"], b"", "temperature must be at least 0, not -0.5"),
        "top-k": (["-p", "a", "--top-k", "0"], b"", "top_k must be a whole number of at least 1, not 0"),
        "random": (["-p", "a", "--random"], b"", "--random goes with a model's name: {folder} has weights of its own"),
        "two lessons": (
            ["-p", "a", "-p", "b", "--teach", "c"],
            b"",
            "--teach compares one prompt with its target: 2 were given",
        ),
        "no device": (["-p", "a", "--device", "meta"], b"", "the meta device computes nothing: use auto or cpu"),
        "too long": (
            ["-p", "a" * 17],
            b"",
            "the prompt has 17 tokens and the context is 16: shorten it, or ask for a window (--window)",
        ),
    },
    "translate": {
        "beams": (["--beams", "0"], b"a", "the number of beams must be a whole number of at least 1, not 0"),
        "n-best": (["-b", "2", "-n", "3"], b"a", "2 beams give 1 to 2 translations of a line, not 3"),
        "greedy": (["--greedy", "-b", "2"], b"a", "--greedy follows one sentence: leave out --beams 2"),
        "early": (["--early-stopping", "soon"], b"a", "--early-stopping is true, false or never, not 'soon'"),
        "nothing": ([], b"", "stdin: there is no text in it"),
        "not UTF-8": ([], b"a\n\xff", "stdin is not UTF-8 text (byte 2)"),
        "long": (["-t", "a", "-t", LONG], b"", "line 2 has 30 tokens and the context is 24: shorten it"),
        "tree": (
            ["--tree", "/nowhere/t.json"],
            b"a",
            "--tree takes a file named *.json in a folder that exists, not /nowhere/t.json",
        ),
        "two lessons": (["--teach", "a"], b"a\nb", "--teach compares one line with its translation: 2 were given"),
    },
    "complete": {
        "malformed": (["-", "--at", "2"], b"a", "--at takes LINE:COL, both counted from 1, such as 12:5, not '2'"),
        "no such line": (["-", "--at", "3:1"], b"a\n", "there is no line 3: the text has 2"),
        "no such column": (["-", "--at", "1:3"], b"a\n", "there is no column 3 in line 1: it has 1 to 2"),
        "nothing before": (["-", "--at", "1:1"], b"a\n", "there is no text before 1:1 to go on from"),
        "not UTF-8": (["-", "--at", "1:1"], b"\xff", "stdin is not UTF-8 text (byte 0)"),
    },
}
CASES = [(command, *case) for command, cases in WRONG.items() for case in cases.values()]
IDS = [f"{command}: {name}" for command, cases in WRONG.items() for name in cases]


@pytest.mark.parametrize(("command", "words", "stdin", "message"), CASES, ids=IDS)
def test_a_mistake_ends_in_one_line_and_exit_code_2(run, folders, command, words, stdin, message):
    model = "translator" if command == "translate" else "gpt"
    said = message.replace("{folder}", folders[model])
    assert run(command, f"@{model}", *words, stdin=stdin) == (2, "", f"clearhead: {said}\n")


@pytest.mark.parametrize("command", ["generate", "translate", "complete"])
def test_a_checkpoint_that_can_not_write_is_refused(run, command):
    given = {"generate": ["-p", "a"], "translate": ["-t", "a"], "complete": ["-", "--at", "1:2"]}[command]
    said = "clearhead: bert models don't write text: generating needs gpt, t5 or transformer\n"
    assert run(command, "@bert", *given, stdin="a") == (2, "", said)


@pytest.mark.parametrize("command", ["generate", "translate", "complete"])
def test_help_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0 and f"clearhead {command} path/to/" in " ".join(out.replace("│", " ").split())

/** Tokens are shown with their spaces visible; to be looked up they are spelt as they stand in a text. */
import type { ModelCard, Pass, Token } from "../../api/types";

export function spelt(shown: string): string {
  return shown.replaceAll("␣", " ").replaceAll("⏎", "\n").replaceAll("⇥", "\t").trim();
}

/** A word of the open pass to begin with: its longest token that is no mark, of those that `there` knows. */
export function firstWord(pass: Pass | null, side: "source" | "target", there?: ReadonlySet<number>): string | null {
  const tokens = pass?.tokens.tokens ?? pass?.tokens[side] ?? [];
  const words = tokens.filter((token: Token) => !token.special && spelt(token.shown) !== "" && (there?.has(token.id) ?? true));
  const longest = words.reduce<Token | null>((best, token) => (best && best.shown.length >= token.shown.length ? best : token), null);
  return longest ? `#${longest.id}` : null;
}

export interface Asked {
  word: string;
  sentences: string[];
}

/** What to compare before anything is typed: a word of two meanings, or the model's own example and its words turned round. */
export function firstSentences(card: Pick<ModelCard, "takes" | "example">): Asked {
  const example = card.example.source;
  if (card.takes.includes("source") && example) {
    const [, mark, rest] = /^(\S+: )?(.*)$/su.exec(example)!;
    const words = rest!.match(/[\p{L}\p{M}\p{N}]+/gu) ?? [rest!];
    const word = words.reduce((best, one) => (one.length > best.length ? one : best));
    return { word, sentences: [example, `${mark ?? ""}${[...words].reverse().join(" ")}`] };
  }
  const letters = card.example.text;
  if (letters && !/\s/u.test(letters)) return { word: letters[0]!, sentences: [letters, [...letters].reverse().join("")] }; // it knows no words
  return { word: "bank", sentences: ["The bank of the river was steep.", "The bank lent him the money.", "They sat on the bank of the stream."] };
}
